"""Debris of any images: what shows none of them, so that a reader has to refuse it.

Models that fail draw blurs, pieces in wrong places, noise, two things at once, or nothing.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

KINDS = ("blurred", "shuffled", "noise", "mixed", "empty")
_CELLS = 4
"""An image is blurred to so many cells a side, and cut into as many patches a side."""
_NOISE, _MIXED = (0.7, 1.0), (0.35, 0.65)
"""The share of noise in noisy debris, and that of the second image in mixtures."""


def broken(
    kind: str,
    images: Float[Tensor, "batch 3 height width"],
    concepts: Int[Tensor, "batch factor"],
    generator: torch.Generator,
) -> Float[Tensor, "batch 3 height width"]:
    """Return debris of a kind, one of each image."""
    match kind:
        case "blurred":
            cells = F.adaptive_avg_pool2d(images, _CELLS)
            return F.interpolate(cells, images.shape[2:], mode="bilinear")
        case "shuffled":
            return _shuffled(images, generator)
        case "noise":
            noise = _random(images.shape, images, generator)
            return torch.lerp(images, noise, _between(_NOISE, images, generator))
        case "mixed":
            return _mixed(images, concepts, generator)
        case "empty":
            return _empty(images)
    raise ValueError(f"debris is one of {', '.join(KINDS)}; got {kind!r}")


def every_kind(
    images: Float[Tensor, "batch 3 height width"],
    concepts: Int[Tensor, "batch factor"],
    generator: torch.Generator,
) -> Float[Tensor, "batch 3 height width"]:
    """Return debris of each image, the kinds in turn."""
    each = torch.stack([broken(kind, images, concepts, generator) for kind in KINDS])
    row = torch.arange(len(images), device=images.device)
    return each[row % len(KINDS), row]


def _random(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.rand(shape, generator=generator, device=generator.device).to(like)


def _between(ends: tuple[float, float], like: Tensor, generator: torch.Generator) -> Tensor:
    """Return a number of its own for each image."""
    return ends[0] + (ends[1] - ends[0]) * _random((len(like), 1, 1, 1), like, generator)


def _shuffled(images: Tensor, generator: torch.Generator) -> Tensor:
    """Put the patches of each image in a random order; what is left over at the border stays."""
    height, width = (side // _CELLS for side in images.shape[2:])
    inside = images[:, :, : _CELLS * height, : _CELLS * width]
    patches = inside.unflatten(3, (_CELLS, width)).unflatten(2, (_CELLS, height))
    patches = patches.permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
    order = _random(patches.shape[:2], images, generator).argsort(dim=1)
    patches = patches[torch.arange(len(images), device=images.device)[:, None], order]
    shuffled = patches.unflatten(1, (_CELLS, _CELLS)).permute(0, 3, 1, 4, 2, 5)
    whole = images.clone()
    whole[:, :, : _CELLS * height, : _CELLS * width] = shuffled.flatten(4, 5).flatten(2, 3)
    return whole


def _mixed(images: Tensor, concepts: Tensor, generator: torch.Generator) -> Tensor:
    """Lay over each image one of another composition; where there is none, it is empty."""
    other = (concepts[:, None] != concepts).any(dim=-1)
    draw = _random(other.shape, images, generator) + 1
    partner = (draw * other).argmax(dim=1)
    mixed = torch.lerp(images, images[partner], _between(_MIXED, images, generator))
    return torch.where(other.any(dim=1)[:, None, None, None], mixed, _empty(images))


def _empty(images: Tensor) -> Tensor:
    """Fill each image with its median colour, which is its backdrop where that is most of it."""
    colour = images.flatten(2).median(dim=2).values
    return colour[:, :, None, None].expand_as(images)
