"""The U-Net: convolutions at falling, then rising resolution; attention where it is affordable."""

from dataclasses import dataclass
from itertools import pairwise

import torch.nn.functional as F
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from recombine.models import entry as entries
from recombine.models.blocks import (
    Attention,
    CrossAttention,
    Embedding,
    Residual,
    TokenEmbedding,
    positions,
    rms,
    with_channels,
    zeroed,
)


@dataclass(frozen=True)
class UNet:
    """A U-Net for square images; each level halves the side and has `multiplier * width` channels.

    `attention` names the sides of the grids that have it, `head` is the width of a head. With a
    `patch` above 1 the first grid is one of patches, not of pixels.
    """

    channels: int
    size: int
    entry: entries.Entry = None
    width: int = 64
    multipliers: tuple[int, ...] = (1, 2, 2)
    blocks: int = 2
    attention: tuple[int, ...] = (16, 8)
    patch: int = 1
    head: int = 32

    def __post_init__(self) -> None:
        entries.check_counts(self)
        if not self.multipliers or min(self.multipliers) < 1:
            raise ValueError(f"each level has a positive multiplier; got {self.multipliers}")
        if self.size % (shrunk := self.patch * 2 ** (len(self.multipliers) - 1)):
            raise ValueError(f"a side of {self.size} pixels cannot be shrunk {shrunk}-fold")
        if strange := set(self.attention) - set(self.sides):
            raise ValueError(
                f"attention is at some of the sides {self.sides}; got {sorted(strange)}"
            )
        if isinstance(self.entry, entries.FactorRows):
            raise ValueError(f"a U-Net has no tokens for factors to stand among; got {self.entry}")
        if isinstance(self.entry, entries.Tokens) and not self.attention:
            raise ValueError("condition tokens need attention; got a U-Net without any")
        for side, width in zip(self.sides, self.widths, strict=True):
            if side in self.attention and width % self.head:
                raise ValueError(f"{width} channels cannot be cut into heads of {self.head}")

    @property
    def sides(self) -> tuple[int, ...]:
        """The side of each level's grid."""
        return tuple(self.size // self.patch // 2**level for level in range(len(self.multipliers)))

    @property
    def widths(self) -> tuple[int, ...]:
        """The channels of each level."""
        return tuple(self.width * multiplier for multiplier in self.multipliers)

    def build(self) -> "UNetModule":
        """Return the network with fresh weights."""
        return UNetModule(self)


# What studies train and the zoo ships: 3.8 million weights.
STUDY_UNET = UNet(3, 64, entries.Vector(256), patch=2)
# For checks at a paper's size: 34 million weights.
LARGE_UNET = UNet(3, 64, entries.Vector(256), width=192, patch=2, head=64)


class UNetModule(nn.Module):
    """The weights of a `UNet`."""

    def __init__(self, of: UNet) -> None:
        super().__init__()
        self.of = of
        maps = of.entry.count if isinstance(of.entry, entries.Channels) else 0
        embedding = 3 * of.width
        self.embedding = Embedding(embedding, of.entry)
        self.tokens = (
            TokenEmbedding(of.entry, embedding) if isinstance(of.entry, entries.Tokens) else None
        )
        each = [width for width in of.widths for _ in range(of.blocks)]
        self.shares = [2 * width for width in (*each, *reversed(each))]
        self.modulation = nn.Linear(embedding, sum(self.shares))
        self.inlet = nn.Conv2d((of.channels + maps) * of.patch**2, of.widths[0], 3, padding=1)
        self.down = way(of, embedding)
        self.shrink = nn.ModuleList(nn.Conv2d(a, b, 2, stride=2) for a, b in pairwise(of.widths))
        self.up = way(of, embedding)
        self.grow = nn.ModuleList(
            nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in pairwise(of.widths)
        )
        self.skip = nn.ModuleList(nn.Conv2d(width, width, 1, bias=False) for width in each)
        self.outlet = zeroed(nn.Conv2d(of.widths[0], of.channels * of.patch**2, 3, padding=1))

    def forward(
        self,
        x: Float[Tensor, "batch channel height width"],
        clock: Float[Tensor, " batch"],
        condition: Shaped[Tensor, " batch *condition"],
    ) -> Float[Tensor, "batch channel height width"]:
        entries.check_image(x, self.of.channels, self.of.size)
        clock = clock.to(x.dtype)
        context = () if self.tokens is None else self.tokens(condition, clock)
        modulation = self.modulation(self.embedding(clock, condition))
        parts = iter(modulation[:, :, None, None].split(self.shares, dim=1))
        seen = with_channels(x, self.of.entry, condition)
        hidden, skips = self.inlet(F.pixel_unshuffle(seen, self.of.patch)), []
        for index, block in enumerate(self.down):
            if index and index % self.of.blocks == 0:
                hidden = self.shrink[index // self.of.blocks - 1](hidden)
            hidden = block(hidden, next(parts), *context)
            skips.append(hidden)
        for index in reversed(range(len(self.up))):
            hidden = hidden + self.skip[index](skips.pop())
            hidden = self.up[index](hidden, next(parts), *context)
            if index and index % self.of.blocks == 0:
                hidden = self.grow[index // self.of.blocks - 1](hidden)
        answer = self.outlet(F.silu(rms(hidden, 1)))
        return F.pixel_shuffle(answer, self.of.patch).to(x.dtype)


def way(of: UNet, embedding: int) -> nn.ModuleList:
    """Return the blocks of all levels, from the finest; the last of a level may have attention."""
    context = embedding if isinstance(of.entry, entries.Tokens) else 0
    blocks = nn.ModuleList()
    for side, width in zip(of.sides, of.widths, strict=True):
        heads = width // of.head if side in of.attention else 0
        blocks.extend(UNetBlock(side, width, 0, 0) for _ in range(of.blocks - 1))
        blocks.append(UNetBlock(side, width, heads, context))
    return blocks


class UNetBlock(nn.Module):
    """A residual block; with heads, then self-attention and cross-attention to the context."""

    def __init__(self, side: int, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.residual = Residual(width)
        self.attention = Attention(width, heads) if heads else None
        attends = heads and context
        self.cross_attention = CrossAttention(width, heads, context) if attends else None
        if self.attention is not None:
            zeroed(self.attention.out)
            where = positions(side, width).flatten(1).T
            self.register_buffer("where", where, persistent=False)
        self.where: Tensor

    def forward(
        self,
        x: Float[Tensor, "batch channel height width"],
        modulation: Float[Tensor, "batch two_channels 1 1"],
        context: Float[Tensor, "batch thing feature"] | None = None,
        present: Bool[Tensor, "batch thing"] | None = None,
    ) -> Float[Tensor, "batch channel height width"]:
        x = self.residual(x, modulation)
        if self.attention is None:
            return x
        # Without positions attention is blind to place, and so is a condition in a vector.
        tokens = x.flatten(2).transpose(1, 2)
        tokens = tokens + self.attention(rms(tokens) + self.where.to(tokens.dtype))
        if self.cross_attention is not None:
            placed = rms(tokens) + self.where.to(tokens.dtype)
            tokens = tokens + self.cross_attention(placed, context, present)
        return tokens.transpose(1, 2).unflatten(2, x.shape[2:])
