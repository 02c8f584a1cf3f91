"""What a masked model reads and says of a token: heads as they are declared, first and last layers.

What is said decides which model it is: logits over codes (MaskGIT), by their names or by how near
their vectors are to a point, a Gaussian mixture or one Gaussian (GIVT), or a vector that steers a
small denoiser of that token (MAR).
"""

from dataclasses import dataclass
from math import log
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from recombine.models.blocks import Embedding, closeness, gated, modulated, rms, zeroed
from recombine.models.entry import check_counts


@dataclass(frozen=True)
class Codes:
    """A token is one of `count` codes: the answer is logits."""

    count: int = 256

    def __post_init__(self) -> None:
        check_counts(self)


@runtime_checkable
class Codebook(Protocol):
    """Whoever knows the vectors of codes, such as a view of images as codes. A value."""

    def vectors(self) -> Float[Tensor, "code latent"]: ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Near:
    """A token is a code of this book, read and scored by its vector: the answer is logits.

    The network predicts a point among the vectors and how far around it to look, at `least` so
    far. A code counts as if the point were its vector under that much Gaussian noise: no two
    codes that lie apart are likely without those between them.
    """

    book: Codebook
    least: float = 0.02

    def __post_init__(self) -> None:
        check_least(self.least, "around a point")


@dataclass(frozen=True)
class Apart:
    """`Near`, whose logits teach the width alone: its points are taught by a loss of their own.

    A likelihood counts the error of a point in widths, so that most is learned of what is known
    best (Seitzer et al. 2022); a squared error does not.
    """

    near: Near


@dataclass(frozen=True)
class Mixture:
    """A token is `latent` numbers: the answer is a mixture of Gaussians with diagonal covariance.

    No Gaussian is narrower than `least`: without a bound a token that never changes would be
    predicted ever more sharply and nothing else be learned.
    """

    latent: int = 8
    components: int = 16
    least: float = 1e-3

    def __post_init__(self) -> None:
        check_counts(self)
        check_least(self.least, "of a Gaussian")


@dataclass(frozen=True)
class Gaussian:
    """A token is `latent` numbers: the answer is one Gaussian, whose likelihood teaches its widths.

    Its mean is taught by a loss of its own, as a point of `Apart`. No width is below `least`.
    """

    latent: int = 8
    least: float = 1e-3

    def __post_init__(self) -> None:
        check_counts(self)
        check_least(self.least, "of a Gaussian")


@dataclass(frozen=True)
class DiffusionHead:
    """A token is `latent` numbers: the answer is a vector that a denoiser of tokens is told.

    The denoiser has so many residual `blocks`; sigma_data is the standard deviation of latents.
    """

    latent: int = 8
    blocks: int = 3
    width: int = 192
    sigma_data: float = 0.5

    def __post_init__(self) -> None:
        check_counts(self)


def check_least(least: float, whose: str) -> None:
    """Raise unless a least width is one."""
    if not 0 < least < float("inf"):
        raise ValueError(f"the least width {whose} is positive; got {least}")


Discrete: TypeAlias = Codes | Near | Apart
Head: TypeAlias = Discrete | Mixture | Gaussian | DiffusionHead


class Mixed(NamedTuple):
    """A mixture of Gaussians for each token; weights add up to one."""

    log_weights: Float[Tensor, "*token component"]
    means: Float[Tensor, "*token component latent"]
    log_scales: Float[Tensor, "*token component latent"]


def inlet(head: Head, width: int) -> nn.Module:
    """Return the first layer: from tokens to the trunk's."""
    if isinstance(head, Codes):
        return nn.Embedding(head.count, width)
    if isinstance(head, Near | Apart):
        return VectorInlet(head.near if isinstance(head, Apart) else head, width)
    return nn.Linear(head.latent, width)


def outlet(head: Head, width: int) -> nn.Module:
    """Return the last layer: from the trunk's tokens to what is said of them."""
    if isinstance(head, Codes):
        return zeroed(nn.Linear(width, head.count))
    if isinstance(head, Near):
        return PointOutlet(head, width)
    if isinstance(head, Apart):
        return PointOutlet(head.near, width, apart=True)
    if isinstance(head, Gaussian):
        return GaussianOutlet(head, width)
    return MixtureOutlet(head, width) if isinstance(head, Mixture) else nn.Identity()


class VectorInlet(nn.Module):
    """Codes to tokens, by way of their vectors."""

    def __init__(self, of: Near, width: int) -> None:
        super().__init__()
        vectors = of.book.vectors()
        self.register_buffer("vectors", vectors, persistent=False)
        self.vectors: Tensor
        self.layer = nn.Linear(vectors.shape[1], width)

    def forward(self, ids: Int[Tensor, "batch token"]) -> Float[Tensor, "batch token width"]:
        return self.layer(F.embedding(ids, self.vectors))


class PointOutlet(nn.Module):
    """Tokens to the logits of codes: minus half the squared distance from a point, in widths.

    `apart`, what is made of the logits changes how wide to look and nothing else.
    """

    def __init__(self, of: Near, width: int, apart: bool = False) -> None:
        super().__init__()
        self.apart = apart
        self.log_least = log(of.least)
        vectors = of.book.vectors()
        self.register_buffer("vectors", vectors, persistent=False)
        self.vectors: Tensor
        self.point = zeroed(nn.Linear(width, vectors.shape[1]))
        self.scale = zeroed(nn.Linear(width, 1))

    def forward(self, x: Float[Tensor, "*token width"]) -> Float[Tensor, "*token code"]:
        point = self.point(x)
        if self.apart:
            x, point = x.detach(), point.detach()
        log_scale = self.log_least + F.softplus(self.scale(x) - self.log_least)
        return closeness(point, self.vectors) * (-2 * log_scale).exp()


class MixtureOutlet(nn.Module):
    """Tokens to the weights, means and scales of mixtures."""

    def __init__(self, of: Mixture, width: int) -> None:
        super().__init__()
        self.of = of
        self.layer = nn.Linear(width, of.components * (1 + 2 * of.latent))

    def forward(self, x: Float[Tensor, "*token width"]) -> Mixed:
        weights, means, scales = self.layer(x).split(
            [self.of.components, *[self.of.components * self.of.latent] * 2], dim=-1
        )
        means, scales = (t.unflatten(-1, (self.of.components, -1)) for t in (means, scales))
        least = log(self.of.least)
        return Mixed(weights.log_softmax(-1), means, least + F.softplus(scales - least))


class GaussianOutlet(nn.Module):
    """Tokens to single Gaussians; what is made of these changes their widths and nothing else."""

    def __init__(self, of: Gaussian, width: int) -> None:
        super().__init__()
        self.log_least = log(of.least)
        self.point = zeroed(nn.Linear(width, of.latent))
        self.scale = zeroed(nn.Linear(width, of.latent))

    def forward(self, x: Float[Tensor, "*token width"]) -> Mixed:
        x = x.detach()
        means = self.point(x).detach()[..., None, :]
        scales = self.log_least + F.softplus(self.scale(x) - self.log_least)
        return Mixed(means.new_zeros(means.shape[:-1]), means, scales[..., None, :])


Aimed: TypeAlias = PointOutlet | GaussianOutlet
"""An outlet with a point that may be taught by itself."""


class TokenDenoiser(nn.Module):
    """The network (x, clock, vector) -> answer of MAR's head: blocks steered by adaLN-zero."""

    def __init__(self, of: DiffusionHead, told: int) -> None:
        super().__init__()
        self.embedding = Embedding(of.width)
        self.told = nn.Linear(told, of.width)
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
        condition: Float[Tensor, "batch told"],
    ) -> Float[Tensor, "batch latent"]:
        steering = F.silu(self.embedding(clock.to(x.dtype)) + self.told(condition.to(x.dtype)))
        *each, last = self.modulation(steering).split(self.shares, dim=1)
        inside = self.inlet(x)
        for block, part in zip(self.blocks, each, strict=True):
            shift, scale, gate = part.chunk(3, dim=1)
            inside = inside + gated(block(modulated(rms(inside), shift, scale)), gate)
        return self.outlet(modulated(rms(inside), *last.chunk(2, dim=1)))
