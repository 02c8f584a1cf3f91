"""Masked models, one trunk for three: it sees some tokens of an image and predicts the hidden ones.

Which model it is, MaskGIT, GIVT or MAR, its head decides (heads.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from recombine.denoiser import Preconditioned
from recombine.models.blocks import (
    FactorTokens,
    Transformer,
    head_width,
    heard,
    modulated,
    positions,
    rms,
    zeroed,
)
from recombine.models.entry import check_counts, check_shape
from recombine.models.heads import (
    Aimed,
    Codes,
    DiffusionHead,
    Discrete,
    Head,
    Mixed,
    TokenDenoiser,
    inlet,
    outlet,
)


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


class Predicted(NamedTuple):
    """What a masked model says, and the image's tokens after each of its layers.

    `output` is logits (batch, side, side, code), a mixture, or a vector per token for the head;
    `denoised` are the noisy tokens cleaned by the head, where it was given some; `guesses` are
    what the predictors of JEPA make of their layers; `points` are those that codes are scored by,
    or the means of single Gaussians.
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
            points = outlet.point(last) if isinstance(outlet, Aimed) else None
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
