"""How a condition enters a network: as one vector, as input channels, or as tokens.

The choice matters. Channels lie under convolutions, which build conditional locality in; a vector
reaches every pixel equally; tokens are attended to by every pixel, or stand among the image's own.
"""

from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor


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


@dataclass(frozen=True)
class Channels:
    """The condition is `count` maps of any size, which become channels beside the image's.

    A condition without a channel axis is a single map.
    """

    count: int

    def __post_init__(self) -> None:
        check_counts(self)


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


@dataclass(frozen=True)
class FactorRows:
    """The condition has a row for each of so many `factors`; each becomes a prefix token.

    A row is `features` numbers that hold a factor's value, then 1 if it is given.
    """

    factors: int
    features: int

    def __post_init__(self) -> None:
        check_counts(self)


Entry: TypeAlias = Vector | Channels | Tokens | FactorRows | None
"""None is for unconditional networks: any condition is accepted and ignored."""


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
