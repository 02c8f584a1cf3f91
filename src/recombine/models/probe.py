"""The reader of single objects: which concept of each factor does an image show?

A small convolutional network is the reader of record. The papers' probe is linear in the pixels; it
stands beside it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from recombine.models.entry import check_counts, check_image
from recombine.reader import NONE_OF_THESE
from recombine.scene import Factor
from recombine.spelling import LATER
from recombine.worlds.shapes2d import Shapes2D


@dataclass(frozen=True)
class Probe:
    """A network with a logit for every concept of every factor, side by side.

    One that `rejects` has a last logit: that this is an image of the world at all.
    """

    size: int = 28
    factors: tuple[Factor, ...] = Shapes2D().factors
    width: int = 48
    linear: bool = False
    rejects: bool = field(default=False, metadata={LATER: True})

    def __post_init__(self) -> None:
        check_counts(self, "linear", "rejects")
        if not self.factors:
            raise ValueError("a probe reads at least one factor; got none")

    @property
    def counts(self) -> list[int]:
        """How many concepts each factor has."""
        return [len(factor.concepts) for factor in self.factors]

    def build(self) -> "ProbeModule":
        """Return the network with fresh weights."""
        return ProbeModule(self)

    def factor_reader(self, network: Callable[..., Tensor]) -> "ProbeReader":
        """Return the reader that these weights make."""
        return ProbeReader(network, self)


class ProbeModule(nn.Module):
    """The weights of a `Probe`."""

    def __init__(self, of: Probe) -> None:
        super().__init__()
        self.of = of
        each = [(3, of.width, 1), (of.width, of.width, 2), (of.width, 2 * of.width, 2)]
        steps = [] if of.linear else each
        self.convolutions = nn.ModuleList(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1) for inputs, outputs, stride in steps
        )
        seen = 3 * of.size**2 if of.linear else 2 * of.width * (-(-of.size // 4)) ** 2
        self.outlet = nn.Linear(seen, sum(of.counts) + of.rejects)

    def forward(
        self, images: Float[Tensor, "batch 3 height width"]
    ) -> Float[Tensor, "batch concept"]:
        check_image(images, 3, self.of.size)
        hidden = 2 * images - 1
        for each in self.convolutions:
            hidden = F.silu(each(hidden))
        return self.outlet(hidden.flatten(1))


@dataclass(frozen=True)
class ProbeReader:
    """Images in [0, 1] -> the number of the concept of each factor.

    One that rejects reads -1 in an image whose validity lies below the threshold.
    """

    network: Any
    of: Probe
    threshold: float = 0.0

    @property
    def factors(self) -> tuple[Factor, ...]:
        """What is read."""
        return self.of.factors

    def __call__(
        self, images: Float[Tensor, "batch 3 height width"]
    ) -> Int[Tensor, "batch factor"]:
        logits = self._logits(images)
        named = self._likeliest(logits)
        if not self.of.rejects:
            return named
        return torch.where(logits[:, -1:] < self.threshold, NONE_OF_THESE, named)

    def named(self, images: Float[Tensor, "batch 3 height width"]) -> Int[Tensor, "batch factor"]:
        """Return the likeliest concepts, also of an image that would be rejected."""
        return self._likeliest(self._logits(images))

    def validity(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, " batch"]:
        """Return the log odds that each is an image of the world at all."""
        return self._logits(images)[:, -1]

    def _logits(self, images: Tensor) -> Tensor:
        return self.network(images.clamp(0, 1)).float()

    def _likeliest(self, logits: Tensor) -> Tensor:
        parts = logits[:, : sum(self.of.counts)].split(self.of.counts, dim=1)
        return torch.stack([each.argmax(dim=1) for each in parts], dim=1)
