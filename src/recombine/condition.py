"""What a model is told about a scene: first which objects, then in which form."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.scene import PER_OBJECT, Scenes
from recombine.worlds.clevr import places

Tell: TypeAlias = Callable[[Scenes, torch.Generator], Scenes]
"""Leaves out the objects that go unmentioned."""
Encode: TypeAlias = Callable[[Scenes], Tensor]
"""Writes down the objects that are told of; an absent one leaves no trace."""


def everything(scenes: Scenes, generator: torch.Generator) -> Scenes:
    """Tell the model about every object."""
    del generator
    return scenes


def everything_in_random_order(scenes: Scenes, generator: torch.Generator) -> Scenes:
    """Tell the model about every object, the first of a list being any of them."""
    draw = torch.rand(scenes.present.shape, generator=generator, device=generator.device)
    order = draw.to(scenes.present.device).argsort(dim=1)
    return replace(scenes, **{name: _in_order(getattr(scenes, name), order) for name in PER_OBJECT})


@dataclass(frozen=True)
class Anywhere:
    """Tell the model about every object, each in any of so many `slots`."""

    slots: int = 12

    def __call__(self, scenes: Scenes, generator: torch.Generator) -> Scenes:
        return everything_in_random_order(scenes.padded(self.slots), generator)


def one_at_random(scenes: Scenes, generator: torch.Generator) -> Scenes:
    """Tell the model about one object per scene; the others go unmentioned."""
    draw = torch.rand(scenes.present.shape, generator=generator, device=generator.device)
    draw = draw.to(scenes.present.device).masked_fill(~scenes.present, -1)
    first = torch.zeros_like(scenes.present).scatter(1, draw.argmax(dim=1, keepdim=True), True)
    return replace(scenes, present=first & scenes.present)


def nothing(scenes: Scenes, generator: torch.Generator) -> Scenes:
    """Tell the model about no object."""
    del generator
    return replace(scenes, present=torch.zeros_like(scenes.present))


@dataclass(frozen=True)
class Values:
    """Write the actual red, green, blue and size of each object; zeros where there is none.

    No object has the size 0, so zeros say nothing.
    """

    objects: int = 1

    def __post_init__(self) -> None:
        if self.objects < 1:
            raise ValueError(f"values are written for at least 1 object; got {self.objects}")

    def __call__(self, scenes: Scenes) -> Float[Tensor, "batch value"]:
        batch, objects = scenes.present.shape
        if objects > self.objects:
            raise ValueError(f"values of {self.objects} objects cannot hold {objects} objects")
        told = torch.cat([scenes.colour, scenes.size[..., None]], dim=-1)
        # Not a product: an absent object may hold values that are not numbers.
        told = torch.where(scenes.present[..., None], told, 0)
        return torch.nn.functional.pad(told.flatten(1), (0, 4 * (self.objects - objects)))


@dataclass(frozen=True)
class Quiet(Values):
    """Write the same values at a share of their size.

    Weights must grow before they are heard, so that a model first learns what images look like.
    """

    loudness: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.loudness < float("inf"):
            raise ValueError(f"loudness is a positive number; got {self.loudness}")

    def __call__(self, scenes: Scenes) -> Float[Tensor, "batch value"]:
        return self.loudness * super().__call__(scenes)


@dataclass(frozen=True)
class Labels:
    """Write which value each factor of the one object has: a row per factor, its value as a one.

    The last number of a row is 1: the factor is told. A row of zeros says nothing. `values` are
    how many each factor can take.
    """

    values: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.values or min(self.values) < 1:
            raise ValueError(f"every factor takes at least 1 value; got {self.values}")

    @property
    def features(self) -> int:
        """How many numbers a row has before the last."""
        return max(self.values)

    def __call__(self, scenes: Scenes) -> Float[Tensor, "batch factor feature"]:
        concepts = scenes.concepts[:, 0]
        if concepts.shape[1] != len(self.values):
            raise ValueError(f"labels are of {len(self.values)} factors; got {concepts.shape[1]}")
        written = torch.nn.functional.one_hot(concepts, self.features).to(scenes.size)
        return self._told(scenes, written)

    def zero(self, condition: Float[Tensor, "batch factor feature"]) -> Tensor:
        """Return what is written where every factor is taken for a plain 0: its first label."""
        first = torch.zeros_like(condition)
        first[..., 0] = first[..., -1] = 1
        return first

    def _told(self, scenes: Scenes, written: Tensor) -> Tensor:
        """Add the flags; of an absent object nothing is told."""
        rows = torch.nn.functional.pad(written, (0, 1), value=1.0)
        return torch.where(scenes.present[:, :1, None], rows, 0)


@dataclass(frozen=True)
class Actual(Labels):
    """Write the shape as a label, the actual size and the actual colour: rows in this order."""

    values: tuple[int, ...] = (2, 2, 2)

    @property
    def features(self) -> int:
        return max(self.values[0], 3)

    def __call__(self, scenes: Scenes) -> Float[Tensor, "batch factor feature"]:
        shape = torch.nn.functional.one_hot(scenes.concepts[:, 0, 0], self.features)
        size, colour = scenes.size[:, :1], scenes.colour[:, 0]
        rows = [
            torch.nn.functional.pad(row, (0, self.features - row.shape[1]))
            for row in (size, colour)
        ]
        return self._told(scenes, torch.stack([shape.to(size), *rows], dim=1))

    def zero(self, condition: Float[Tensor, "batch factor feature"]) -> Tensor:
        """Return the first shape, of the size 0 and the colour black."""
        first = torch.zeros_like(condition)
        first[:, 0, 0] = 1
        first[..., -1] = 1
        return first


@runtime_checkable
class EncodesPlaces(Protocol):
    """Writes down where the told objects are seen in the image, from 0 to 1, x right and y down."""

    def __call__(self, scenes: Scenes, /) -> Tensor: ...

    def at(
        self, place: Float[Tensor, "batch object 2"], present: Bool[Tensor, "batch object"], /
    ) -> Tensor:
        """Return the condition that tells of these places."""

    def told(
        self, place: Float[Tensor, "batch object 2"], present: Bool[Tensor, "batch object"], /
    ) -> tuple[Float[Tensor, "batch object 2"], Bool[Tensor, "batch object"]]:
        """Return the places as the condition says them; what it leaves out is absent."""


@dataclass(frozen=True)
class Grid:
    """Write a 1 into the cell of the image in which the centre of an object is seen.

    Two objects in one cell are one 1. An object whose centre is outside the image is left out.
    """

    cells: int = 16

    def __post_init__(self) -> None:
        if self.cells < 1:
            raise ValueError(f"a grid has at least 1 cell to a side; got {self.cells}")

    def __call__(self, scenes: Scenes) -> Float[Tensor, "batch row column"]:
        return self.at(places(scenes)[0], scenes.present)

    def at(
        self, place: Float[Tensor, "batch object 2"], present: Bool[Tensor, "batch object"]
    ) -> Float[Tensor, "batch row column"]:
        """Return the grid that tells of these places."""
        cell, inside = self._cell(place, present)
        grid = place.new_zeros(len(place), self.cells**2)
        grid = grid.scatter_reduce(1, cell, inside.to(place.dtype), "amax")
        return grid.unflatten(1, (self.cells, self.cells))

    def told(
        self, place: Float[Tensor, "batch object 2"], present: Bool[Tensor, "batch object"]
    ) -> tuple[Float[Tensor, "batch object 2"], Bool[Tensor, "batch object"]]:
        """Return the centres of the told cells, one for all objects of a cell."""
        cell, inside = self._cell(place, present)
        same = (cell[:, :, None] == cell[:, None]) & inside[:, None]
        first = ~same.tril(-1).any(dim=2)
        centre = torch.stack([cell % self.cells, cell // self.cells], dim=-1) + 0.5
        return (centre / self.cells).to(place.dtype), inside & first

    def _cell(self, place: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        """Return the number of the cell of each place, row by row, and whether it is told."""
        # Absent objects may be anywhere, NaN included.
        cell = (place.masked_fill(~present[..., None], 0) * self.cells).floor().long()
        inside = present & (cell >= 0).all(dim=-1) & (cell < self.cells).all(dim=-1)
        return (cell[..., 1] * self.cells + cell[..., 0]).masked_fill(~inside, 0), inside


@dataclass(frozen=True)
class List:
    """Write (x, y, 1) for each object, in their order and from the front; zeros follow.

    An object whose centre is outside the image is left out.
    """

    most: int = 12

    def __post_init__(self) -> None:
        if self.most < 1:
            raise ValueError(f"a list holds at least 1 object; got {self.most}")

    def __call__(self, scenes: Scenes) -> Float[Tensor, "batch entry 3"]:
        return self.at(places(scenes)[0], scenes.present)

    def at(
        self, place: Float[Tensor, "batch object 2"], present: Bool[Tensor, "batch object"]
    ) -> Float[Tensor, "batch entry 3"]:
        """Return the list that tells of these places."""
        objects = present.shape[1]
        # Looking into the masks would make every training step wait for the device.
        if objects > self.most and (longest := int(present.sum(dim=1).max())) > self.most:
            raise ValueError(f"a list of length {self.most} cannot hold {longest} objects")
        place, inside = self.told(place, present)
        entry = torch.cat([place, inside[..., None].to(place.dtype)], dim=-1)
        entry = torch.where(inside[..., None], entry, 0)
        entry = _in_order(entry, self._order(inside))[:, : self.most]
        return torch.nn.functional.pad(entry, (0, 0, 0, max(self.most - objects, 0)))

    def told(
        self, place: Float[Tensor, "batch object 2"], present: Bool[Tensor, "batch object"]
    ) -> tuple[Float[Tensor, "batch object 2"], Bool[Tensor, "batch object"]]:
        """Return the places themselves."""
        return place, present & (place >= 0).all(dim=-1) & (place < 1).all(dim=-1)

    def _order(self, inside: Bool[Tensor, "batch object"]) -> Int[Tensor, "batch object"]:
        return (~inside).byte().argsort(dim=1, stable=True)


@dataclass(frozen=True)
class Slots(List):
    """Write (x, y, 1) for each object in the slot it stands in, zeros in the others.

    With `Anywhere` every slot is filled in training, however few the objects.
    """

    def _order(self, inside: Bool[Tensor, "batch object"]) -> Int[Tensor, "batch object"]:
        if inside.shape[1] > self.most:
            raise ValueError(f"{inside.shape[1]} objects do not stand in {self.most} slots")
        return torch.arange(inside.shape[1], device=inside.device).expand(inside.shape)


def _in_order(value: Tensor, order: Tensor) -> Tensor:
    """Return the objects of each scene in another order."""
    index = order.reshape(*order.shape, *[1] * (value.dim() - 2))
    return value.gather(1, index.expand(-1, -1, *value.shape[2:]))


@dataclass(frozen=True)
class Conditioner:
    """Choose what is told and how it is written."""

    tell: Tell = everything
    encode: Encode = Values()

    def __call__(self, scenes: Scenes, generator: torch.Generator) -> Tensor:
        return self.encode(self.tell(scenes, generator))

    def asked(self, condition: Tensor, generator: torch.Generator) -> Tensor:
        """Return what a trained model is told when it is asked for this."""
        del generator
        return condition


@dataclass(frozen=True)
class Forgetful(Conditioner):
    """Leave each factor untold with the chance `share`, image by image and factor by factor.

    For encodings with a row per factor. Two mistakes of the code behind Farid et al. 2025 have
    names: `as_zero` writes a dropped factor as a value of 0 instead of nothing, for the whole
    batch at once, and `when_sampling` drops factors from what is asked for, too.
    """

    share: float = 0.1
    as_zero: bool = False
    when_sampling: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"the share of dropped factors lies in [0, 1]; got {self.share}")

    def __call__(self, scenes: Scenes, generator: torch.Generator) -> Tensor:
        return self.forgotten(super().__call__(scenes, generator), generator)

    def asked(self, condition: Tensor, generator: torch.Generator) -> Tensor:
        return self.forgotten(condition, generator) if self.when_sampling else condition

    def forgotten(
        self, condition: Float[Tensor, "batch factor feature"], generator: torch.Generator
    ) -> Float[Tensor, "batch factor feature"]:
        """Return the condition with factors dropped by chance."""
        draw = torch.rand(condition.shape[:2], generator=generator, device=generator.device)
        dropped = (draw.to(condition.device) < self.share)[..., None]
        if not self.as_zero:
            return torch.where(dropped, 0, condition)
        assert isinstance(self.encode, Labels)
        return torch.where(dropped[:1], self.encode.zero(condition), condition)
