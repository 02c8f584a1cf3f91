"""Shapes2D: one flat shape on white, of a shape, a size and a colour (after Okawa et al. 2023).

Shapes of one size have the same area, so that the amount of ink says nothing about the shape, and
every composition has the same range of places. The 2 x 2 x 2 world of Farid et al. (2025), whose
areas differ and whose law inside a concept is not published, is `PAPER`.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.draw import uniform, whole
from recombine.render.raster import AREA, FLAT, coverage, flat_scenes, painted
from recombine.scene import (
    SHAPES,
    Concepts,
    Factor,
    SceneNumbers,
    Scenes,
    as_numbers,
    compositions,
    concept_rows,
)
from recombine.spelling import brief
from recombine.split import one_change

EXTENT = 5.0
"""Half the side of an image, in the unit of sizes and places."""
PIXEL = EXTENT / 14
"""A pixel of an image of 28, in the same unit."""
SIZES = {
    # Half the side of the square of the same area.
    "equal": {"tiny": 3.0, "small": 4.0, "medium": 5.4, "large": 7.2},
    # The papers' code uses these to generate images; its property file has 2.7 for large.
    "authors": {"large": 2.6 / PIXEL, "small": 1.6 / PIXEL},
}
"""Sizes in pixels of an image of 28, by how areas are chosen."""
COLOURS = {
    "red": (0.9, 0.1, 0.1),
    "green": (0.1, 0.7, 0.1),
    "blue": (0.1, 0.1, 0.9),
    "yellow": (0.9, 0.8, 0.1),
    "magenta": (0.8, 0.1, 0.8),
    "cyan": (0.1, 0.8, 0.8),
}
_COMPOSITION, _SIZE, _PLACE, _COLOUR, _WHICH = [0], [1], [2, 3], [4, 5, 6], [7]


@dataclass(frozen=True)
class Shapes2D:
    """Single shapes on white whose size, colour and place vary inside each concept.

    `size_jitter` is relative to the size, `colour_jitter` is added to each channel, and `shift` is
    how far the centre may lie from the middle along each axis, in pixels of an image of 28: each is
    the half width of a uniform law. With equal `areas` a disc, triangle, square and cross of one
    size cover as much; with those of the authors a shape of size r fills a square of half side r.
    `among` names the compositions that occur, all of them equally often (empty: all). With `images`
    there are so many in all, drawn again and again.
    """

    size: int = 28
    among: tuple[Concepts, ...] = ()
    shapes: tuple[str, ...] = FLAT
    sizes: tuple[str, ...] = tuple(SIZES["equal"])
    colours: tuple[str, ...] = tuple(COLOURS)
    areas: str = "equal"
    size_jitter: float = 0.05
    colour_jitter: float = 0.04
    shift: float = 3.0
    images: int | None = None

    name: ClassVar[str] = "shapes2d"
    __repr__ = brief

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"an image has a side of at least 1 pixel; got {self.size}")
        if self.areas not in SIZES:
            raise ValueError(f"areas are {' or '.join(SIZES)}; got {self.areas!r}")
        known = (("shapes", FLAT), ("sizes", SIZES[self.areas]), ("colours", COLOURS))
        for name, concepts in known:
            given = getattr(self, name)
            if not given or not set(given) <= set(concepts) or len(set(given)) < len(given):
                raise ValueError(f"{name} are among {', '.join(concepts)}, each once; got {given}")
        # Beyond these, sizes meet and a channel leaves [0, 1].
        for name, most in (("size_jitter", 0.2), ("colour_jitter", 0.1)):
            if not 0 <= getattr(self, name) <= most:
                raise ValueError(f"{name} is from 0 to {most}; got {getattr(self, name)}")
        reach = EXTENT / PIXEL - float(self.radii.max()) * (1 + self.size_jitter) / PIXEL
        if not 0 <= self.shift <= reach:
            raise ValueError(
                f"shift is from 0 to {max(reach, 0):.2f} pixels, so that no shape is cut off; "
                f"got {self.shift}"
            )
        if self.images is not None and self.images < 1:
            raise ValueError(f"scenes are drawn from at least 1 image; got {self.images}")
        concept_rows(self.factors, self.among)

    @property
    def factors(self) -> tuple[Factor, ...]:
        names = (("shape", self.shapes), ("size", self.sizes), ("colour", self.colours))
        return tuple(Factor(name, concepts) for name, concepts in names)

    @property
    def radii(self) -> Float[Tensor, "shape size"]:
        """Half the side of the square that each shape of each size fills, without jitter."""
        half = torch.tensor([SIZES[self.areas][name] for name in self.sizes]) * PIXEL
        if self.areas == "authors":
            return half.expand(len(self.shapes), -1)
        # A square of half side 1 has the area 4.
        even = [(4 / AREA[SHAPES.index(name)]) ** 0.5 for name in self.shapes]
        return torch.tensor(even)[:, None] * half

    def scenes(self, index: SceneNumbers, seed: int = 0) -> Scenes:
        """Return the scenes of these numbers; with `images`, many numbers have the same one."""
        index = as_numbers(index)
        if self.images is not None:
            index = whole(seed, index, index.new_tensor(_WHICH), below=self.images)[:, 0]
        rows = concept_rows(self.factors, self.among or compositions(self.factors)).to(index.device)
        which = whole(seed, index, index.new_tensor(_COMPOSITION), below=len(rows))[:, 0]
        shape, size, colour = rows[which].unbind(-1)
        numbers = [SHAPES.index(name) for name in self.shapes]
        tables = (numbers, [COLOURS[name] for name in self.colours])
        shapes, colours = (torch.tensor(each, device=index.device) for each in tables)

        def swing(draw: list[int]) -> Float[Tensor, "batch draw"]:
            return 2 * uniform(seed, index, index.new_tensor(draw)) - 1

        spread = 1 + self.size_jitter * swing(_SIZE)[:, 0]
        return flat_scenes(
            position=swing(_PLACE) * (self.shift * PIXEL),
            size=self.radii.to(index.device)[shape, size] * spread,
            colour=colours[colour] + self.colour_jitter * swing(_COLOUR),
            shape=shapes[shape],
            concepts=rows[which],
            backdrop=spread.new_ones(len(index), 3),
        )

    def image(self, scenes: Scenes) -> Float[Tensor, "batch 3 height width"]:
        """Return what the scenes look like."""
        return painted(coverage(scenes, self.size, EXTENT), scenes)

    @property
    def means(self) -> "Shapes2D":
        """The same world without any variation inside a composition."""
        return replace(self, size_jitter=0.0, colour_jitter=0.0, shift=0.0)


FIXED = Shapes2D(shift=0.0)
"""Every shape stands in the middle."""
PAPER = Shapes2D(
    shapes=("circle", "triangle"),
    sizes=("large", "small"),
    colours=("red", "blue"),
    areas="authors",
    size_jitter=0.1,
    colour_jitter=0.05,
)
"""The papers' 2 x 2 x 2 compositions with their areas."""
BINARY = one_change("binary", PAPER.factors)
"""Three binary factors, digits (shape, size, colour): 000, 001, 010 and 100 are seen."""
