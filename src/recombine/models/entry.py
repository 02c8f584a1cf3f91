"""How a condition enters a network: as one vector, as input channels, or as tokens to attend to.

The choice matters. Channels lie under convolutions, which build conditional locality in; a vector
reaches every pixel equally; tokens are attended to by every pixel, or stand among the image's own.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch.nn.functional as F
from jaxtyping import Bool, Float, Shaped
from torch import Tensor


class ContextTokens(NamedTuple):
    """Tokens to attend to, and which of them are there."""

    tokens: Float[Tensor, "batch token feature"]
    present: Bool[Tensor, "batch token"]


class NetworkCondition(NamedTuple):
    """A condition in the form that its network takes; the other forms are None."""

    vector: Float[Tensor, "batch feature"] | None = None
    channels: Float[Tensor, "batch map height width"] | None = None
    context: ContextTokens | None = None
    rows: Float[Tensor, "batch factor row"] | None = None


@dataclass(frozen=True)
class Vector:
    """The condition is one vector for the whole image: `width` numbers, in any shape, row by row.

    With `waves` each number also comes as so many sines and cosines, so that small differences
    between places have an influence.
    """

    width: int
    waves: int = 0

    def __post_init__(self) -> None:
        check_counts(self, "waves")

    def __call__(
        self,
        condition: Shaped[Tensor, " batch *condition"],
        x: Float[Tensor, "batch channel height width"],
    ) -> NetworkCondition:
        flat = condition.flatten(1) if condition.dim() > 1 else condition
        check_shape(flat.shape == (len(x), self.width), self, (len(x), self.width), condition)
        return NetworkCondition(vector=flat.to(x.dtype))


@dataclass(frozen=True)
class Channels:
    """The condition is `count` maps of any size, which become channels beside the image's.

    A condition without a channel axis is a single map.
    """

    count: int

    def __post_init__(self) -> None:
        check_counts(self)

    def __call__(
        self,
        condition: Shaped[Tensor, " batch *condition"],
        x: Float[Tensor, "batch channel height width"],
    ) -> NetworkCondition:
        maps = condition[:, None] if condition.dim() == 3 else condition
        good = maps.dim() == 4 and maps.shape[:2] == (len(x), self.count)
        check_shape(good, self, (len(x), self.count, "height", "width"), condition)
        # nearest-exact samples at pixel centres, so that no side that fails to divide is favoured.
        maps = F.interpolate(maps.to(x.dtype), x.shape[2:], mode="nearest-exact")
        return NetworkCondition(channels=maps)


@dataclass(frozen=True)
class Tokens:
    """The condition is up to `most` tokens of `width` numbers, the last of which is 1 if present.

    Their order has no influence, and absent ones have none.
    """

    width: int
    most: int

    def __post_init__(self) -> None:
        check_counts(self)
        if self.width < 2:
            raise ValueError(f"a token has a number and a flag at least; got width {self.width}")

    def __call__(
        self,
        condition: Shaped[Tensor, " batch *condition"],
        x: Float[Tensor, "batch channel height width"],
    ) -> NetworkCondition:
        good = condition.dim() == 3 and condition.shape[::2] == (len(x), self.width)
        good = good and condition.shape[1] <= self.most
        check_shape(good, self, (len(x), f"at most {self.most}", self.width), condition)
        present = condition[..., -1] != 0
        # Not a product: what an absent token holds may be anything, NaN included.
        tokens = condition[..., :-1].to(x.dtype).masked_fill(~present[..., None], 0)
        return NetworkCondition(context=ContextTokens(tokens, present))


@dataclass(frozen=True)
class FactorRows:
    """The condition has a row for each of so many `factors`; each becomes a prefix token.

    A row is `features` numbers that hold a factor's value, then 1 if it is given.
    """

    factors: int
    features: int

    def __post_init__(self) -> None:
        check_counts(self)

    def __call__(
        self,
        condition: Shaped[Tensor, " batch *condition"],
        x: Float[Tensor, "batch channel height width"],
    ) -> NetworkCondition:
        expected = (len(x), self.factors, self.features + 1)
        check_shape(condition.shape == expected, self, expected, condition)
        return NetworkCondition(rows=condition.to(x.dtype))


Entry: TypeAlias = Vector | Channels | Tokens | FactorRows | None
"""None is for unconditional networks: any condition is accepted and ignored."""


def read(
    entry: Entry,
    condition: Shaped[Tensor, " batch *condition"],
    x: Float[Tensor, "batch channel height width"],
) -> NetworkCondition:
    """Return the condition as the network takes it, in the precision of the image."""
    return NetworkCondition() if entry is None else entry(condition, x)


def check_counts(declared: object, *but: str) -> None:
    """Raise unless the whole numbers of a declared value are positive, but for those listed."""
    for name, value in vars(declared).items():
        if name not in but and isinstance(value, int) and value < 1:
            raise ValueError(f"{name} is at least 1; got {declared}")


def check_shape(good: bool, entry: object, expected: tuple[object, ...], condition: Tensor) -> None:
    """Raise unless a condition fits its entry."""
    if not good:
        shape = ", ".join(map(str, expected))
        raise ValueError(
            f"a condition for {entry} has the shape ({shape}); got {tuple(condition.shape)}"
        )


def check_image(x: Tensor, channels: int, size: int) -> None:
    """Raise unless a batch holds the images that a network was declared for."""
    if x.shape[1:] != (channels, size, size):
        raise ValueError(
            f"this network reads images of the shape ({channels}, {size}, {size}); "
            f"got {tuple(x.shape[1:])}"
        )
