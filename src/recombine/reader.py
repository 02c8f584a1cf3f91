"""What a reader detects in an image: objects with places and concepts, or the concepts of one.

Measurements are given readers and know nothing of how they work; each reports its own error.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor

NONE_OF_THESE = -1


@dataclass(frozen=True)
class Found:
    """The objects detected in a batch of images; the numbers of an absent one mean nothing.

    A place is the projected centre in the image, x right and y down, from 0 to 1. `concepts` are
    numbers in the order of the world's factors, `confidence` lies in [0, 1].
    """

    place: Float[Tensor, "batch object 2"]
    concepts: Int[Tensor, "batch object factor"]
    confidence: Float[Tensor, "batch object"]
    present: Bool[Tensor, "batch object"]

    @property
    def count(self) -> Int[Tensor, " batch"]:
        """How many objects were detected in each image."""
        return self.present.sum(dim=1)

    def __len__(self) -> int:
        return len(self.present)


@runtime_checkable
class Reader(Protocol):
    """Finds the objects in images (sRGB in [0, 1], any size)."""

    def __call__(self, images: Float[Tensor, "batch 3 height width"], /) -> Found: ...


@runtime_checkable
class FactorReader(Protocol):
    """Names the concept of every factor in images of single objects, as numbers.

    Where it says "none of these", every factor is NONE_OF_THESE, which no composition has.
    """

    def __call__(
        self, images: Float[Tensor, "batch 3 height width"], /
    ) -> Int[Tensor, "batch factor"]: ...
