"""How a condition enters a network: as one vector, as input channels, or as tokens to attend to.

The choice matters. Channels lie under convolutions, which build conditional locality in; a vector
says the same to every pixel; tokens are looked up by every pixel, or stand among the image's own.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch.nn.functional as F
from jaxtyping import Bool, Float, Shaped
from torch import Tensor


class Told(NamedTuple):
    """A condition in the form its network takes; the other forms are None."""

    vector: Float[Tensor, "batch feature"] | None = None
    channels: Float[Tensor, "batch told height width"] | None = None
    tokens: Float[Tensor, "batch token feature"] | None = None
    present: Bool[Tensor, "batch token"] | None = None
    rows: Float[Tensor, "batch factor row"] | None = None


@dataclass(frozen=True)
class Vector:
    """Told to the whole image at once: `width` numbers, in any shape, read row by row.

    With `waves` each number also comes as so many sines and cosines, so that small differences
    between places are heard.
    """

    width: int
    waves: int = 0

    def __post_init__(self) -> None:
        check_counts(self, "waves")

    def __call__(
        self,
        condition: Shaped[Tensor, " batch *told"],
        x: Float[Tensor, "batch channel height width"],
    ) -> Told:
        flat = condition.flatten(1) if condition.dim() > 1 else condition
        check_shape(flat.shape == (len(x), self.width), self, (len(x), self.width), condition)
        return Told(vector=flat.to(x.dtype))


@dataclass(frozen=True)
class Channels:
    """Told pixel by pixel: `count` maps of any size beside the image's channels.

    A condition without a channel axis is a single map.
    """

    count: int

    def __post_init__(self) -> None:
        check_counts(self)

    def __call__(
        self,
        condition: Shaped[Tensor, " batch *told"],
        x: Float[Tensor, "batch channel height width"],
    ) -> Told:
        maps = condition[:, None] if condition.dim() == 3 else condition
        good = maps.dim() == 4 and maps.shape[:2] == (len(x), self.count)
        check_shape(good, self, (len(x), self.count, "height", "width"), condition)
        # nearest-exact looks at pixel centres, so that no side that fails to divide is favoured.
        return Told(channels=F.interpolate(maps.to(x.dtype), x.shape[2:], mode="nearest-exact"))


@dataclass(frozen=True)
class Tokens:
    """Told as up to `most` things of `width` numbers, the last of which is 1 if it is there.

    The order of the things means nothing, and what is absent says nothing.
    """

    width: int
    most: int

    def __post_init__(self) -> None:
        check_counts(self)
        if self.width < 2:
            raise ValueError(f"a token has a number to say and a flag; got width {self.width}")

    def __call__(
        self,
        condition: Shaped[Tensor, " batch *told"],
        x: Float[Tensor, "batch channel height width"],
    ) -> Told:
        good = condition.dim() == 3 and condition.shape[::2] == (len(x), self.width)
        good = good and condition.shape[1] <= self.most
        check_shape(good, self, (len(x), f"at most {self.most}", self.width), condition)
        present = condition[..., -1] != 0
        # Not a product: what an absent token holds may be anything, NaN included.
        tokens = condition[..., :-1].to(x.dtype).masked_fill(~present[..., None], 0)
        return Told(tokens=tokens, present=present)


@dataclass(frozen=True)
class Rows:
    """Told as a token for each of so many `factors`, which stand among those of the image.

    A row is `features` numbers that say a factor's value, then 1 if it is told.
    """

    factors: int
    features: int

    def __post_init__(self) -> None:
        check_counts(self)

    def __call__(
        self,
        condition: Shaped[Tensor, " batch *told"],
        x: Float[Tensor, "batch channel height width"],
    ) -> Told:
        expected = (len(x), self.factors, self.features + 1)
        check_shape(condition.shape == expected, self, expected, condition)
        return Told(rows=condition.to(x.dtype))


Entry: TypeAlias = Vector | Channels | Tokens | Rows | None
"""None is for networks that are told nothing: any condition is accepted and ignored."""


def read(
    entry: Entry,
    condition: Shaped[Tensor, " batch *told"],
    x: Float[Tensor, "batch channel height width"],
) -> Told:
    """Return the condition as the network takes it, in the precision of the image."""
    return Told() if entry is None else entry(condition, x)


def check_counts(declared: object, *but: str) -> None:
    """Raise unless the whole numbers of a declared value are positive, but for those named."""
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
