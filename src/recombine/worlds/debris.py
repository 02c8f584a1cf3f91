"""Images near Shapes2D that show none of its compositions: what a reader must refuse.

Each kind of debris takes place, size and colour from a scene of the world, so that ink and colour
do not give it away. An image depends on its number and the seed only.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import pi
from typing import TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.draw import uniform, whole
from recombine.render.raster import FLAT, TRIANGLE, blurred, coverage
from recombine.scene import SHAPES, Scenes
from recombine.worlds.shapes2d import COLOURS, EXTENT, Shapes2D

Drawing: TypeAlias = Float[Tensor, "batch 3 height width"]
Index: TypeAlias = Int[Tensor, " batch"]
Amount: TypeAlias = Float[Tensor, " batch"]
Where: TypeAlias = Float[Tensor, "batch height width"]
Inside: TypeAlias = Callable[[Where, Where, Float[Tensor, "batch 1 1"]], Bool[Tensor, "..."]]
"""Whether a point lies inside an outline of about the area of a disc of radius 1; the last argument
varies the outline, from 0 to 1."""

FIRST_DRAW = 100
"""Draws of debris have numbers from here on, other than those of scenes."""
FINE = 4
"""So many points along each axis of a pixel."""


def debris(world: Shapes2D, kind: str, index: Index, seed: int) -> Drawing:
    """Return images of a kind of debris."""
    if kind not in DEBRIS:
        raise ValueError(f"debris is one of {', '.join(DEBRIS)}; got {kind!r}")
    return DEBRIS[kind](world, index, seed)


def _drawn(seed: int, index: Index, number: int, low: float = 0.0, high: float = 1.0) -> Amount:
    """Return a number in [low, high) per image."""
    draw = index.new_tensor([FIRST_DRAW + number])
    return low + (high - low) * uniform(seed, index, draw)[:, 0]


def _chosen(seed: int, index: Index, number: int, below: int) -> Index:
    return whole(seed, index, index.new_tensor([FIRST_DRAW + number]), below)[:, 0]


def _palette(world: Shapes2D, like: Tensor) -> Float[Tensor, "colour 3"]:
    return like.new_tensor([COLOURS[name] for name in world.colours])


def _another_colour(world: Shapes2D, scenes: Scenes, seed: int, index: Index) -> Tensor:
    """Return a colour of the palette other than the scene's, or white if there is only one."""
    count = len(world.colours)
    if count == 1:
        return torch.ones_like(scenes.colour)
    number = scenes.concepts[:, 0, 2] + 1 + _chosen(seed, index, 1, count - 1)
    return _palette(world, scenes.colour)[number % count][:, None]


def _empty(world: Shapes2D, index: Index, seed: int) -> Drawing:
    """White paper, as it is or a little grey."""
    white = torch.ones(len(index), 3, world.size, world.size, device=index.device)
    return white - 0.05 * _drawn(seed, index, 0)[:, None, None, None]


def _too_blurred(world: Shapes2D, index: Index, seed: int) -> Drawing:
    """A composition behind a blur of 2.5, 3 or 4 pixels."""
    images = world.image(world.scenes(index, seed))
    which = _chosen(seed, index, 0, 3)[:, None, None, None]
    for number, sigma in enumerate((2.5, 3.0, 4.0)):
        images = torch.where(which == number, 1 - blurred(1 - images, sigma), images)
    return images


def _mixture(world: Shapes2D, index: Index, seed: int) -> Drawing:
    """The average of two images that differ in the shape."""
    scenes = world.scenes(index, seed)
    kinds = scenes.shape.new_tensor([SHAPES.index(name) for name in FLAT])
    mine = (scenes.shape == kinds).long().argmax(dim=1)
    other = (mine + 1 + _chosen(seed, index, 0, len(FLAT) - 1)) % len(FLAT)
    radius = replace(world, shapes=FLAT, among=()).radii.to(scenes.size)[:, 0]
    size = scenes.size * (radius[other] / radius[mine])[:, None]
    changed = replace(scenes, shape=kinds[other][:, None], size=size)
    return (world.image(scenes) + world.image(changed)) / 2


def _two_colours(world: Shapes2D, index: Index, seed: int) -> Drawing:
    """A shape whose two halves have two colours."""
    scenes = world.scenes(index, seed)
    other = replace(scenes, colour=_another_colour(world, scenes, seed, index))
    right, down = _points(scenes, world.size)
    angle = _drawn(seed, index, 0, 0.0, 2 * pi)[:, None, None]
    half = _pooled(right * angle.cos() + down * angle.sin() > 0)[:, None]
    return half * world.image(scenes) + (1 - half) * world.image(other)


def _two_objects(world: Shapes2D, index: Index, seed: int) -> Drawing:
    """Two compositions of the smallest size, side by side."""
    smallest = min(range(len(world.sizes)), key=lambda number: float(world.radii[0, number]))
    small = replace(world, sizes=(world.sizes[smallest],), among=(), shift=0.0)
    first, second = small.scenes(index, seed), small.scenes(index + 1, seed + 1)
    angle = _drawn(seed, index, 0, 0.0, 2 * pi)
    apart = (first.size + second.size)[:, 0] * _drawn(seed, index, 1, 0.75, 0.9)
    away = torch.stack([angle.cos(), angle.sin()], dim=1) * apart[:, None]
    images = [
        world.image(replace(each, position=(sign * away)[:, None]))
        for each, sign in ((first, 1), (second, -1))
    ]
    return torch.minimum(*images)


def _off_colour(world: Shapes2D, index: Index, seed: int) -> Drawing:
    """A shape in grey, or in the colour midway between two of the palette."""
    scenes = world.scenes(index, seed)
    grey = _drawn(seed, index, 0, 0.0, 0.6)[:, None, None].expand(-1, 1, 3)
    means = _palette(world, scenes.colour)[scenes.concepts[:, :, 2]]
    midway = (means + _another_colour(world, scenes, seed, index)) / 2
    colour = torch.where(_chosen(seed, index, 2, 2)[:, None, None] == 0, grey, midway)
    return world.image(replace(scenes, colour=colour))


def _off_size(world: Shapes2D, index: Index, seed: int) -> Drawing:
    """A shape of a size midway between two neighbours, or as far beyond the last."""
    scenes = world.scenes(index, seed)
    log_size = world.radii[0].log().sort().values.to(scenes.size)
    gap = log_size.diff() if len(log_size) > 1 else log_size.new_tensor([0.3])
    ends = torch.stack([log_size[0] - gap[0] / 2, log_size[-1] + gap[-1] / 2])
    wrong = torch.cat([ends[:1], log_size[:-1] + gap[: len(log_size) - 1] / 2, ends[1:]])
    # Large shapes come near to the border: the middle holds them.
    number = _chosen(seed, index, 0, len(wrong))
    mean = world.radii.to(scenes.size)[scenes.concepts[:, 0, 0], scenes.concepts[:, 0, 1]]
    first = world.radii.to(scenes.size)[0, scenes.concepts[:, 0, 1]]
    size = (wrong[number].exp() * mean / first)[:, None]
    room = (EXTENT - size).clamp(min=0)[..., None]
    place = torch.maximum(torch.minimum(scenes.position, room), -room)
    return world.image(replace(scenes, size=size, position=place))


def _clipped(world: Shapes2D, index: Index, seed: int) -> Drawing:
    """A shape of which a quarter to a half of the size lies beyond the border."""
    scenes = world.scenes(index, seed)
    beyond = EXTENT - scenes.size[:, 0] * (1 - _drawn(seed, index, 0, 0.25, 0.5))
    side = _chosen(seed, index, 1, 4)
    # A triangle that stands on the border is a smaller triangle, and no debris.
    side = torch.where((scenes.shape[:, 0] == TRIANGLE) & (side == 1), 3, side)
    place = scenes.position[:, 0].clone()
    rows = torch.arange(len(index), device=index.device)
    place[rows, side % 2] = torch.where(side < 2, beyond, -beyond)
    return world.image(replace(scenes, position=place[:, None]))


def _ring(right: Where, down: Where, vary: Tensor) -> Tensor:
    inner = 0.4 + 0.2 * vary
    far = (right**2 + down**2) * (1 - inner**2)
    return (far < 1) & (far > inner**2)


def _crescent(right: Where, down: Where, vary: Tensor) -> Tensor:
    size = 1.5 - 0.2 * vary
    away = size * (0.6 + 0.4 * vary)
    return (right**2 + down**2 < size**2) & ((right - away) ** 2 + down**2 > size**2)


def _bar(right: Where, down: Where, vary: Tensor) -> Tensor:
    longer = (2.5 + 1.5 * vary).sqrt()
    half = pi**0.5 / 2
    return (right.abs() < half * longer) & (down.abs() < half / longer)


def _star(right: Where, down: Where, vary: Tensor) -> Tensor:
    """Five points; the corners between them are at .38 to .5 of the way."""
    fifth = 2 * pi / 5
    inner = 0.38 + 0.12 * vary
    outer = (pi / (5 * inner * torch.tensor(pi / 5).sin())).sqrt()
    angle = torch.atan2(down, right).remainder(fifth)
    angle = torch.minimum(angle, fifth - angle)
    far = (right**2 + down**2).sqrt()
    # The edge from the tip at angle 0 to the corner at half a fifth.
    corner_right = inner * torch.tensor(pi / 5).cos() * outer
    corner_down = inner * torch.tensor(pi / 5).sin() * outer
    x, y = far * angle.cos(), far * angle.sin()
    return (outer - corner_right) * y < corner_down * (outer - x)


def _splinter(right: Where, down: Where, vary: Tensor) -> Tensor:
    """A triangle 4 to 6 times as long as it is wide."""
    longer = 4 + 2 * vary
    half = (2 * pi * longer).sqrt() / 2
    return (right.abs() < half) & (down.abs() * 2 * longer < half - right)


def _egg(right: Where, down: Where, vary: Tensor) -> Tensor:
    """A disc with a straight flank."""
    return (right**2 + down**2 < 1.25) & (right < 0.3 + 0.4 * vary)


def _of_outline(inside: Inside) -> Callable[[Shapes2D, Index, int], Drawing]:
    """Return debris of this outline, turned by any angle, in the area that the scene has."""

    def images(world: Shapes2D, index: Index, seed: int) -> Drawing:
        scenes = world.scenes(index, seed)
        area = coverage(scenes, world.size, EXTENT).sum(dim=(1, 2, 3))
        unit = (area / pi).sqrt()[:, None, None]
        right, down = (each / unit for each in _points(scenes, world.size))
        angle = _drawn(seed, index, 0, 0.0, 2 * pi)[:, None, None]
        right, down = (
            right * angle.cos() + down * angle.sin(),
            down * angle.cos() - right * angle.sin(),
        )
        share = _pooled(inside(right, down, _drawn(seed, index, 1)[:, None, None]))[:, None]
        return share * scenes.colour[:, 0, :, None, None] + (1 - share)

    return images


def _points(scenes: Scenes, side: int) -> tuple[Where, Where]:
    """Return how far fine points lie from the object, right and down, in pixels."""
    line = (torch.arange(side * FINE).to(scenes.size) + 0.5) / FINE - side / 2
    place = scenes.position[:, 0] / EXTENT * (side / 2)
    right, down = line - place[:, :1], line - place[:, 1:]
    return right[:, None].expand(-1, side * FINE, -1), down[..., None].expand(-1, -1, side * FINE)


def _pooled(inside: Bool[Tensor, "batch fine fine"]) -> Float[Tensor, "batch height width"]:
    """Return the share of each pixel's fine points that lie inside."""
    return F.avg_pool2d(inside.float()[:, None], FINE)[:, 0]


DEBRIS: Mapping[str, Callable[[Shapes2D, Index, int], Drawing]] = {
    "empty": _empty,
    "too_blurred": _too_blurred,
    "ring": _of_outline(_ring),
    "crescent": _of_outline(_crescent),
    "bar": _of_outline(_bar),
    "star": _of_outline(_star),
    "splinter": _of_outline(_splinter),
    "egg": _of_outline(_egg),
    "two_colours": _two_colours,
    "two_objects": _two_objects,
    "mixture": _mixture,
    "off_colour": _off_colour,
    "off_size": _off_size,
    "clipped": _clipped,
}
"""Every kind of debris: a function of world, numbers and seed."""
