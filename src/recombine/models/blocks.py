"""What the networks are built of. Norms are over the channels of one place, hence local."""

from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from recombine.models.entry import Channels, Entry, FactorRows, Tokens, Vector, check_shape

Module = TypeVar("Module", bound=nn.Module)


def parameters_of(declared: Any) -> int:
    """Return how many numbers a declared network learns, without making them."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in declared.build().parameters())


def rms(x: Float[Tensor, "*any"], dim: int = -1) -> Float[Tensor, "*any"]:
    """Scale to a root mean square of one along an axis."""
    # Cast back: autocast takes the root in float32, which would double the traffic that follows.
    return x * (x.square().mean(dim=dim, keepdim=True) + 1e-6).rsqrt().to(x.dtype)


def zeroed(module: Module) -> Module:
    """Start a layer at zero, so that the block it ends starts as the identity."""
    for parameter in module.parameters():
        nn.init.zeros_(parameter)
    return module


def closeness(
    places: Float[Tensor, "*any latent"], vectors: Float[Tensor, "code latent"]
) -> Float[Tensor, "*any code"]:
    """Return minus half the squared distance from each vector, but for what all of them share."""
    return places @ vectors.T - vectors.square().sum(dim=1) / 2


class Waves(nn.Module):
    """Numbers as themselves, sines and cosines, so that small differences have an influence.

    Frequencies are in cycles per unit and rise geometrically.
    """

    def __init__(self, count: int, lowest: float, highest: float) -> None:
        super().__init__()
        self.width = 2 * count + 1
        share = torch.arange(count) / max(count - 1, 1)
        turns = 2 * torch.pi * lowest * (highest / lowest) ** share
        self.register_buffer("turns", turns, persistent=False)
        self.turns: Tensor

    def forward(self, value: Float[Tensor, "*any"]) -> Float[Tensor, "*any wave"]:
        angle = value[..., None] * self.turns.to(value.dtype)
        return torch.cat([value[..., None], angle.sin(), angle.cos()], dim=-1)


def positions(side: int, width: int) -> Float[Tensor, "width side side"]:
    """Return sines and cosines of row and column, half a cycle to a quarter of the side long."""
    if width % 4:
        raise ValueError(f"positions have a width that is a multiple of 4; got {width}")
    centre = (torch.arange(side) + 0.5) / side
    waves = Waves(width // 4, 0.5, max(side / 4, 1.0))(centre)[:, 1:].T
    row, column = waves[:, :, None], waves[:, None]
    return torch.cat([row.expand(-1, -1, side), column.expand(-1, side, -1)])


class Embedding(nn.Module):
    """The noise level and a condition on the whole image, as one vector.

    The condition is added last: the vectors of several bits then add up as they are, and a network
    that knows each of them has a chance with more of them than it has seen at once.
    """

    def __init__(self, width: int, entry: Entry = None) -> None:
        super().__init__()
        self.waves = Waves(32, 0.25, 16.0)
        self.noise = nn.Linear(self.waves.width, width)
        self.condition = VectorEmbedding(entry, width) if isinstance(entry, Vector) else None
        self.out = nn.Linear(width, width)

    def forward(
        self, clock: Float[Tensor, " batch"], condition: Shaped[Tensor, "..."] | None = None
    ) -> Float[Tensor, "batch width"]:
        level = F.silu(self.out(F.silu(self.noise(self.waves(clock)))))
        return level if self.condition is None else level + self.condition(condition, clock)


class VectorEmbedding(nn.Module):
    """A condition vector at the width of the network; zeros become zeros."""

    def __init__(self, entry: Vector, width: int) -> None:
        super().__init__()
        self.entry = entry
        self.waves = Waves(entry.waves, 0.5, 16.0) if entry.waves else None
        each = self.waves.width if self.waves else 1
        self.layer = condition_layer(entry.width * each, width)

    def forward(
        self, condition: Shaped[Tensor, " batch *condition"], like: Float[Tensor, " batch"]
    ) -> Float[Tensor, "batch width"]:
        flat = condition.flatten(1) if condition.dim() > 1 else condition
        expected = (len(like), self.entry.width)
        check_shape(flat.shape == expected, self.entry, expected, condition)
        vector = flat.to(like.dtype)
        if self.waves is not None:
            vector = (self.waves(vector) - self.waves(torch.zeros_like(vector))).flatten(1)
        return self.layer(vector)


def with_channels(
    x: Float[Tensor, "batch channel height width"],
    entry: Entry,
    condition: Shaped[Tensor, " batch *condition"],
) -> Float[Tensor, "batch channel_and_map height width"]:
    """Return the image with the maps of the condition as further channels, if it is such maps."""
    if not isinstance(entry, Channels):
        return x
    maps = condition[:, None] if condition.dim() == 3 else condition
    good = maps.dim() == 4 and maps.shape[:2] == (len(x), entry.count)
    check_shape(good, entry, (len(x), entry.count, "height", "width"), condition)
    # nearest-exact samples at pixel centres, so that no side that fails to divide is favoured.
    maps = F.interpolate(maps.to(x.dtype), x.shape[2:], mode="nearest-exact")
    return torch.cat([x, maps], dim=1)


def condition_layer(inputs: int, width: int) -> nn.Linear:
    """Return a layer in which one bit weighs as much as the noise level, however many there are."""
    layer = nn.Linear(inputs, width, bias=False)
    nn.init.normal_(layer.weight, std=0.5)
    return layer


class FactorTokens(nn.Module):
    """One prefix token for each factor: its value, or a learned null where it is not given."""

    def __init__(self, entry: FactorRows, width: int) -> None:
        super().__init__()
        self.entry = entry
        rows = entry.features + 1
        self.values = nn.ModuleList(condition_layer(rows, width) for _ in range(entry.factors))
        self.null = nn.Parameter(torch.randn(entry.factors, width))

    def forward(
        self, condition: Float[Tensor, "batch factor row"]
    ) -> Float[Tensor, "batch factor width"]:
        expected = (len(condition), self.entry.factors, self.entry.features + 1)
        check_shape(condition.shape == expected, self.entry, expected, condition)
        given = condition[..., -1:] != 0
        rows = condition.to(self.null.dtype).masked_fill(~given, 0).unbind(1)
        values = [layer(row) for layer, row in zip(self.values, rows, strict=True)]
        return torch.where(given, torch.stack(values, dim=1).to(self.null.dtype), self.null)


class TokenEmbedding(nn.Module):
    """Condition tokens behind one that is always present: attention needs somewhere to go."""

    def __init__(self, entry: Tokens, width: int) -> None:
        super().__init__()
        self.entry = entry
        self.waves = Waves(6, 0.5, 16.0)
        self.inner = nn.Linear((entry.width - 1) * self.waves.width, width)
        self.outer = nn.Linear(width, width)
        self.null = nn.Parameter(torch.randn(width))

    def forward(
        self, condition: Shaped[Tensor, " batch *condition"], like: Float[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch token width"], Bool[Tensor, "batch token"]]:
        width, most = self.entry.width, self.entry.most
        good = condition.dim() == 3 and condition.shape[::2] == (len(like), width)
        good = good and condition.shape[1] <= most
        check_shape(good, self.entry, (len(like), f"at most {most}", width), condition)
        present = condition[..., -1] != 0
        # Not a product: what an absent token holds may be anything, NaN included.
        tokens = condition[..., :-1].to(like.dtype).masked_fill(~present[..., None], 0)
        tokens = self.outer(F.silu(self.inner(self.waves(tokens).flatten(2))))
        null = self.null.to(tokens.dtype).expand(len(tokens), 1, -1)
        return torch.cat([null, tokens], dim=1), F.pad(present, (1, 0), value=True)


class Attention(nn.Module):
    """Self-attention: every token attends to all tokens."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.gain = nn.Parameter(torch.ones(head_width(width, heads)))
        self.out = nn.Linear(width, width)

    def forward(self, x: Float[Tensor, "batch token width"]) -> Float[Tensor, "batch token width"]:
        query, key, value = self.query_key_value(x).chunk(3, dim=-1)
        return self.out(attended(query, key, value, self.gain))


class CrossAttention(nn.Module):
    """Every token attends to the context."""

    def __init__(self, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(context, 2 * width)
        self.gain = nn.Parameter(torch.ones(head_width(width, heads)))
        self.out = zeroed(nn.Linear(width, width))

    def forward(
        self,
        x: Float[Tensor, "batch token width"],
        context: Float[Tensor, "batch thing feature"],
        present: Bool[Tensor, "batch thing"],
    ) -> Float[Tensor, "batch token width"]:
        key, value = self.key_value(context).chunk(2, dim=-1)
        return self.out(attended(self.query(x), key, value, self.gain, present[:, None, None]))


def head_width(width: int, heads: int) -> int:
    """Return how many channels a head has."""
    if width % heads:
        raise ValueError(f"a width of {width} cannot be shared by {heads} heads")
    return width // heads


def attended(
    query: Float[Tensor, "batch token width"],
    key: Float[Tensor, "batch thing width"],
    value: Float[Tensor, "batch thing width"],
    gain: Float[Tensor, " head_width"],
    mask: Bool[Tensor, "batch 1 1 thing"] | None = None,
) -> Float[Tensor, "batch token width"]:
    """Mix values by how well queries fit keys, both of unit length: bf16 stays in range."""
    split = (t.unflatten(-1, (-1, len(gain))).transpose(1, 2) for t in (query, key, value))
    query, key, value = split
    query = rms(query) * gain.to(query.dtype)
    mixed = F.scaled_dot_product_attention(query, rms(key), value, attn_mask=mask)
    return mixed.transpose(1, 2).flatten(2)


class Transformer(nn.Module):
    """Self-attention, cross-attention to a context if there is one, and an MLP; each is added.

    With a modulation (shift, scale and gate for the attention and for the MLP) this is adaLN-zero
    of Peebles & Xie 2023; without one it is a plain pre-norm block.
    """

    def __init__(self, width: int, heads: int, context: int = 0, inner: int | None = None) -> None:
        super().__init__()
        inner = inner or 4 * width
        self.attention = Attention(width, heads)
        self.cross_attention = CrossAttention(width, heads, context) if context else None
        self.inner = nn.Linear(width, inner)
        self.outer = nn.Linear(inner, width)

    def forward(
        self,
        x: Float[Tensor, "batch token width"],
        modulation: Float[Tensor, "batch six_widths"] | None = None,
        context: Float[Tensor, "batch thing feature"] | None = None,
        present: Bool[Tensor, "batch thing"] | None = None,
    ) -> Float[Tensor, "batch token width"]:
        parts = (None,) * 6 if modulation is None else modulation[:, None].chunk(6, dim=-1)
        x = x + gated(self.attention(modulated(rms(x), *parts[:2])), parts[2])
        if self.cross_attention is not None:
            x = x + self.cross_attention(rms(x), context, present)
        added = self.outer(F.gelu(self.inner(modulated(rms(x), *parts[3:5])), approximate="tanh"))
        return x + gated(added, parts[5])


def modulated(x: Tensor, shift: Tensor | None, scale: Tensor | None) -> Tensor:
    """Shift and scale channels; scale is what is added to one."""
    return x if shift is None or scale is None else x * (1 + scale) + shift


def gated(x: Tensor, gate: Tensor | None) -> Tensor:
    """Multiply each channel by its gate, if there is one."""
    return x if gate is None else x * gate


class Residual(nn.Module):
    """Two convolutions added to their input; the second sees channels shifted and scaled.

    No biases: the shift is one, and their gradients cost a pass over everything.
    """

    def __init__(self, width: int, kernel: int = 3) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, kernel, padding=kernel // 2, bias=False)
        self.second = zeroed(nn.Conv2d(width, width, kernel, padding=kernel // 2, bias=False))

    def forward(
        self,
        x: Float[Tensor, "batch width height width_"],
        modulation: Float[Tensor, "batch two_widths #height #width_"],
    ) -> Float[Tensor, "batch width height width_"]:
        shift, scale = modulation.chunk(2, dim=1)
        hidden = self.first(F.silu(rms(x, 1)))
        return x + self.second(F.silu(modulated(rms(hidden, 1), shift, scale)))
