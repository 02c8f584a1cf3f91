"""Flat shapes on a plain backdrop: scenes to images, a whole batch at once.

The area of a pixel that a disc or a polygon covers has a closed form. So edges are smooth without
supersampling, a shape may be smaller than a pixel, and coverage has exact derivatives for place,
size and rotation. Place runs right and down, from -extent to extent across the image, and later
objects cover earlier ones.
"""

from math import pi
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.scene import SHAPES, Scenes

Shares: TypeAlias = Float[Tensor, "batch object height width"]
"""For each pixel, the share of its area that lies in each object."""
Points: TypeAlias = Float[Tensor, "batch object 2"]
Sizes: TypeAlias = Float[Tensor, "batch object"]

FLAT = ("circle", "triangle", "square", "cross")
"""The shapes that can be drawn here."""
CIRCLE, TRIANGLE, SQUARE, CROSS = map(SHAPES.index, FLAT)
ARM = 1 / 3
"""Half the width of a cross's arms, in its size."""

# Corners for size 1, clockwise on the screen. Each shape fills the same square as the disc does;
# the triangle stands on its base, whose middle makes it a polygon of four, too.
_CORNERS = {
    TRIANGLE: ((0.0, -1.0), (1.0, 1.0), (0.0, 1.0), (-1.0, 1.0)),
    SQUARE: ((-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)),
    CROSS: (
        *((-ARM, -1.0), (ARM, -1.0), (ARM, -ARM), (1.0, -ARM), (1.0, ARM), (ARM, ARM)),
        *((ARM, 1.0), (-ARM, 1.0), (-ARM, ARM), (-1.0, ARM), (-1.0, -ARM), (-ARM, -ARM)),
    ),
}
AREA = {CIRCLE: pi, TRIANGLE: 2.0, SQUARE: 4.0, CROSS: 4 * ARM * (2 - ARM)}
"""The area of each shape of size 1."""


def flat_scenes(
    position: Float[Tensor, "batch 2"],
    size: Float[Tensor, " batch"],
    colour: Float[Tensor, "batch 3"],
    shape: Int[Tensor, " batch"],
    concepts: Int[Tensor, "batch factor"],
    backdrop: Float[Tensor, "batch 3"],
) -> Scenes:
    """Return scenes of one flat object each; what only solid worlds need is left empty."""
    batch = len(size)
    return Scenes(
        position=position[:, None],
        size=size[:, None],
        rotation=size.new_zeros(batch, 1),
        colour=colour[:, None],
        shape=shape[:, None],
        material=torch.zeros_like(shape)[:, None],
        concepts=concepts[:, None],
        present=torch.ones_like(shape, dtype=torch.bool)[:, None],
        backdrop=backdrop[:, None],
        camera=size.new_zeros(batch, 3),
        lamps=size.new_zeros(batch, 0, 3),
    )


def coverage(scenes: Scenes, side: int, extent: float = 1.0) -> Shares:
    """Return the share of each pixel's area that lies in each object."""
    kinds = _kinds(scenes)
    centre, radius = _in_pixels(scenes, side, extent)
    share = radius.new_zeros(*radius.shape, side, side)
    if kinds & _CORNERS.keys():
        share = _polygon_share(_corners(scenes, centre, radius), side)
    if CIRCLE in kinds:
        disc = (scenes.shape == CIRCLE)[..., None, None]
        share = torch.where(disc, _disc_share(centre, radius, side), share)
    return torch.where(scenes.present[..., None, None], share.clamp(0, 1), 0)


def centres_inside(
    scenes: Scenes, side: int, extent: float = 1.0
) -> Bool[Tensor, "batch object height width"]:
    """Return whether the centre of each pixel lies inside each object: edges with stairs."""
    kinds = _kinds(scenes)
    centre, radius = _in_pixels(scenes, side, extent)
    column = torch.arange(side).to(radius) + 0.5
    row = column[:, None]
    inside = scenes.present.new_zeros(*radius.shape, side, side)
    if kinds & {TRIANGLE, SQUARE}:
        # Corners run clockwise: a point inside lies to the right of every edge.
        corners = _corners(scenes, centre, radius)[:, :, :4]
        x, y = corners[..., None, None].unbind(3)
        to_x, to_y = corners.roll(-1, dims=2)[..., None, None].unbind(3)
        turn = (to_x - x) * (row - y) - (to_y - y) * (column - x)
        inside = (turn > 0).all(dim=2)
    if CROSS in kinds:
        (x, y), r = centre[..., None, None].unbind(2), radius[..., None, None]
        angle = torch.where(scenes.present, scenes.rotation, 0).deg2rad()[..., None, None]
        right = (column - x) * angle.cos() + (row - y) * angle.sin()
        down = (row - y) * angle.cos() - (column - x) * angle.sin()
        far = torch.maximum(right.abs(), down.abs())
        near = torch.minimum(right.abs(), down.abs())
        arms = (far < r) & (near < ARM * r)
        inside = torch.where((scenes.shape == CROSS)[..., None, None], arms, inside)
    if CIRCLE in kinds:
        (x, y), r = centre[..., None, None].unbind(2), radius[..., None, None]
        near = (column - x) * (column - x) + (row - y) * (row - y) < r * r
        inside = torch.where((scenes.shape == CIRCLE)[..., None, None], near, inside)
    return inside & scenes.present[..., None, None]


def blurred(share: Shares, sigma: float) -> Shares:
    """Return coverage after a Gaussian blur of `sigma` pixels; at the border the image mirrors."""
    if sigma < 0:
        raise ValueError(f"a blur has a width of at least 0 pixels; got {sigma}")
    if sigma == 0:
        return share
    reach = int(4 * sigma + 0.5)
    offset = torch.arange(-reach, reach + 1).to(share)
    weight = torch.exp(-0.5 * (offset / sigma) ** 2)
    for axis in (-1, -2):
        length = share.shape[axis]
        place = torch.arange(-reach, length + reach, device=share.device) % (2 * length)
        mirrored = share.index_select(axis, torch.minimum(place, 2 * length - 1 - place))
        share = mirrored.unfold(axis, 2 * reach + 1, 1)
        share = (share * (weight / weight.sum())).sum(dim=-1)
    return share


def painted(share: Shares, scenes: Scenes) -> Float[Tensor, "batch 3 height width"]:
    """Lay the objects' colours over the backdrop, the first object at the bottom."""
    # Zero coverage does not undo a colour that is not a number, so absent colours go first.
    colours = torch.where(scenes.present[..., None], scenes.colour, 0)[..., None, None]
    image = scenes.backdrop[:, 0, :, None, None].expand(-1, -1, *share.shape[2:])
    for part, colour in zip(share[:, :, None].unbind(1), colours.unbind(1), strict=True):
        image = part * colour + (1 - part) * image
    return image.clamp(0, 1)


def _kinds(scenes: Scenes) -> set[int]:
    """Return the shapes that are present, once it is sure that all can be drawn."""
    if scenes.position.shape[-1] != 2:
        raise ValueError(f"a flat scene has 2 coordinates; got {scenes.position.shape[-1]}")
    kinds = set(scenes.shape[scenes.present].unique().tolist())
    for kind in kinds - {CIRCLE, *_CORNERS}:
        name = SHAPES[kind] if 0 <= kind < len(SHAPES) else f"shape number {kind}"
        raise ValueError(f"flat shapes are {', '.join(FLAT)}; got {name}")
    wrong = scenes.size[scenes.present & ~(scenes.size > 0)]
    if len(wrong):
        raise ValueError(f"an object has a size above 0; got {wrong[0].item():g}")
    return kinds


def _in_pixels(scenes: Scenes, side: int, extent: float) -> tuple[Points, Sizes]:
    """Return place and size in pixels, from the upper left corner; absent objects get any."""
    position = torch.where(scenes.present[..., None], scenes.position, 0)
    radius = torch.where(scenes.present, scenes.size, 1)
    return (position / extent + 1) * (side / 2), radius / extent * (side / 2)


def _corners(
    scenes: Scenes, centre: Points, radius: Sizes
) -> Float[Tensor, "batch object corner 2"]:
    """Return the corners of every object as if it were a polygon; the last one is repeated."""
    kinds = [kind for kind in _CORNERS if kind != CROSS or CROSS in _kinds(scenes)]
    most = max(len(_CORNERS[kind]) for kind in kinds)
    rows = {kind: [*corners, *[corners[-1]] * most][:most] for kind, corners in _CORNERS.items()}
    plain = radius.new_tensor(rows[SQUARE]).expand(*radius.shape, most, 2)
    for kind in kinds:
        mine = (scenes.shape == kind)[..., None, None]
        plain = torch.where(mine, radius.new_tensor(rows[kind]), plain)
    angle = torch.where(scenes.present, scenes.rotation, 0).deg2rad()[..., None]
    (x, y), cos, sin = plain.unbind(-1), angle.cos(), angle.sin()
    turned = torch.stack([x * cos - y * sin, x * sin + y * cos], dim=-1)
    return centre[..., None, :] + radius[..., None, None] * turned


def _disc_share(
    centre: Points, radius: Sizes, side: int
) -> Float[Tensor, "batch object {side} {side}"]:
    """Return coverage by discs: differences of areas that begin at the disc's centre."""
    # The areas grow with the square of the radius while a pixel stays 1: that costs digits.
    exact_centre, exact_radius = centre.double(), radius.double()[..., None]
    line = torch.arange(side + 1).to(exact_centre)
    x, y = ((line - exact_centre[..., axis, None]) / exact_radius for axis in (0, 1))
    area = _area_from_centre(x[..., None, :], y[..., :, None]) * exact_radius[..., None] ** 2
    return area.diff(dim=-1).diff(dim=-2).to(centre)


def _area_from_centre(
    x: Float[Tensor, "*batch 1 line"], y: Float[Tensor, "*batch line 1"]
) -> Float[Tensor, "*batch line line"]:
    """Integrate the unit disc from its centre to (x, y); odd in x and in y."""
    below_one = 1 - 1e-12  # where the arc's slope is finite
    x, y = x.clamp(-below_one, below_one), y.clamp(-below_one, below_one)
    strip_x, strip_y = ((z * (1 - z * z).sqrt() + z.asin()) / 2 for z in (x, y))
    beyond = (strip_x.abs() + strip_y.abs() - pi / 4) * x.sign() * y.sign()
    return torch.where(x * x + y * y <= 1, x * y, beyond)


def _polygon_share(
    corners: Float[Tensor, "batch object corner 2"], side: int
) -> Float[Tensor, "batch object {side} {side}"]:
    """Return coverage by polygons: per edge, the area between it and the pixel's left side."""
    top = torch.arange(side).to(corners)
    share = corners.new_zeros(*corners.shape[:2], side, side)
    for start, end in zip(corners.unbind(2), corners.roll(-1, dims=2).unbind(2), strict=True):
        (x, y), (to_x, to_y) = start[..., None].unbind(-2), end[..., None].unbind(-2)
        level = to_y == y
        rise = torch.where(level, 1, to_y - y)
        first, last = (torch.maximum(torch.minimum(z, top + 1), top) for z in (y, to_y))
        # A level edge bounds no area of its own, but its ends matter once it turns.
        begun = torch.where(level, 0, (first - y) / rise).clamp(0, 1)
        done = torch.where(level, 1, (last - y) / rise).clamp(0, 1)
        left, right = ((x + part * (to_x - x))[..., None] - top for part in (begun, done))
        share = share + (last - first)[..., None] * _mean_of_clamped(left, right)
    return share


def _mean_of_clamped(
    start: Float[Tensor, "*batch"], end: Float[Tensor, "*batch"]
) -> Float[Tensor, "*batch"]:
    """Average clamp(z, 0, 1) for z running from start to end."""
    low, high = start.clamp(0, 1), end.clamp(0, 1)
    area = (high - low) * (high + low) / 2 + end.clamp(min=1) - start.clamp(min=1)
    upright = (end - start).abs() < 1e-6
    return torch.where(upright, (low + high) / 2, area / torch.where(upright, 1, end - start))
