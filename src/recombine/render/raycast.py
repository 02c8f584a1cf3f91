"""Ray casting in plain tensor operations: differentiable, on any device, and the kernel's twin.

Two by two rays per pixel. Each of the four sees its own quarter of every lamp, which softens
shadows, and leaves a metal in its own direction, which blurs reflections.
"""

from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recombine.render import stage as st
from recombine.render.geometry import (
    NEVER,
    RayIndex,
    Triple,
    beyond_reach,
    blocked,
    chosen,
    columns,
    dot,
    grid_rays,
    into_frame,
    nearest,
    surroundings,
    unit,
    vector,
)
from recombine.render.stage import LOOK, Look, Stage, look_numbers

Lamps: TypeAlias = list[tuple[Triple, Tensor, Tensor]]
"""Of each lamp: the way there, how much of it arrives, its energy per colour channel."""
NUDGE = 1e-3
"""How far off a surface a second ray starts, so that it does not meet where it came from."""


def trace(stage: Stage, size: int, look: Look = LOOK) -> Float[Tensor, "batch 3 height width"]:
    """Return pictures of a stage, sRGB in [0, 1]."""
    side = 2 * size
    eye, ray = grid_rays(stage.view, side)
    quarter = torch.where(torch.arange(side, device=stage.view.device) % 2 == 0, -0.25, 0.25)
    quarters = (quarter.repeat(side)[None], quarter.repeat_interleave(side)[None])
    seen = _radiance(_Light(stage, quarters, look), eye, ray, bounces=1)
    return develop(torch.stack(seen, dim=1).unflatten(-1, (side, side)))


def see(
    stage: Stage, size: int
) -> tuple[Int[Tensor, "batch height width"], Float[Tensor, "batch height width"]]:
    """Return the object at the centre of each pixel (-1: none) and its depth.

    The answer is the same to the last bit on every device and in the kernel, and so are scenes
    that are chosen by what they show.
    """
    eye, ray = grid_rays(stage.view, size)
    depth, solid = nearest(stage.solids, eye, ray)
    behind, _ = surroundings(stage.view, eye, ray)
    free = (solid < 0) | (behind < depth)
    owner = torch.full_like(solid, -1)
    at = (~free).nonzero(as_tuple=True)
    owner[at] = stage.owner[at[0], solid[at]]
    shape = (len(stage), size, size)
    return owner.reshape(shape), torch.minimum(depth, behind).reshape(shape)


def develop(fine: Float[Tensor, "batch 3 tall wide"]) -> Float[Tensor, "batch 3 height width"]:
    """Weigh four by four rays into a pixel, as Blender's filter does, and encode it as sRGB."""
    taps = fine.new_tensor([1, 2, 2, 1]) / 6
    padded = torch.nn.functional.pad(fine, (1, 1, 1, 1), mode="replicate")
    weights = (taps[:, None] * taps).expand(3, 1, 4, 4)
    linear = torch.nn.functional.conv2d(padded, weights, stride=2, groups=3).clamp(0, 1)
    # Clamped below, because a power has an infinite slope at zero.
    curve = 1.055 * linear.clamp_min(0.0031308) ** (1 / 2.4) - 0.055
    return torch.where(linear <= 0.0031308, 12.92 * linear, curve)


class _Light:
    """The lamps of a stage as some of its rays see them."""

    def __init__(self, stage: Stage, quarters: tuple[Tensor, Tensor], look: Look) -> None:
        self.stage, self.quarters, self.look = stage, quarters, look
        self.numbers = look_numbers(look).to(stage.view)

    def at(self, places: RayIndex, shape: torch.Size) -> "_Light":
        """Return the light of some of the rays, as a batch of single rays."""
        across, along = (q.expand(shape)[places][:, None] for q in self.quarters)
        return _Light(self.stage[places[0]], (across, along), self.look)

    def towards(self, point: Triple, normal: Triple) -> Lamps:
        """Return each lamp's direction, how much of it arrives at a surface, and its colours."""
        start = vector(lambda i: point[i] + NUDGE * normal[i])
        solids, found = self.stage.solids, []
        outside = beyond_reach(solids, start)
        for lamp, row in enumerate(self.numbers[: st.SUN_COLUMN].split(st.LAMP_COLUMNS)):
            axis, across, along, energy = row.split(3)
            place, (u, v) = columns(self.stage.view, st.LAMPS + 3 * lamp), self.quarters
            to = tuple(place[i] + u * across[i] + v * along[i] - start[i] for i in range(3))
            square = dot(to, to)
            ahead = -(to[0] * axis[0] + to[1] * axis[1] + to[2] * axis[2])
            amount = ahead.clamp_min(0) * (dot(to, normal).clamp_min(0) / (square * square))
            dark = blocked(solids, start, outside, to, until=1.0)
            found.append((to, amount.masked_fill(dark, 0), energy))
        sun, energy = self.numbers[st.SUN_COLUMN : st.TERM_COLUMN].split(3)
        to = vector(lambda i: sun[i].expand(1, 1))
        dark = blocked(solids, start, outside, to, until=NEVER)
        found.append((to, dot(to, normal).clamp_min(0).masked_fill(dark, 0), energy))
        return found


@dataclass
class _Surface:
    """What each ray met, point by point."""

    point: Triple
    normal: Triple
    colour: Triple
    solid: Tensor
    metal: Tensor
    missed: Tensor


def _meet(light: _Light, origin: Triple, ray: Triple) -> _Surface:
    """Follow each ray to the first surface."""
    stage = light.stage
    distance, which = nearest(stage.solids, origin, ray)
    behind, side = surroundings(stage.view, origin, ray)
    solid = (which >= 0) & (distance < behind)
    distance = torch.where(solid, distance, behind)
    point = vector(lambda i: origin[i] + distance * ray[i])
    x, y = (torch.where(side == axis + 1, -torch.sign(ray[axis]), 0.0) for axis in (0, 1))
    normal = (x, y, (side == 0).to(distance))
    floor, wall = columns(stage.view, st.FLOOR), columns(stage.view, st.WALL)
    colour = vector(lambda i: torch.where(side == 0, floor[i], wall[i]).clone())
    metal = torch.zeros_like(solid)
    at = solid.nonzero(as_tuple=True)
    rows = stage.solids[at[0], which[at]]
    turned = _normal(chosen(point, at, solid.shape), rows)
    for i in range(3):
        normal[i][at] = turned[i][:, 0]
        colour[i][at] = rows[:, st.COLOUR + i]
    metal[at] = rows[:, st.METAL] > 0
    return _Surface(point, normal, colour, solid, metal, ~solid & (behind >= NEVER))


def _normal(point: Triple, solid: Float[Tensor, "batch column"]) -> Triple:
    """Return the outward normal, turning smoothly where two faces meet."""
    centre, half = columns(solid, st.CENTRE), columns(solid, st.HALF)
    bevel, round_ = solid[:, st.BEVEL, None], solid[:, st.ROUND, None]
    x, y, z = into_frame(vector(lambda i: point[i] - centre[i]), solid)
    reach = torch.sqrt(((x * x + y * y) + round_ * (z * z)) + 1e-12)
    over = (reach - (solid[:, st.RADIUS, None] - bevel)).clamp_min(0) / reach

    def beyond(place: Tensor, limit: Tensor) -> Tensor:
        return torch.sign(place) * (place.abs() - (limit - bevel)).clamp_min(0)

    nx, ny = over * x + beyond(x, half[0]), over * y + beyond(y, half[1])
    nz = over * (round_ * z) + beyond(z, half[2])
    cosine, sine = solid[:, st.COSINE, None], solid[:, st.SINE, None]
    return unit((cosine * nx - sine * ny, cosine * ny + sine * nx, nz))


def _radiance(light: _Light, origin: Triple, ray: Triple, bounces: int) -> Triple:
    """Return the linear colour each ray brings back."""
    look, surface = light.look, _meet(light, origin, ray)
    lamps = light.towards(surface.point, surface.normal)
    below = torch.where(surface.solid, look.bounce * (1 - surface.normal[2]) / 2, 0.0)
    matt = [look.ambient + below for _ in range(3)]
    for _, amount, energy in lamps:
        matt = [torch.addcmul(matt[i], amount, energy[i]) for i in range(3)]
    dull = torch.where(surface.metal, look.metal_second, look.rubber)
    dull = torch.where(surface.solid, dull, 1.0)
    glow = _backdrop(light.stage, surface, look)
    colour = vector(lambda i: torch.addcmul(glow, surface.colour[i] * dull, matt[i]))
    missed = surface.missed.nonzero(as_tuple=True)
    if len(missed[0]):
        sky = _sky(unit(chosen(ray, missed, surface.solid.shape)), look)
        for i in range(3):
            colour[i][missed] = sky[:, 0]
    shiny = surface.metal.nonzero(as_tuple=True)
    if bounces and len(shiny[0]):
        metal = _metal(light, surface, ray, lamps, [channel[shiny] for channel in matt], shiny)
        for i in range(3):
            colour[i][shiny] = surface.colour[i][shiny] * metal[i]
    return colour


def _metal(
    light: _Light, surface: _Surface, ray: Triple, lamps: Lamps, matt: list[Tensor], at: RayIndex
) -> list[Tensor]:
    """Return what metals send back, before their tint: a matt share, lamps and a blurred mirror."""
    look, shape = light.look, surface.solid.shape
    ray, normal = chosen(ray, at, shape), chosen(surface.normal, at, shape)
    eye = unit(vector(lambda i: -ray[i]))
    mirrored = _mirrored(light.at(at, shape), chosen(surface.point, at, shape), normal, ray)
    out = [look.metal_dull * matt[i] + look.metal_mirror * mirrored[i][:, 0] for i in range(3)]
    for to, amount, energy in lamps:
        lobe = _lobe(chosen(to, at, shape), eye, normal, look.gloss)[:, 0]
        gleam = look.metal_shine * amount.expand(shape)[at] * lobe
        out = [out[i] + gleam * energy[i] for i in range(3)]
    return out


def _lobe(to: Triple, eye: Triple, normal: Triple, gloss: float) -> Tensor:
    """Return the share of a lamp that a rough mirror sends to the eye (the lobe of GGX)."""
    to = unit(to)
    half = unit(vector(lambda i: to[i] + eye[i]))
    cosine = dot(half, normal).clamp_min(0)
    below = cosine * cosine * (gloss - 1) + 1
    return gloss / (4 * below * below)


def _mirrored(light: _Light, point: Triple, normal: Triple, ray: Triple) -> Triple:
    """Return what metals mirror, each ray leaving at the slope of its quarter."""
    ray = unit(ray)
    twice = 2 * dot(ray, normal)
    out = vector(lambda i: ray[i] - twice * normal[i])
    side = unit((out[1], -out[0], torch.zeros_like(out[0])))
    rise = (side[1] * out[2], -side[0] * out[2], side[0] * out[1] - side[1] * out[0])
    u, v = (light.look.spread * quarter for quarter in light.quarters)
    out = unit(vector(lambda i: out[i] + u * side[i] + v * rise[i]))
    start = vector(lambda i: point[i] + NUDGE * normal[i])
    return _radiance(light, start, out, bounces=0)


def _sky(towards: Triple, look: Look) -> Tensor:
    """Return what a ray that meets nothing sees: a dark sky, lighter at the back."""
    return look.sky_behind * _behind(towards).clamp_min(0)


def _behind(a: Triple) -> Tensor:
    """Return how far a vector points to the back of the scene."""
    return a[0] * st.BEHIND[0] + a[1] * st.BEHIND[1]


def _backdrop(stage: Stage, surface: _Surface, look: Look) -> Tensor:
    """Return the light of the curved wall far behind an open floor."""
    far = _behind(surface.point).clamp(0, NEVER)
    glow = look.backdrop * far * far / (far * far + 64) / (1 + far / 40)
    bare = surface.solid | (stage.view[:, st.ROOM, None] < st.FAR)
    return glow.masked_fill(bare, 0)
