"""The diffusion transformer: patches as tokens, modulated by adaLN-zero (Peebles & Xie 2023)."""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from recombine.models.blocks import (
    Embedding,
    FactorTokens,
    TokenEmbedding,
    Transformer,
    modulated,
    positions,
    rms,
    with_channels,
    zeroed,
)
from recombine.models.entry import (
    Channels,
    Entry,
    FactorRows,
    Tokens,
    Vector,
    check_counts,
    check_image,
)
from recombine.spelling import LATER


@dataclass(frozen=True)
class DiT:
    """A transformer on the patches of square images, or on the cells of latents (patch 1).

    A `Vector` joins the noise level in adaLN; with `FactorRows` the noise level alone is there, and
    each factor is a prefix token. The MLP of a layer has `inner` neurons, or four widths of them.
    """

    channels: int
    size: int
    patch: int = 1
    entry: Entry = None
    width: int = 192
    layers: int = 8
    heads: int = 6
    inner: int | None = field(default=None, metadata={LATER: True})

    def __post_init__(self) -> None:
        check_counts(self)
        if self.size % self.patch:
            raise ValueError(f"a side of {self.size} has no whole patches of {self.patch}")
        if self.width % 4 or self.width % self.heads:
            raise ValueError(
                f"a width is a multiple of 4 and of {self.heads}, the heads; got {self.width}"
            )

    def build(self) -> "DiTModule":
        """Return the network with fresh weights."""
        return DiTModule(self)


# 49 tokens of 28 px images: for discrete against continuous, 5.5 million weights.
STUDY_DIT = DiT(3, 28, patch=4, entry=Vector(4))


class DiTModule(nn.Module):
    """The weights of a `DiT`."""

    def __init__(self, of: DiT) -> None:
        super().__init__()
        self.of = of
        maps = of.entry.count if isinstance(of.entry, Channels) else 0
        tokens = of.entry if isinstance(of.entry, Tokens) else None
        self.embedding = Embedding(of.width, of.entry)
        self.tokens = None if tokens is None else TokenEmbedding(tokens, of.width)
        rows = of.entry if isinstance(of.entry, FactorRows) else None
        self.factors = None if rows is None else FactorTokens(rows, of.width)
        self.inlet = nn.Linear((of.channels + maps) * of.patch**2, of.width)
        where = positions(of.size // of.patch, of.width).flatten(1).T
        self.register_buffer("where", where, persistent=False)
        self.where: Tensor
        self.blocks = nn.ModuleList(
            Transformer(of.width, of.heads, of.width if tokens else 0, of.inner)
            for _ in range(of.layers)
        )
        # All layers' shifts, scales and gates in one product: small networks wait for launches.
        self.shares = [6 * of.width] * of.layers + [2 * of.width]
        self.modulation = zeroed(nn.Linear(of.width, sum(self.shares)))
        self.outlet: nn.Module = zeroed(nn.Linear(of.width, of.channels * of.patch**2))

    def forward(
        self,
        x: Float[Tensor, "batch channel height width"],
        clock: Float[Tensor, " batch"],
        condition: Shaped[Tensor, " batch *condition"],
        states: list[Tensor] | None = None,
    ) -> Float[Tensor, "batch answer height width"]:
        """Return the output; the tokens after each layer are appended to `states`, if given.

        It has the channels of the image, unless the outlet was replaced (`CodeDenoiser`).
        """
        check_image(x, self.of.channels, self.of.size)
        clock = clock.to(x.dtype)
        context = () if self.tokens is None else self.tokens(condition, clock)
        modulation = self.modulation(self.embedding(clock, condition))
        *each, last = modulation.split(self.shares, dim=1)
        seen = with_channels(x, self.of.entry, condition)
        patches = F.pixel_unshuffle(seen, self.of.patch).flatten(2).transpose(1, 2)
        hidden = self.inlet(patches)
        hidden = hidden + self.where.to(hidden.dtype)
        places = hidden.shape[1]
        if self.factors is not None:
            hidden = torch.cat([self.factors(condition).to(hidden.dtype), hidden], dim=1)
        for block, part in zip(self.blocks, each, strict=True):
            hidden = block(hidden, part, *context)
            if states is not None:
                states.append(hidden[:, -places:])
        last_of_image = rms(hidden[:, -places:])
        answer = self.outlet(modulated(last_of_image, *last[:, None].chunk(2, dim=-1)))
        grid = answer.transpose(1, 2).unflatten(2, (self.of.size // self.of.patch, -1))
        return F.pixel_shuffle(grid, self.of.patch).to(x.dtype)
