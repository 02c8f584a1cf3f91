"""The heads of masked models: how a token is read, and what is predicted of a hidden one.

The head decides which model it is: logits over codes (MaskGIT), learned one by one or computed from
the distance of a predicted vector to the codes' vectors; a Gaussian mixture (GIVT); or a vector
that conditions a small denoiser of that token (MAR).
"""

from dataclasses import dataclass
from functools import cache
from math import log
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from recombine.models.blocks import Embedding, closeness, gated, modulated, rms, zeroed
from recombine.models.entry import check_counts


@dataclass(frozen=True)
class LogitHead:
    """A token is one of `count` codes, each with a logit of its own."""

    count: int = 256

    def __post_init__(self) -> None:
        check_counts(self)


@runtime_checkable
class Codebook(Protocol):
    """Whatever has the vectors of codes, such as a view of images as codes. A value."""

    def vectors(self) -> Float[Tensor, "code latent"]: ...

    def __hash__(self) -> int: ...


# A step that is recorded as a CUDA graph cannot fetch them again.
@cache
def vectors(book: Codebook, device: torch.device) -> Float[Tensor, "code latent"]:
    """Return the vectors of a book's codes, on a device."""
    return book.vectors().to(device)


@dataclass(frozen=True)
class DistanceHead:
    """A token is a code of this book, read by its vector and scored by its distance.

    The network predicts a vector and a width, at `least` so wide. The logit of a code is that of
    its vector under Gaussian noise of this width around the predicted one: no two codes that lie
    apart are likely without those between them. With `separate` the logits train the width alone,
    and a loss of its own trains the vector: a likelihood counts its error in widths, so that most
    is learned where the width is small already (Seitzer et al. 2022); a squared error does not.
    """

    book: Codebook
    least: float = 0.02
    separate: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.least < float("inf"):
            raise ValueError(f"the least width around a vector is positive; got {self.least}")


@dataclass(frozen=True)
class MixtureHead:
    """A token is `latent` numbers: predicted is a mixture of Gaussians with diagonal covariance.

    No Gaussian is narrower than `least`: without a bound a token that never changes would be
    predicted ever more sharply and nothing else be learned.
    """

    latent: int = 8
    components: int = 16
    least: float = 1e-3

    def __post_init__(self) -> None:
        check_counts(self)
        if not 0 < self.least < float("inf"):
            raise ValueError(f"the least width of a Gaussian is positive; got {self.least}")


@dataclass(frozen=True)
class DiffusionHead:
    """A token is `latent` numbers: predicted is a vector that conditions a denoiser of tokens.

    The denoiser has so many residual `blocks`; sigma_data is the standard deviation of latents.
    """

    latent: int = 8
    blocks: int = 3
    width: int = 192
    sigma_data: float = 0.5

    def __post_init__(self) -> None:
        check_counts(self)


Head: TypeAlias = LogitHead | DistanceHead | MixtureHead | DiffusionHead


def inlet(head: Head, width: int) -> nn.Module:
    """Return the first layer of a trunk: from tokens to features."""
    if isinstance(head, LogitHead):
        return nn.Embedding(head.count, width)
    if isinstance(head, DistanceHead):
        return VectorInlet(head, width)
    return nn.Linear(head.latent, width)


def outlet(head: Head, width: int) -> nn.Module:
    """Return the last layer of a trunk: from features to predictions."""
    match head:
        case LogitHead():
            return zeroed(nn.Linear(width, head.count))
        case DistanceHead():
            return DistanceOutlet(head, width)
        case MixtureHead():
            return MixtureOutlet(head, width)
        case DiffusionHead():
            return nn.Identity()


class GaussianMixture(NamedTuple):
    """A mixture of Gaussians for each token; weights add up to one."""

    log_weights: Float[Tensor, "*token component"]
    means: Float[Tensor, "*token component latent"]
    log_scales: Float[Tensor, "*token component latent"]


class VectorInlet(nn.Module):
    """Codes to tokens, by way of their vectors."""

    def __init__(self, of: DistanceHead, width: int) -> None:
        super().__init__()
        vectors = of.book.vectors()
        self.register_buffer("vectors", vectors, persistent=False)
        self.vectors: Tensor
        self.layer = nn.Linear(vectors.shape[1], width)

    def forward(self, ids: Int[Tensor, "batch token"]) -> Float[Tensor, "batch token width"]:
        return self.layer(F.embedding(ids, self.vectors))


class DistanceOutlet(nn.Module):
    """Tokens to the logits of codes: minus half the squared distance from a vector, in widths.

    `separate`: what is made of the logits trains the width and nothing else.
    """

    def __init__(self, of: DistanceHead, width: int) -> None:
        super().__init__()
        self.separate = of.separate
        self.log_least = log(of.least)
        vectors = of.book.vectors()
        self.register_buffer("vectors", vectors, persistent=False)
        self.vectors: Tensor
        self.vector = zeroed(nn.Linear(width, vectors.shape[1]))
        self.scale = zeroed(nn.Linear(width, 1))

    def forward(self, x: Float[Tensor, "*token width"]) -> Float[Tensor, "*token code"]:
        vector = self.vector(x)
        if self.separate:
            x, vector = x.detach(), vector.detach()
        log_scale = self.log_least + F.softplus(self.scale(x) - self.log_least)
        return closeness(vector, self.vectors) * (-2 * log_scale).exp()


class MixtureOutlet(nn.Module):
    """Tokens to the weights, means and scales of mixtures."""

    def __init__(self, of: MixtureHead, width: int) -> None:
        super().__init__()
        self.of = of
        self.layer = nn.Linear(width, of.components * (1 + 2 * of.latent))

    def forward(self, x: Float[Tensor, "*token width"]) -> GaussianMixture:
        weights, means, scales = self.layer(x).split(
            [self.of.components, *[self.of.components * self.of.latent] * 2], dim=-1
        )
        means, scales = (t.unflatten(-1, (self.of.components, -1)) for t in (means, scales))
        least = log(self.of.least)
        log_scales = least + F.softplus(scales - least)
        return GaussianMixture(weights.log_softmax(-1), means, log_scales)


class TokenDenoiser(nn.Module):
    """MAR's network (x, clock, vector) -> output: residual blocks modulated by adaLN-zero."""

    def __init__(self, of: DiffusionHead, vector: int) -> None:
        super().__init__()
        self.embedding = Embedding(of.width)
        self.condition = nn.Linear(vector, of.width)
        self.inlet = nn.Linear(of.latent, of.width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(of.width, of.width), nn.SiLU(), nn.Linear(of.width, of.width))
            for _ in range(of.blocks)
        )
        self.shares = [3 * of.width] * of.blocks + [2 * of.width]
        self.modulation = zeroed(nn.Linear(of.width, sum(self.shares)))
        self.outlet = zeroed(nn.Linear(of.width, of.latent))

    def forward(
        self,
        x: Float[Tensor, "batch latent"],
        clock: Float[Tensor, " batch"],
        condition: Float[Tensor, "batch feature"],
    ) -> Float[Tensor, "batch latent"]:
        noise = self.embedding(clock.to(x.dtype))
        modulation = self.modulation(F.silu(noise + self.condition(condition.to(x.dtype))))
        *each, last = modulation.split(self.shares, dim=1)
        inside = self.inlet(x)
        for block, part in zip(self.blocks, each, strict=True):
            shift, scale, gate = part.chunk(3, dim=1)
            inside = inside + gated(block(modulated(rms(inside), shift, scale)), gate)
        return self.outlet(modulated(rms(inside), *last.chunk(2, dim=1)))
