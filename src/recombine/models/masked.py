"""Masked models, one trunk for three: it sees some tokens of an image and predicts the hidden ones.

What is said of a hidden token decides which model it is: logits over codes (MaskGIT), by their
names or by how near their vectors are to a point, a Gaussian mixture (GIVT), or a vector that
steers a small denoiser of that token (MAR).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from recombine.denoiser import Preconditioned
from recombine.models.blocks import (
    Embedding,
    FactorTokens,
    Transformer,
    closeness,
    gated,
    head_width,
    heard,
    modulated,
    positions,
    rms,
    zeroed,
)
from recombine.models.entry import check_counts, check_shape


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
        if not 0 < self.least < float("inf"):
            raise ValueError(f"the least width around a point is positive; got {self.least}")


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
        if not 0 < self.least < float("inf"):
            raise ValueError(f"the least width of a Gaussian is positive; got {self.least}")


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


Discrete: TypeAlias = Codes | Near | Apart
Head: TypeAlias = Discrete | Mixture | DiffusionHead


@dataclass(frozen=True)
class Masked:
    """A transformer on `side` x `side` tokens, behind one token for each factor it is told.

    A condition has a row for each factor: `features` numbers that say its value, then 1 if it is
    told; a row that ends in 0 says nothing. A `steered` one has no such tokens: as in a DiT, what
    is told shifts, scales and gates every layer, and factors add up on the way in.
    """

    side: int = 7
    factors: int = 3
    features: int = 3
    head: Head = Codes()
    width: int = 176
    layers: int = 8
    heads: int = 4
    steered: bool = False

    def __post_init__(self) -> None:
        check_counts(self, "steered")
        if self.width % 4:
            raise ValueError(f"a width is a multiple of 4; got {self.width}")
        head_width(self.width, self.heads)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one image's tokens."""
        of_one = () if isinstance(self.head, Discrete) else (self.head.latent,)
        return (*of_one, self.side, self.side)

    def build(self) -> "MaskedModule":
        """Return the network with fresh weights."""
        return MaskedModule(self)


class Mixed(NamedTuple):
    """A mixture of Gaussians for each token; weights add up to one."""

    log_weights: Float[Tensor, "*token component"]
    means: Float[Tensor, "*token component latent"]
    log_scales: Float[Tensor, "*token component latent"]


class Predicted(NamedTuple):
    """What a masked model says, and the image's tokens after each of its layers.

    `output` is logits (batch, side, side, code), a mixture, or a vector per token for the head;
    `denoised` are the noisy tokens cleaned by the head, where it was given some; `guesses` are
    what the predictors of JEPA make of their layers; `points` are those that codes are scored by.
    """

    output: Tensor | Mixed
    states: tuple[Float[Tensor, "batch token width"], ...]
    guesses: tuple[Float[Tensor, "batch token width"], ...] = ()
    denoised: Float[Tensor, "batch draw side side latent"] | None = None
    points: Float[Tensor, "batch side side latent"] | None = None


Predictor: TypeAlias = Callable[..., Predicted]
"""(tokens, hidden, condition) -> Predicted; it has a `head` if it answers with vectors."""


class MaskedModule(nn.Module):
    """The weights of a `Masked`."""

    def __init__(self, of: Masked) -> None:
        super().__init__()
        self.of = of
        self.told = None if of.steered else FactorTokens(of.factors, of.features, of.width)
        self.steering = Steering(of) if of.steered else None
        self.inlet = inlet(of.head, of.width)
        self.mask = nn.Parameter(torch.randn(of.width))
        where = positions(of.side, of.width).flatten(1).T
        self.register_buffer("where", where, persistent=False)
        self.where: Tensor
        self.blocks = nn.ModuleList(Transformer(of.width, of.heads) for _ in range(of.layers))
        self.outlet = outlet(of.head, of.width)
        self.head: nn.Module | None = None
        if isinstance(of.head, DiffusionHead):
            self.head = Preconditioned(TokenDenoiser(of.head, of.width), of.head.sigma_data)

    def forward(
        self,
        tokens: Shaped[Tensor, " batch *token"],
        hidden: Bool[Tensor, "batch side side"],
        condition: Float[Tensor, "batch factor row"],
        noisy: Float[Tensor, "batch draw side side latent"] | None = None,
        sigma: Float[Tensor, "batch draw side side"] | None = None,
    ) -> Predicted:
        """Predict the hidden tokens; what stands in `tokens` there does not matter.

        The head cleans `noisy` tokens in the same call: wrapped networks (DDP, autocast) have no
        other way in.
        """
        x = self._embedded(tokens, hidden)
        places = x.shape[1]
        if self.told is not None:
            x = torch.cat([self.told(condition), x], dim=1)
        *each, end = self._modulations(condition)
        states = []
        for block, modulation in zip(self.blocks, each, strict=True):
            x = block(x, modulation)
            states.append(x[:, -places:])
        shift, scale = (None, None) if end is None else end[:, None].chunk(2, dim=-1)
        last = modulated(rms(states[-1]), shift, scale)
        last = last.unflatten(1, (self.of.side, self.of.side))
        # Logits and likelihoods need more digits than mixed precision leaves them.
        with torch.autocast(last.device.type, enabled=False):
            last, outlet = last.to(self.mask.dtype), self.outlet
            output = outlet(last)
            points = outlet.point(last) if isinstance(outlet, PointOutlet) else None
        if noisy is None or sigma is None:
            return Predicted(output, tuple(states), points=points)
        return Predicted(output, tuple(states), denoised=self._denoised(output, noisy, sigma))

    def _modulations(self, condition: Tensor) -> Sequence[Tensor | None]:
        """Return what steers each layer, and the outlet; nothing, if tokens tell."""
        if self.steering is None:
            return (None,) * (self.of.layers + 1)
        return self.steering(condition)

    def _embedded(self, tokens: Tensor, hidden: Tensor) -> Tensor:
        check_tokens(tokens, self.of)
        covered = hidden.flatten(1)[..., None]
        if isinstance(self.of.head, Discrete):
            seen = self.inlet(tokens.flatten(1).masked_fill(covered[..., 0], 0))
        else:
            # Not a product: what is hidden may be anything, NaN included.
            seen = self.inlet(tokens.flatten(2).transpose(1, 2).masked_fill(covered, 0))
        return torch.where(covered, self.mask, seen.to(self.mask.dtype)) + self.where

    def _denoised(self, vector: Tensor | Mixed, noisy: Tensor, sigma: Tensor) -> Tensor:
        if self.head is None or isinstance(vector, Mixed):
            raise ValueError(f"noisy tokens are for a DiffusionHead; this one is {self.of.head}")
        told = vector[:, None].expand(*sigma.shape, -1)
        rows = self.head(noisy.flatten(0, 3), sigma.flatten(), told.flatten(0, 3))
        return rows.reshape(noisy.shape)


def check_tokens(tokens: Tensor, of: Masked) -> None:
    """Raise unless a batch holds the tokens that a network was declared for."""
    kind = "latents" if len(of.shape) == 3 else "ids"
    if tokens.shape[1:] != of.shape or tokens.is_floating_point() != (kind == "latents"):
        raise ValueError(
            f"this network reads {kind} of the shape {of.shape}; "
            f"got {tokens.dtype} of {tuple(tokens.shape[1:])}"
        )


class Steering(nn.Module):
    """What is told, as the shifts, scales and gates of all layers, and of the outlet."""

    def __init__(self, of: Masked) -> None:
        super().__init__()
        self.told = (of.factors, of.features + 1)
        self.values = heard(of.factors * (of.features + 1), of.width)
        self.shares = [6 * of.width] * of.layers + [2 * of.width]
        self.modulation = zeroed(nn.Linear(of.width, sum(self.shares)))

    def forward(
        self, condition: Float[Tensor, "batch factor row"]
    ) -> tuple[Float[Tensor, "batch some_widths"], ...]:
        expected = (len(condition), *self.told)
        check_shape(condition.shape == expected, "a masked model", expected, condition)
        rows = condition.masked_fill(condition[..., -1:] == 0, 0)
        vector = self.values(rows.flatten(1).to(self.values.weight.dtype))
        return self.modulation(vector).split(self.shares, dim=1)


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
