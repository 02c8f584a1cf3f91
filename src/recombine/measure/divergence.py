"""How far a known law is from the product of its parts, and what noise makes of the distance.

The divergence KL(p || q) of a law p from its projection q splits into dependence between parts,
conditional leak and background leak. It is the integral over noise of how far the scores of p and
q are apart (de Bruijn's identity), so that a law composes if and only if its scores are local.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, exp, fsum, log, pi
from typing import Any, TypeAlias, TypeVar

import torch
from jaxtyping import Bool, Complex, Float
from torch import Tensor

FLOOR = 1e-12
"""Absolute slack of a bound: a relative one alone fails falsely at small sigma."""


@dataclass(frozen=True, eq=False)
class Normal:
    """A normal law of a few pixels."""

    mean: Float[Tensor, " pixel"]
    covariance: Float[Tensor, "pixel pixel"]

    def marginal(self, pixels: Bool[Tensor, " pixel"]) -> "Normal":
        """Return the law of some of the pixels."""
        return Normal(self.mean[pixels], self.covariance[pixels][:, pixels])

    def noisy(self, variance: float) -> "Normal":
        """Return the law of noisy images; the noise has this variance, sigma^2."""
        noise = variance * torch.eye(len(self.mean)).to(self.covariance)
        return Normal(self.mean, self.covariance + noise)

    def product(self, parts: "Sequence[tuple[Tensor, Normal]]") -> "Normal":
        """Return the law whose parts are independent, its pixels in the order of this one's."""
        mean, covariance = torch.zeros_like(self.mean), torch.zeros_like(self.covariance)
        for pixels, part in parts:
            mean[pixels] = part.mean
            covariance[pixels[:, None] & pixels] = part.covariance.flatten()
        return Normal(mean, covariance)

    def divergence(self, other: "Normal") -> float:
        """Return KL(self || other)."""
        apart = other.mean - self.mean
        ratio = torch.linalg.solve(other.covariance, self.covariance)
        far = apart @ torch.linalg.solve(other.covariance, apart)
        determinant = torch.linalg.slogdet(other.covariance)[1]
        determinant = determinant - torch.linalg.slogdet(self.covariance)[1]
        return float(ratio.trace() - len(apart) + far + determinant) / 2

    def fisher(self, other: "Normal") -> float:
        """Return E|s_self - s_other|^2 over this law."""
        mine, theirs = torch.linalg.inv(self.covariance), torch.linalg.inv(other.covariance)
        turn, apart = theirs - mine, theirs @ (self.mean - other.mean)
        return float((turn @ self.covariance * turn).sum() + apart @ apart)


@dataclass(frozen=True, eq=False)
class DiscreteLaw:
    """A law of a few values: the probability of each choice, one axis per pixel."""

    probability: Float[Tensor, "*value"]

    def marginal(self, pixels: Bool[Tensor, " pixel"]) -> "DiscreteLaw":
        """Return the law of some of the pixels."""
        others = (~pixels).nonzero().flatten().tolist()
        return DiscreteLaw(self.probability.sum(dim=others) if others else self.probability)

    def product(self, parts: "Sequence[tuple[Tensor, DiscreteLaw]]") -> "DiscreteLaw":
        """Return the law whose parts are independent, its pixels in the order of this one's."""
        table = torch.ones_like(self.probability)
        for pixels, part in parts:
            shape = [
                size if mine else 1 for size, mine in zip(table.shape, pixels.tolist(), strict=True)
            ]
            table = table * part.probability.reshape(shape)
        return DiscreteLaw(table)

    def divergence(self, other: "DiscreteLaw") -> float:
        """Return KL(self || other)."""
        p, q = self.probability, other.probability
        return float((torch.special.xlogy(p, p) - torch.special.xlogy(p, q)).sum())


Exact = TypeVar("Exact", Normal, DiscreteLaw)
BlockLaw: TypeAlias = tuple[Tensor, Exact]
"""Which pixels, and their law."""


@dataclass(frozen=True)
class DivergenceSplit:
    """KL(p || q) and the three terms it is the sum of."""

    whole: float
    dependence: float
    conditional_leak: float
    background_leak: float

    @property
    def residual(self) -> float:
        """How far the terms are from their sum."""
        terms = (self.dependence, self.conditional_leak, self.background_leak)
        return abs(self.whole - fsum(terms))


def divergence_split(
    law: Exact, blocks: Sequence[BlockLaw[Exact]], background: BlockLaw[Exact] | None = None
) -> DivergenceSplit:
    """Split the divergence of a law from the product of its parts.

    `blocks` have their laws given their own condition alone, `background` are the other pixels with
    their unconditional law; None where there are no others.
    """
    parts: list[BlockLaw[Exact]] = list(blocks)
    if background:
        parts.append(background)
    owners = torch.stack([pixels for pixels, _ in parts]).sum(dim=0)
    if (owners != 1).any():
        raise ValueError(f"every pixel is in one part; they are in {owners.tolist()} parts")
    own: list[BlockLaw[Exact]] = [(pixels, law.marginal(pixels)) for pixels, _ in parts]
    leaks = [law.marginal(pixels).divergence(part) for pixels, part in parts]
    return DivergenceSplit(
        whole=law.divergence(law.product(parts)),
        dependence=law.divergence(law.product(own)),
        conditional_leak=fsum(leaks[: len(blocks)]),
        background_leak=fsum(leaks[len(blocks) :]),
    )


def over_noise(
    fisher: Callable[[float], float], span: tuple[float, float] = (1e-18, 1e20), step: float = 0.35
) -> float:
    """Return the integral of fisher(v) / 2 over the variances v = sigma^2 from 0 to infinity.

    With fisher(v) = E_p|s_p - s_q|^2 at that noise it is KL(p || q), if that vanishes with noise.
    """
    # Sums over equal steps of log v converge exponentially; both ends fall off on their own.
    first, last = (log(end) for end in span)
    levels = [exp(first + step * index) for index in range(ceil((last - first) / step) + 1)]
    return step * fsum(level * fisher(level) / 2 for level in levels)


def ratio_bound(
    spread: Float[Tensor, "*any"], sigma: float, low: float, high: float
) -> Float[Tensor, "*any"]:
    """Return the most that scores of p and q can differ at a pixel when low <= p / q <= high.

    `spread` is the standard deviation of the clean pixel under q, given the noisy image. With
    low = exp(-eps) and high = exp(eps) the factor is sinh(eps).
    """
    if not 0 < low <= 1 <= high:
        raise ValueError(f"a ratio of laws has 0 < low <= 1 <= high; got {low} and {high}")
    return spread / sigma**2 * (high - low) / (2 * (low * high) ** 0.5)


def violations(gap: Float[Tensor, "*any"], bound: Float[Tensor, "*any"]) -> int:
    """Return how often a gap exceeds its bound, by more than the floor of rounding."""
    return int((gap > bound + FLOOR).sum())


def local_loss(
    law: Normal, pixel: int, near: Bool[Tensor, " pixel"], sigma: float
) -> tuple[float, float]:
    """Return E|s - s_local|^2 at a pixel of a normal law, and the same as a gap of losses.

    The second is (mmse given the near pixels - mmse given all of them) / sigma^4: what the best
    local denoiser loses.
    """
    noisy = law.noisy(sigma**2).covariance
    inner = torch.zeros_like(noisy)
    inner[near[:, None] & near] = torch.linalg.inv(noisy[near][:, near]).flatten()
    turn = (torch.linalg.inv(noisy) - inner)[pixel]
    cross = law.covariance[pixel]
    explained = cross @ torch.linalg.solve(noisy, cross) - cross @ inner @ cross
    return float(turn @ noisy @ turn), float(explained) / sigma**4


def plane(sigma: float, reach: float = 1.0) -> tuple[Float[Tensor, "point 2"], float]:
    """Return a lattice for expectations over noisy images of two pixels in [-reach, reach].

    The sum over its points times the area of a cell (returned too) converges exponentially; the
    step resolves the answers of a denoiser, which turn within sigma^2 / reach.
    """
    step = max(min(sigma / 4, pi * sigma**2 / (12 * reach)), reach / 100)
    line = torch.arange(0, reach + 9 * sigma + step, step, dtype=torch.float64)
    line = torch.cat([-line[1:].flip(0), line])
    return torch.cartesian_prod(line, line), step**2


@dataclass(frozen=True, eq=False)
class Pair:
    """A law of two pixels that is not normal, with expectations as sums over noisy images.

    A law has a `score`, a `log_density` and a `jacobian`, that of the denoised image.
    """

    law: Any

    def points(self, variance: float) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
        """Return the probability of each noisy image, and the arguments of a law."""
        x, area = plane(variance**0.5)
        arguments = x, x.new_full((len(x),), variance**0.5), x.new_zeros(len(x), 1)
        return self.law.log_density(*arguments).exp() * area, arguments

    def fisher(self, other: Any, variance: float) -> float:
        """Return E|s - s_other|^2."""
        weight, arguments = self.points(variance)
        gap = self.law.score(*arguments) - other.score(*arguments)
        return float(weight @ gap.square().sum(dim=1))

    def local_loss(self, near: Any, variance: float) -> tuple[float, float]:
        """Return E|s - s_local|^2 at the first pixel and, over sigma^4, what locality loses."""
        weight, (x, *rest) = self.points(variance)
        apart = self.law.score(x, *rest)[:, 0] - near.score(x[:, :1], *rest)[:, 0]
        loss = [
            variance * (weight @ law.jacobian(seen, *rest)[:, 0, 0])
            for law, seen in ((near, x[:, :1]), (self.law, x))
        ]
        return float(weight @ apart**2), float(loss[0] - loss[1]) / variance**2


def characteristic(
    x: Float[Tensor, "point pixel"],
    weight: Float[Tensor, " point"],
    frequency: Float[Tensor, "frequency pixel"],
) -> Complex[Tensor, " frequency"]:
    """Return E exp(i frequency x); noise multiplies it by exp(-|sigma frequency|^2 / 2)."""
    phase = frequency @ x.mT
    return torch.complex(phase.cos() @ weight, phase.sin() @ weight)
