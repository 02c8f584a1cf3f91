"""What a reader detects in an image: objects with places and concepts, or the concepts of one.

Measurements are given readers and know nothing of how they work; each reports its own error.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Found:
    """The objects detected in a batch of images; the numbers of an absent one mean nothing.

    A place is the projected centre in the image, x right and y down, from 0 to 1. `concepts` are
    numbers in the order of the world's factors, `confidence` lies in [0, 1]. Where an image is not
    `known`, it is not of the reader's world and the objects are guesses; None: nothing is said.
    """

    place: Float[Tensor, "batch object 2"]
    concepts: Int[Tensor, "batch object factor"]
    confidence: Float[Tensor, "batch object"]
    present: Bool[Tensor, "batch object"]
    known: Bool[Tensor, " batch"] | None = None

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
class Reading(Protocol):
    """What a reader of single objects says of a batch of images."""

    @property
    def concepts(self) -> Int[Tensor, "batch factor"]:
        """The number of the concept of each factor that comes closest."""

    @property
    def valid(self) -> Bool[Tensor, " batch"]:
        """Whether an image shows what a scene of the world could look like, beyond doubt."""

    @property
    def rows(self) -> Int[Tensor, "batch factor"]:
        """The concepts of valid images, and -1 for those of others."""

    def within(self, factor: float, /) -> Bool[Tensor, " batch"]:
        """Return whether an image is valid when every limit is multiplied by this factor."""


@runtime_checkable
class FactorReader(Protocol):
    """Reads images of single objects."""

    def __call__(self, images: Float[Tensor, "batch 3 height width"], /) -> Reading: ...
