"""The reader of single objects: which concept of each factor does an image show?

A small convolutional network is the reader of record. The papers' probe is linear in the pixels; it
stands beside it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from recombine.models.entry import check_counts, check_image
from recombine.scene import Factor
from recombine.worlds.shapes2d import Shapes2D


@dataclass(frozen=True)
class Probe:
    """A network with a logit for every concept of every factor, side by side.

    One that `rejects` has a last logit, for "nothing valid".
    """

    size: int = 28
    factors: tuple[Factor, ...] = Shapes2D().factors
    width: int = 48
    linear: bool = False
    rejects: bool = False

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
class ProbeReading:
    """The likeliest concepts, and the log of the odds that nothing valid is shown."""

    concepts: Int[Tensor, "batch factor"]
    doubt: Float[Tensor, " batch"]

    @property
    def valid(self) -> Bool[Tensor, " batch"]:
        """Whether a composition is likelier than nothing valid."""
        return self.within(1.0)

    @property
    def rows(self) -> Int[Tensor, "batch factor"]:
        """The concepts of valid images, and -1 for those of others."""
        return torch.where(self.valid[:, None], self.concepts, -1)

    def within(self, factor: float) -> Bool[Tensor, " batch"]:
        """Return whether the odds that nothing valid is shown are at most this factor."""
        return self.doubt.exp() <= factor


@dataclass(frozen=True)
class ProbeReader:
    """Reads images in [0, 1]; one that does not reject takes every image for valid.

    The log of the odds that an image is valid has to reach the threshold.
    """

    network: Any
    of: Probe
    threshold: float = 0.0

    @property
    def factors(self) -> tuple[Factor, ...]:
        """What is read."""
        return self.of.factors

    def __call__(self, images: Float[Tensor, "batch 3 height width"]) -> ProbeReading:
        logits = self.network(images.clamp(0, 1)).float()
        parts = logits[:, : sum(self.of.counts)].split(self.of.counts, dim=1)
        rows = torch.stack([each.argmax(dim=1) for each in parts], dim=1)
        doubt = logits[:, -1] if self.of.rejects else torch.full_like(logits[:, -1], -torch.inf)
        return ProbeReading(rows, doubt + self.threshold)
