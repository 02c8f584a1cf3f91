"""Shapes2D: one flat shape, large or small, red or blue (Okawa et al. 2023; Farid et al. 2025).

The papers' images vary inside each concept by a law that is not published. Ours is three fields,
each the half width of a uniform law; with all of them 0 every scene is its concepts' mean. The
papers' probe is linear in the pixels and makes no error on good samples: that bounds the place.
"""

from dataclasses import dataclass, fields
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.draw import uniform, whole
from recombine.render.raster import coverage, flat_scenes, painted
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
from recombine.split import one_change

# The papers' code uses these to generate images; its property file has 2.7 for large.
SIZES = {"large": 2.6, "small": 1.6}
COLOURS = {"red": (0.9, 0.1, 0.1), "blue": (0.1, 0.1, 0.9)}
EXTENT = 5.0
"""Half the side of an image, in the unit of the sizes: a large shape fills half of it."""

_COMPOSITION, _SIZE, _PLACE, _COLOUR, _WHICH = [0], [1], [2, 3], [4, 5, 6], [7]


@dataclass(frozen=True)
class Shapes2D:
    """Single shapes on white whose size, colour and place vary inside each concept.

    `size_jitter` is relative to the size, `colour_jitter` is added to each channel, and
    `place_jitter` is the share that the centre uses of the room in which the shape stays inside
    the image. `among` names the compositions that occur, all of them equally often; empty: all.
    """

    size: int = 28
    among: tuple[Concepts, ...] = ()
    shapes: tuple[str, ...] = ("circle", "triangle")
    size_jitter: float = 0.1
    colour_jitter: float = 0.05
    place_jitter: float = 0.25

    name: ClassVar[str] = "shapes2d"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"an image has a side of at least 1 pixel; got {self.size}")
        if not self.shapes or not set(self.shapes) <= {"circle", "triangle", "square"}:
            raise ValueError(f"shapes are among circle, triangle and square; got {self.shapes}")
        # Beyond these, large meets small, a channel leaves [0, 1], a shape leaves the image.
        for name, most in (("size_jitter", 0.2), ("colour_jitter", 0.1), ("place_jitter", 1.0)):
            if not 0 <= getattr(self, name) <= most:
                raise ValueError(f"{name} is from 0 to {most}; got {getattr(self, name)}")
        concept_rows(self.factors, self.among)

    @property
    def factors(self) -> tuple[Factor, ...]:
        return (
            Factor("shape", self.shapes),
            Factor("size", tuple(SIZES)),
            Factor("colour", tuple(COLOURS)),
        )

    def scenes(self, index: SceneNumbers, seed: int = 0) -> Scenes:
        """Return the scenes of these numbers."""
        index = as_numbers(index)
        rows = concept_rows(self.factors, self.among or compositions(self.factors)).to(index.device)
        which = whole(seed, index, index.new_tensor(_COMPOSITION), below=len(rows))[:, 0]
        shape, size, colour = rows[which].unbind(-1)
        numbers = [SHAPES.index(name) for name in self.shapes]
        tables = (numbers, list(SIZES.values()), list(COLOURS.values()))
        shapes, sizes, colours = (torch.tensor(each, device=index.device) for each in tables)

        def swing(draw: list[int]) -> Float[Tensor, "batch draw"]:
            return 2 * uniform(seed, index, index.new_tensor(draw)) - 1

        radius = sizes[size] * (1 + self.size_jitter * swing(_SIZE)[:, 0])
        return flat_scenes(
            position=swing(_PLACE) * (self.place_jitter * (EXTENT - radius))[:, None],
            size=radius,
            colour=colours[colour] + self.colour_jitter * swing(_COLOUR),
            shape=shapes[shape],
            concepts=rows[which],
            backdrop=radius.new_ones(len(index), 3),
        )

    def image(self, scenes: Scenes) -> Float[Tensor, "batch 3 height width"]:
        """Return what the scenes look like."""
        return painted(coverage(scenes, self.size, EXTENT), scenes)


BINARY = one_change("binary", Shapes2D().factors)
"""Three binary factors, digits (shape, size, colour): 000, 001, 010 and 100 are seen."""


@dataclass(frozen=True)
class FewShapes2D(Shapes2D):
    """Shapes2D with so many `images` in all, drawn again and again, as the papers' code does.

    How many they had is not known; its defaults hint at 1,500 for each of four compositions.
    """

    images: int = 6_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.images < 1:
            raise ValueError(f"scenes are drawn from at least 1 image; got {self.images}")

    @property
    def endless(self) -> Shapes2D:
        """The world that the images are taken from."""
        return Shapes2D(**{each.name: getattr(self, each.name) for each in fields(Shapes2D)})

    def scenes(self, index: SceneNumbers, seed: int = 0) -> Scenes:
        """Return the scenes of these numbers; many numbers have the same one."""
        index = as_numbers(index)
        which = whole(seed, index, index.new_tensor(_WHICH), below=self.images)[:, 0]
        return super().scenes(which, seed)
