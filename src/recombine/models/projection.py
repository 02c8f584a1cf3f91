"""A law whose pixels come in blocks, each with its own condition, and the product of its parts.

A condition has one number for each block; 0 is null. Given conditions for some blocks, a law
composes (conditional projective composition, Bradley 2025, arXiv 2509.16447) when it is the
product of each conditioned block's law given its own condition alone and of the other pixels' law
under the null condition.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from recombine.denoiser import Conditions, Levels
from recombine.models.gaussian import GaussianLaw
from recombine.models.mixture import MixtureLaw

Law: TypeAlias = GaussianLaw | MixtureLaw
PixelRows: TypeAlias = Float[Tensor, "batch pixel"]
Given: TypeAlias = Float[Tensor, "batch block"]
"""Conditions, a number for each block."""

LEVELS = (0.05, 0.1, 0.3, 1.0, 3.0, 10.0, 50.0)
"""Noise levels at which a law is measured."""


@dataclass(frozen=True, eq=False)
class Restricted:
    """A mean image or a covariance, of some pixels only."""

    whole: Callable[[Tensor], Tensor]
    pixels: Bool[Tensor, " pixel"]
    matrix: bool = False

    def __call__(self, condition: Conditions) -> Float[Tensor, " batch *some"]:
        return _restricted(self.whole(condition), self.pixels, self.matrix)


def marginal(law: Law, pixels: Bool[Tensor, " pixel"]) -> Law:
    """Return the law of some of the pixels."""
    mean = Restricted(law.mean, pixels)
    if isinstance(law, MixtureLaw):
        return MixtureLaw(law.log_weight, mean, _restricted(law.covariance, pixels, True))
    if isinstance(law.covariance, Tensor):
        return GaussianLaw(mean, _restricted(law.covariance, pixels, True))
    return GaussianLaw(mean, Restricted(law.covariance, pixels, True))


def mean_image(law: Law, condition: Float[Tensor, " block"]) -> Float[Tensor, " pixel"]:
    """Return the mean of the images of a law under one condition."""
    mean = law.mean(condition[None])[0]
    if isinstance(law, MixtureLaw):
        return law.log_weight(condition[None])[0].softmax(dim=0) @ mean
    return mean


def alone(condition: Given, block: int) -> Given:
    """Return the condition with the number of one block only."""
    kept = torch.zeros_like(condition)
    kept[:, block] = condition[:, block]
    return kept


@dataclass(frozen=True, eq=False)
class KnownLaw:
    """A law, its blocks, conditions to measure it under, and what theory predicts of its scores.

    `pixel_local`: no part depends on the pixels of another one. `condition_local`: nor on the
    condition of another one, be it changed or removed. Under the null condition the law is
    `unconditional`, where that differs from the law's own.
    """

    name: str
    law: Law
    blocks: Bool[Tensor, "block pixel"]
    conditions: Float[Tensor, "row block"]
    pixel_local: bool = True
    condition_local: bool = True
    unconditional: Law | None = None
    levels: tuple[float, ...] = LEVELS

    @property
    def composes(self) -> bool:
        """Whether the law is its own projection: local in both ways, for every set of blocks."""
        return self.pixel_local and self.condition_local

    def score(self, x: PixelRows, sigma: Levels, condition: Given) -> PixelRows:
        """Return the exact score."""
        given = (condition != 0).any(dim=1)
        answer = torch.zeros_like(x)
        for law, rows in ((self.law, given), (self.unconditional or self.law, ~given)):
            if rows.any():
                answer[rows] = law.score(x[rows], sigma[rows], condition[rows])
        return answer

    def projection(self, x: PixelRows, sigma: Levels, condition: Given) -> PixelRows:
        """Return the score of the product: of each block's own law, and of the background's."""
        answer = torch.zeros_like(x)
        given = condition != 0
        for group in given.unique(dim=0):
            rows = (given == group).all(dim=1)
            at = x[rows], sigma[rows], condition[rows]
            answer[rows] = self._projected(group, *at)
        return answer

    def _projected(self, given: Tensor, x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        answer = torch.zeros_like(x)
        rest = ~self.blocks[given].any(dim=0)
        parts = [
            (self.law, self.blocks[j], alone(condition, j)) for j in given.nonzero()[:, 0].tolist()
        ]
        parts.append((self.unconditional or self.law, rest, torch.zeros_like(condition)))
        for law, pixels, condition in parts:
            if pixels.any():
                answer[:, pixels] = marginal(law, pixels).score(x[:, pixels], sigma, condition)
        return answer


def _restricted(value: Tensor, pixels: Tensor, matrix: bool) -> Tensor:
    return value[..., pixels, :][..., pixels] if matrix else value[..., pixels]
