"""What a model is conditioned on: first which objects of a scene, then in which form."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.render.camera import places
from recombine.scene import PER_OBJECT, Scenes

Select: TypeAlias = Callable[[Scenes, torch.Generator], Scenes]
"""Chooses the objects that the condition holds; the others become absent."""
Encode: TypeAlias = Callable[[Scenes], Tensor]
"""Writes the present objects into a tensor; an absent one leaves no trace."""


def all_objects(scenes: Scenes, generator: torch.Generator) -> Scenes:
    """Select every object."""
    del generator
    return scenes


def all_objects_shuffled(scenes: Scenes, generator: torch.Generator) -> Scenes:
    """Select every object, in random order."""
    draw = torch.rand(scenes.present.shape, generator=generator, device=generator.device)
    order = draw.to(scenes.present.device).argsort(dim=1)
    return replace(scenes, **{name: _in_order(getattr(scenes, name), order) for name in PER_OBJECT})


@dataclass(frozen=True)
class ShuffledSlots:
    """Select every object, each in a random one of so many `slots`."""

    slots: int = 12

    def __call__(self, scenes: Scenes, generator: torch.Generator) -> Scenes:
        return all_objects_shuffled(scenes.padded(self.slots), generator)


def one_object(scenes: Scenes, generator: torch.Generator) -> Scenes:
    """Select one random object per scene: a partial condition."""
    draw = torch.rand(scenes.present.shape, generator=generator, device=generator.device)
    draw = draw.to(scenes.present.device).masked_fill(~scenes.present, -1)
    first = torch.zeros_like(scenes.present).scatter(1, draw.argmax(dim=1, keepdim=True), True)
    return replace(scenes, present=first & scenes.present)


def no_object(scenes: Scenes, generator: torch.Generator) -> Scenes:
    """Select no object."""
    del generator
    return replace(scenes, present=torch.zeros_like(scenes.present))


@dataclass(frozen=True)
class Values:
    """Write red, green, blue and size of each object; zeros where there is none.

    No object has the size 0, so zeros are a null condition.
    """

    objects: int = 1

    def __post_init__(self) -> None:
        if self.objects < 1:
            raise ValueError(f"values are written for at least 1 object; got {self.objects}")

    def __call__(self, scenes: Scenes) -> Float[Tensor, "batch value"]:
        batch, objects = scenes.present.shape
        if objects > self.objects:
            raise ValueError(f"values of {self.objects} objects cannot hold {objects} objects")
        values = torch.cat([scenes.colour, scenes.size[..., None]], dim=-1)
        # Not a product: an absent object may hold values that are not numbers.
        values = torch.where(scenes.present[..., None], values, 0)
        return torch.nn.functional.pad(values.flatten(1), (0, 4 * (self.objects - objects)))


@dataclass(frozen=True)
class ScaledValues(Values):
    """Write the same values times `scale`.

    With a small one, weights must grow before the condition has an influence, so that a model
    first learns what images look like.
    """

    scale: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.scale < float("inf"):
            raise ValueError(f"scale is a positive number; got {self.scale}")

    def __call__(self, scenes: Scenes) -> Float[Tensor, "batch value"]:
        return self.scale * super().__call__(scenes)


@dataclass(frozen=True)
class Labels:
    """Write which value each factor of the one object has: a one-hot row per factor.

    The last number of a row is 1 where the factor is given; a row of zeros is null. `values` are
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
        written = torch.nn.functional.one_hot(self._concepts(scenes), self.features)
        return self._flagged(scenes, written.to(scenes.size))

    def zero(self, condition: Float[Tensor, "batch factor feature"]) -> Tensor:
        """Return what is written where every factor is taken for a plain 0: its first label."""
        first = torch.zeros_like(condition)
        first[..., 0] = first[..., -1] = 1
        return first

    def _concepts(self, scenes: Scenes) -> Int[Tensor, "batch factor"]:
        """Return which value each factor of the one object has."""
        concepts = scenes.concepts[:, 0]
        if concepts.shape[1] != len(self.values):
            raise ValueError(f"labels are of {len(self.values)} factors; got {concepts.shape[1]}")
        return concepts

    def _flagged(self, scenes: Scenes, written: Tensor) -> Tensor:
        """Add the flags; the rows of an absent object are null."""
        rows = torch.nn.functional.pad(written, (0, 1), value=1.0)
        return torch.where(scenes.present[:, :1, None], rows, 0)


@dataclass(frozen=True)
class FactorValues(Labels):
    """Write the shape as a label, then size and colour as the numbers they are: three rows.

    `values` are how many shapes, sizes and colours there are, in this order.
    """

    values: tuple[int, ...] = (2, 2, 2)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.values) != 3:
            raise ValueError(f"actual values are of shape, size and colour; got {self.values}")

    @property
    def features(self) -> int:
        return max(self.values[0], 3)

    def __call__(self, scenes: Scenes) -> Float[Tensor, "batch factor feature"]:
        shape = torch.nn.functional.one_hot(self._concepts(scenes)[:, 0], self.features)
        size, colour = scenes.size[:, :1], scenes.colour[:, 0]
        rows = [
            torch.nn.functional.pad(row, (0, self.features - row.shape[1]))
            for row in (size, colour)
        ]
        return self._flagged(scenes, torch.stack([shape.to(size), *rows], dim=1))

    def zero(self, condition: Float[Tensor, "batch factor feature"]) -> Tensor:
        """Return the first shape, of the size 0 and the colour black."""
        first = torch.zeros_like(condition)
        first[:, 0, 0] = 1
        first[..., -1] = 1
        return first


@dataclass(frozen=True)
class Grid:
    """Write a 1 into the cell of the image in which the centre of an object is.

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
        """Return the grid that requests these places."""
        cell, inside = self._cell(place, present)
        grid = place.new_zeros(len(place), self.cells**2)
        grid = grid.scatter_reduce(1, cell, inside.to(place.dtype), "amax")
        return grid.unflatten(1, (self.cells, self.cells))

    def requested(
        self, place: Float[Tensor, "batch object 2"], present: Bool[Tensor, "batch object"]
    ) -> tuple[Float[Tensor, "batch object 2"], Bool[Tensor, "batch object"]]:
        """Return the centres of the marked cells, one for all objects of a cell."""
        cell, inside = self._cell(place, present)
        same = (cell[:, :, None] == cell[:, None]) & inside[:, None]
        first = ~same.tril(-1).any(dim=2)
        centre = torch.stack([cell % self.cells, cell // self.cells], dim=-1) + 0.5
        return (centre / self.cells).to(place.dtype), inside & first

    def _cell(self, place: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        """Return the number of the cell of each place, row by row, and whether it is marked."""
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
        """Return the list that requests these places."""
        objects = present.shape[1]
        # Looking into the masks would make every training step wait for the device.
        if objects > self.most and (longest := int(present.sum(dim=1).max())) > self.most:
            raise ValueError(f"a list of length {self.most} cannot hold {longest} objects")
        place, inside = self.requested(place, present)
        entry = torch.cat([place, inside[..., None].to(place.dtype)], dim=-1)
        entry = torch.where(inside[..., None], entry, 0)
        entry = _in_order(entry, self._order(inside))[:, : self.most]
        return torch.nn.functional.pad(entry, (0, 0, 0, max(self.most - objects, 0)))

    def requested(
        self, place: Float[Tensor, "batch object 2"], present: Bool[Tensor, "batch object"]
    ) -> tuple[Float[Tensor, "batch object 2"], Bool[Tensor, "batch object"]]:
        """Return the places themselves."""
        return place, present & (place >= 0).all(dim=-1) & (place < 1).all(dim=-1)

    def _order(self, inside: Bool[Tensor, "batch object"]) -> Int[Tensor, "batch object"]:
        return (~inside).byte().argsort(dim=1, stable=True)


@dataclass(frozen=True)
class Slots(List):
    """Write (x, y, 1) for each object in the slot it stands in, zeros in the others.

    With `ShuffledSlots` every slot is filled in training, however few the objects.
    """

    def _order(self, inside: Bool[Tensor, "batch object"]) -> Int[Tensor, "batch object"]:
        if inside.shape[1] > self.most:
            raise ValueError(f"{inside.shape[1]} objects do not stand in {self.most} slots")
        return torch.arange(inside.shape[1], device=inside.device).expand(inside.shape)


EncodesPlaces: TypeAlias = Grid | List
"""Writes down where in the image the objects are, from 0 to 1, x right and y down."""


def _in_order(value: Tensor, order: Tensor) -> Tensor:
    """Return the objects of each scene in another order."""
    index = order.reshape(*order.shape, *[1] * (value.dim() - 2))
    return value.gather(1, index.expand(-1, -1, *value.shape[2:]))


@dataclass(frozen=True)
class Conditioner:
    """From scenes to conditions: select objects, then encode them."""

    select: Select = all_objects
    encode: Encode = Values()

    def __call__(self, scenes: Scenes, generator: torch.Generator) -> Tensor:
        return self.encode(self.select(scenes, generator))

    def for_sampling(self, condition: Tensor, generator: torch.Generator) -> Tensor:
        """Return the condition that a trained model is given when this one is requested."""
        del generator
        return condition


@dataclass(frozen=True)
class FactorDropout(Conditioner):
    """Drop each factor from the condition with probability `share`, image by image.

    For encodings with a row per factor. Two mistakes of the code behind Farid et al. 2025 have
    names: `as_zero` writes a dropped factor as a value of 0 instead of a null row, for the whole
    batch at once, and `when_sampling` drops factors from requested conditions, too.
    """

    encode: Labels = FactorValues()
    share: float = 0.1
    as_zero: bool = False
    when_sampling: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"the share of dropped factors lies in [0, 1]; got {self.share}")

    def __call__(self, scenes: Scenes, generator: torch.Generator) -> Tensor:
        return self.dropped(super().__call__(scenes, generator), generator)

    def for_sampling(self, condition: Tensor, generator: torch.Generator) -> Tensor:
        return self.dropped(condition, generator) if self.when_sampling else condition

    def dropped(
        self, condition: Float[Tensor, "batch factor feature"], generator: torch.Generator
    ) -> Float[Tensor, "batch factor feature"]:
        """Return the condition without the factors that chance drops."""
        draw = torch.rand(condition.shape[:2], generator=generator, device=generator.device)
        drop = (draw.to(condition.device) < self.share)[..., None]
        if self.as_zero:
            return torch.where(drop[:1], self.encode.zero(condition), condition)
        return torch.where(drop, 0, condition)
