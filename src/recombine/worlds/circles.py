"""Circles: red or blue, big or small, with two dials for how far apart the concepts are.

The images of Park et al. 2024, on which Yang et al. 2025 show Swing-by in diffusion models. How
fast a concept is learned follows its dial, so a model can be led past a training class first.
"""

from dataclasses import dataclass
from math import pi
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.draw import bits, uniform, whole
from recombine.render.raster import CIRCLE, blurred, centres_inside, coverage, flat_scenes, painted
from recombine.scene import (
    Concepts,
    Factor,
    SceneNumbers,
    Scenes,
    as_numbers,
    compositions,
    concept_rows,
)
from recombine.spelling import brief
from recombine.split import Split

BLUR = 1.0
"""Width of the blur of the circle's edge, in pixels."""

_COMPOSITION, _PLACE, _COLOUR, _RADIUS, _BACKDROP = [0], [1, 2], [3, 4, 5], [6], [7, 8, 9]


@dataclass(frozen=True)
class Circles:
    """Single circles on a light backdrop, class means a separation apart.

    `spread` scales the variation inside a class (0: every scene is its class mean, as at test).
    `noise` is the standard deviation of the pixel noise, which is a hash of the backdrop: it stays
    as it is when an object is moved, changed or taken away. `smooth` replaces the test of pixel
    centres by the exact coverage, which can be differentiated for place and size.
    """

    size: int = 32
    colour_separation: float = 0.4
    size_separation: float = 0.4
    among: tuple[Concepts, ...] = ()
    spread: float = 1.0
    noise: float = 1e-3
    smooth: bool = False

    name: ClassVar[str] = "circles"
    factors: ClassVar[tuple[Factor, ...]] = (
        Factor("colour", ("red", "blue")),
        Factor("size", ("big", "small")),
    )
    __repr__ = brief

    def __post_init__(self) -> None:
        if self.size < 2:
            raise ValueError(f"an image has a side of at least 2 pixels; got {self.size}")
        # Beyond these a channel leaves [0, 1], or a radius falls below .1.
        for name, most in (("colour_separation", 0.8), ("size_separation", 0.4)):
            if not 0 < getattr(self, name) <= most:
                raise ValueError(f"{name} is above 0 and at most {most}; got {getattr(self, name)}")
        if not 0 <= self.spread <= 1:
            raise ValueError(f"spread is from 0 to 1; got {self.spread}")
        if not self.noise >= 0:
            raise ValueError(f"noise is at least 0; got {self.noise}")
        concept_rows(self.factors, self.among)

    def scenes(self, index: SceneNumbers, seed: int = 0) -> Scenes:
        """Return the scenes of these numbers."""
        index = as_numbers(index)
        rows = concept_rows(self.factors, self.among or compositions(self.factors)).to(index.device)
        which = whole(seed, index, index.new_tensor(_COMPOSITION), below=len(rows))[:, 0]
        blue, small = (rows[which] == 1).unbind(-1)

        def swing(draw: list[int]) -> Float[Tensor, "batch draw"]:
            return 2 * uniform(seed, index, index.new_tensor(draw)) - 1

        side = torch.where(small, -0.5, 0.5) + self.spread * 3 / 8 * swing(_RADIUS)[:, 0]
        hue = torch.tensor([[0.5, -0.5, -0.5], [-0.5, -0.5, 0.5]]).to(side)[blue.long()]
        return flat_scenes(
            position=0.5 * swing(_PLACE),
            size=0.45 + self.size_separation * side,
            colour=0.5 + self.colour_separation * (hue + self.spread / 8 * swing(_COLOUR)),
            shape=torch.full_like(index, CIRCLE),
            concepts=rows[which],
            backdrop=0.9 + 0.1 * swing(_BACKDROP),
        )

    def image(self, scenes: Scenes) -> Float[Tensor, "batch 3 height width"]:
        """Return what the scenes look like; the centres of the corner pixels are at +-1."""
        extent = self.size / (self.size - 1)
        inside = coverage if self.smooth else centres_inside
        share = inside(scenes, self.size, extent).to(scenes.position.dtype)
        image = painted(blurred(share, BLUR), scenes)
        return (image + self.noise * _noise(scenes.backdrop[:, 0], image)).clamp(0, 1)


CIRCLES = Split(
    "circles",
    Circles.factors,
    seen=tuple(which for which in compositions(Circles.factors) if which != ("blue", "small")),
)
"""Seen are red circles of both sizes and big blue ones: blue and small do not meet."""


def _noise(
    backdrop: Float[Tensor, "batch 3"], image: Float[Tensor, "batch 3 height width"]
) -> Float[Tensor, "batch 3 height width"]:
    """Return unit normal noise for each pixel, the same whenever the backdrop is the same."""
    words = backdrop.detach().to(torch.float32).contiguous().view(torch.int32).to(torch.int64)
    first, second, third = words.unbind(-1)
    key = bits(0, (first << 32) ^ second, first.new_zeros(())) ^ third
    count = image.shape[1:].numel()
    pairs = (count + 1) // 2
    # Box and Muller: a random length and a random angle make two independent normal numbers.
    length, angle = uniform(0, key, torch.arange(2 * pairs, device=key.device)).chunk(2, dim=1)
    length, angle = (-2 * torch.log1p(-length)).sqrt(), 2 * pi * angle
    normal = torch.cat([length * angle.cos(), length * angle.sin()], dim=1)
    return normal[:, :count].reshape(image.shape).to(image)
