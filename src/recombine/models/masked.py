"""Masked models, one trunk for three: it sees some tokens of an image and predicts the hidden ones.

Which model it is, MaskGIT, GIVT or MAR, its head decides (heads.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from recombine.denoiser import Preconditioned
from recombine.models.blocks import (
    FactorTokens,
    Transformer,
    condition_layer,
    head_width,
    modulated,
    positions,
    rms,
    zeroed,
)
from recombine.models.entry import FactorRows, check_counts, check_shape
from recombine.models.heads import (
    DiffusionHead,
    DistanceHead,
    DistanceOutlet,
    GaussianMixture,
    Head,
    LogitHead,
    TokenDenoiser,
    inlet,
    outlet,
)
from recombine.spelling import LATER


@dataclass(frozen=True)
class Masked:
    """A transformer on `side` x `side` tokens, conditioned by one prefix token for each factor.

    A condition has a row for each factor: `features` numbers that hold its value, then 1 if it is
    given; a row that ends in 0 is null. With `adaln` there are no prefix tokens: as in a DiT, the
    condition shifts, scales and gates every layer, and the rows of factors add up on the way in.
    The MLP of a layer has `inner` neurons, or four widths of them.
    """

    side: int = 7
    factors: int = 3
    features: int = 3
    head: Head = LogitHead()
    width: int = 176
    layers: int = 8
    heads: int = 4
    adaln: bool = False
    inner: int | None = field(default=None, metadata={LATER: True})

    def __post_init__(self) -> None:
        check_counts(self, "adaln")
        if self.width % 4:
            raise ValueError(f"a width is a multiple of 4; got {self.width}")
        head_width(self.width, self.heads)

    @property
    def discrete(self) -> bool:
        """Whether tokens are codes, not latents."""
        return isinstance(self.head, LogitHead | DistanceHead)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one image's tokens."""
        latent = () if isinstance(self.head, LogitHead | DistanceHead) else (self.head.latent,)
        return (*latent, self.side, self.side)

    def build(self) -> "MaskedModule":
        """Return the network with fresh weights."""
        return MaskedModule(self)


class Predicted(NamedTuple):
    """The predictions of a masked model, and the image's tokens after each of its layers.

    `output` is logits (batch, side, side, code), a mixture, or a vector per token for the head;
    `denoised` are the noisy tokens cleaned by the head, where it was given some; `guesses` are
    the predictions of JEPA, a tensor a layer; `vectors` are those that codes are scored by.
    """

    output: Tensor | GaussianMixture
    states: tuple[Float[Tensor, "batch token width"], ...]
    guesses: tuple[Float[Tensor, "batch token width"], ...] = ()
    denoised: Float[Tensor, "batch draw side side latent"] | None = None
    vectors: Float[Tensor, "batch side side latent"] | None = None


TokenModel: TypeAlias = Callable[..., Predicted]
"""(tokens, hidden, condition) -> Predicted; it has a `head` if its outputs are vectors."""


class MaskedModule(nn.Module):
    """The weights of a `Masked`."""

    def __init__(self, of: Masked) -> None:
        super().__init__()
        self.of = of
        rows = FactorRows(of.factors, of.features)
        self.factor_tokens = None if of.adaln else FactorTokens(rows, of.width)
        self.adaln = AdaLN(of) if of.adaln else None
        self.inlet = inlet(of.head, of.width)
        self.mask = nn.Parameter(torch.randn(of.width))
        where = positions(of.side, of.width).flatten(1).T
        self.register_buffer("where", where, persistent=False)
        self.where: Tensor
        self.blocks = nn.ModuleList(
            Transformer(of.width, of.heads, inner=of.inner) for _ in range(of.layers)
        )
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
        """Predict the hidden tokens; the values in `tokens` there do not matter.

        The head cleans `noisy` tokens in the same call: wrapped networks (DDP, autocast) have no
        other way in.
        """
        x = self._embedded(tokens, hidden)
        places = x.shape[1]
        if self.factor_tokens is not None:
            x = torch.cat([self.factor_tokens(condition), x], dim=1)
        shares = [None] * (self.of.layers + 1) if self.adaln is None else self.adaln(condition)
        *each, end = shares
        states = []
        for block, modulation in zip(self.blocks, each, strict=True):
            x = block(x, modulation)
            states.append(x[:, -places:])
        last = rms(states[-1])
        if end is not None:
            last = modulated(last, *end[:, None].chunk(2, dim=-1))
        last = last.unflatten(1, (self.of.side, self.of.side))
        # Logits and likelihoods need more digits than mixed precision leaves them.
        with torch.autocast(last.device.type, enabled=False):
            last, final = last.to(self.mask.dtype), self.outlet
            output = final(last)
            vectors = final.vector(last) if isinstance(final, DistanceOutlet) else None
        if noisy is None or sigma is None:
            return Predicted(output, tuple(states), vectors=vectors)
        return Predicted(output, tuple(states), denoised=self._denoised(output, noisy, sigma))

    def inside(self, layers: Sequence[int] = ()) -> dict[int, tuple[nn.Module, nn.Module]]:
        """Return where the neurons and the attention heads of some layers, or of all, are.

        The first module of a layer has the MLP's neurons for inputs, the second the outputs of
        the attention heads side by side.
        """
        check_layers(layers, self.of.layers)
        parts = {}
        for layer in layers or range(self.of.layers):
            block = self.blocks.get_submodule(str(layer))
            parts[layer] = (block.get_submodule("outer"), block.get_submodule("attention.out"))
        return parts

    def _embedded(self, tokens: Tensor, hidden: Tensor) -> Tensor:
        kind = "ids" if self.of.discrete else "latents"
        if tokens.shape[1:] != self.of.shape or tokens.is_floating_point() == self.of.discrete:
            raise ValueError(
                f"this network reads {kind} of the shape {self.of.shape}; "
                f"got {tokens.dtype} of {tuple(tokens.shape[1:])}"
            )
        covered = hidden.flatten(1)[..., None]
        if self.of.discrete:
            seen = self.inlet(tokens.flatten(1).masked_fill(covered[..., 0], 0))
        else:
            # Not a product: what is hidden may be anything, NaN included.
            seen = self.inlet(tokens.flatten(2).transpose(1, 2).masked_fill(covered, 0))
        return torch.where(covered, self.mask, seen.to(self.mask.dtype)) + self.where

    def _denoised(self, vector: Tensor | GaussianMixture, noisy: Tensor, sigma: Tensor) -> Tensor:
        if self.head is None or isinstance(vector, GaussianMixture):
            raise ValueError(f"noisy tokens are for a DiffusionHead; this one is {self.of.head}")
        vectors = vector[:, None].expand(*sigma.shape, -1)
        rows = self.head(noisy.flatten(0, 3), sigma.flatten(), vectors.flatten(0, 3))
        return rows.reshape(noisy.shape)


def check_layers(layers: Sequence[int], count: int) -> None:
    """Raise unless a network of so many layers has these."""
    for layer in layers:
        if not 0 <= layer < count:
            raise ValueError(f"the network has the layers 0..{count - 1}; got {layer}")


class AdaLN(nn.Module):
    """The condition as the shifts, scales and gates of all layers, and of the outlet."""

    def __init__(self, of: Masked) -> None:
        super().__init__()
        self.rows = (of.factors, of.features + 1)
        self.values = condition_layer(of.factors * (of.features + 1), of.width)
        self.shares = [6 * of.width] * of.layers + [2 * of.width]
        self.modulation = zeroed(nn.Linear(of.width, sum(self.shares)))

    def forward(
        self, condition: Float[Tensor, "batch factor row"]
    ) -> tuple[Float[Tensor, "batch some_widths"], ...]:
        expected = (len(condition), *self.rows)
        check_shape(condition.shape == expected, "a masked model", expected, condition)
        rows = condition.masked_fill(condition[..., -1:] == 0, 0)
        vector = self.values(rows.flatten(1).to(self.values.weight.dtype))
        return self.modulation(vector).split(self.shares, dim=1)
