"""Rays and what they meet, in plain tensor operations that every device rounds the same way.

A vector is three tensors of one shape (batch, ray): each operation is one pass over memory.
A ray is not normalized; distances along it are counted in its own length.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.render import stage as st

Triple: TypeAlias = tuple[Tensor, Tensor, Tensor]
RayIndex: TypeAlias = tuple[Tensor, ...]
"""Batch numbers and ray numbers of some of the rays."""

Solids: TypeAlias = Float[Tensor, "batch solid column"]
Rows: TypeAlias = Float[Tensor, "batch column"]
Distances: TypeAlias = Float[Tensor, "batch ray"]

NEVER = 1e9
"""The distance at which a ray meets what it misses."""


def vector(component: Callable[[int], Tensor]) -> Triple:
    """Return the vector with these components."""
    return component(0), component(1), component(2)


def columns(rows: Rows, start: int) -> Triple:
    """Return three neighbouring columns as vectors that every ray of a picture shares."""
    return vector(lambda i: rows[:, start + i, None])


def dot(a: Triple, b: Triple) -> Tensor:
    """Return the inner product, rounded as it comes: nothing discrete may hang on it."""
    return torch.addcmul(torch.addcmul(a[0] * b[0], a[1], b[1]), a[2], b[2])


def unit(a: Triple) -> Triple:
    """Return the vector scaled to length one."""
    scale = 1 / torch.sqrt(dot(a, a) + 1e-20)
    return vector(lambda i: a[i] * scale)


def chosen(a: Triple, at: RayIndex, shape: torch.Size) -> Triple:
    """Return the vectors at some places, as a batch of single rays."""
    return vector(lambda i: a[i].expand(shape)[at][:, None])


def grid_rays(view: Rows, side: int) -> tuple[Triple, Triple]:
    """Return the eye and one ray per cell of a square grid; a ray is as long as its depth is 1."""
    # On the CPU, because CUDA divides by a number as if multiplying by its inverse.
    across = ((2 * torch.arange(side, dtype=view.dtype) + 1) / side - 1).to(view.device)
    u = across.expand(side, side).reshape(1, -1)
    v = -across[:, None].expand(side, side).reshape(1, -1)
    right, up, ahead = (columns(view, start) for start in (st.RIGHT, st.UP, st.FORWARD))
    ray = vector(lambda i: (ahead[i] + u * right[i]) + v * up[i])
    return columns(view, st.EYE), ray


def span(origin: Triple, ray: Triple, solid: Rows) -> tuple[Distances, Distances]:
    """Return where each ray enters and leaves a solid; a ray that misses enters after it leaves."""
    x, y, z = into_frame(vector(lambda i: origin[i] - columns(solid, st.CENTRE)[i]), solid)
    dx, dy, dz = into_frame(ray, solid)
    half = columns(solid, st.HALF)
    radius, round_ = solid[:, st.RADIUS, None], solid[:, st.ROUND, None]
    a = ((dx * dx + dy * dy) + round_ * (dz * dz)) + 1e-12
    b = (x * dx + y * dy) + round_ * (z * dz)
    c = ((x * x + y * y) + round_ * (z * z)) - radius * radius
    inside = b * b - a * c
    # Torch's float32 root is not rounded correctly on CPU; from float64 it is.
    root = inside.clamp_min(1e-20).double().sqrt().to(inside.dtype)
    enter = torch.where(inside < 0, NEVER, (-b - root) / a)
    leave = (root - b) / a
    for place, slope, reach in ((x, dx, half[0]), (y, dy, half[1]), (z, dz, half[2])):
        per = 1 / torch.where(slope.abs() < 1e-9, 1e-9, slope)
        middle, width = -place * per, reach * per.abs()
        enter, leave = torch.maximum(enter, middle - width), torch.minimum(leave, middle + width)
    return enter, leave


def into_frame(a: Triple, solid: Rows) -> Triple:
    """Turn a vector into the frame of a solid, which stands upright."""
    cosine, sine = solid[:, st.COSINE, None], solid[:, st.SINE, None]
    return cosine * a[0] + sine * a[1], cosine * a[1] - sine * a[0], a[2]


def nearest(
    solids: Solids, origin: Triple, ray: Triple
) -> tuple[Distances, Int[Tensor, "batch ray"]]:
    """Return how far each ray goes until it enters a solid, and which (-1: none)."""
    shape = torch.broadcast_shapes(origin[0].shape, ray[0].shape, (len(solids), 1))
    distance = ray[0].new_full(shape, NEVER)
    which = torch.full(shape, -1, device=solids.device)
    close = _close(solids, origin, ray, beyond_reach(solids, origin))
    solid, batch, place = close.nonzero(as_tuple=True)
    at = (batch, place)
    rows = solids[batch, solid]
    enter, leave = span(chosen(origin, at, shape), chosen(ray, at, shape), rows)
    hit = ((enter <= leave) & (enter > 0))[:, 0].nonzero()[:, 0]
    # Solid by solid, as a place may be hit by several.
    for number in range(solids.shape[1]):
        mine = hit[solid[hit] == number]
        at, met = (batch[mine], place[mine]), enter[mine, 0]
        nearer = met < distance[at]
        distance[at] = torch.where(nearer, met, distance[at])
        which[at] = torch.where(nearer, number, which[at])
    return distance, which


@torch.no_grad()
def blocked(
    solids: Solids,
    origin: Triple,
    outside: Float[Tensor, "solid batch #ray"],
    ray: Triple,
    until: float,
) -> Bool[Tensor, "batch ray"]:
    """Return which rays meet a solid before they are `until` times their length.

    `outside` is `beyond_reach` of the origin, which several bundles of rays share.
    """
    shape = torch.broadcast_shapes(origin[0].shape, ray[0].shape, (len(solids), 1))
    dark = torch.zeros(shape, dtype=torch.bool, device=solids.device)
    solid, batch, place = _close(solids, origin, ray, outside).nonzero(as_tuple=True)
    at = (batch, place)
    rows = solids[batch, solid]
    enter, leave = span(chosen(origin, at, shape), chosen(ray, at, shape), rows)
    hit = ((enter <= leave) & (leave > 0) & (enter < until))[:, 0]
    dark[batch[hit], place[hit]] = True
    return dark


@torch.no_grad()
def beyond_reach(solids: Solids, origin: Triple) -> Float[Tensor, "solid batch #ray"]:
    """Return by how much (squared) each origin lies outside each solid's reach."""
    centre, reach = _centre_and_reach(solids)
    own = torch.where(reach > 0, dot(centre, centre) - reach * reach, NEVER)
    # |c - o|^2 with the parts that are the same for all rays, or for all solids, taken out.
    return dot(centre, origin).mul_(-2).add_(dot(origin, origin)).add_(own)


@torch.no_grad()
def _close(
    solids: Solids, origin: Triple, ray: Triple, outside: Tensor
) -> Bool[Tensor, "solid batch ray"]:
    """Return which rays come within which solid's reach, the only ones worth an exact test."""
    along = dot(_centre_and_reach(solids)[0], ray) - dot(origin, ray)
    return along.mul_(along) > outside * dot(ray, ray)


def _centre_and_reach(solids: Solids) -> tuple[Triple, Tensor]:
    """Return these columns with the solids first, each as one number for all rays."""
    first = solids.detach().permute(2, 1, 0)[..., None]
    return vector(lambda i: first[st.CENTRE + i]), first[st.REACH]


def surroundings(
    view: Rows, origin: Triple, ray: Triple
) -> tuple[Distances, Int[Tensor, "batch ray"]]:
    """Return how far each ray goes to the floor (0) or a wall across x (1) or y (2)."""
    falls = ray[2] < 0
    distance = torch.where(falls, -origin[2] / torch.where(falls, ray[2], -1.0), NEVER)
    which = torch.zeros_like(distance, dtype=torch.int64)
    room = view[:, st.ROOM, None]
    if bool((room >= st.FAR).all()):
        return distance, which
    for axis in (0, 1):
        slope = torch.where(ray[axis] == 0, 1e-9, ray[axis])
        wall = (torch.where(slope > 0, room, -room) - origin[axis]) / slope
        nearer = (wall < distance) & (room < st.FAR)
        distance, which = torch.where(nearer, wall, distance), torch.where(nearer, axis + 1, which)
    return distance, which
