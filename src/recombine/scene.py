"""What a picture is of, before there is a picture.

A World names the factors and places objects. A composition fixes one concept per factor.
Scenes are a batch of placed objects, as tensors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

SceneNumbers: TypeAlias = Int[Tensor, " batch"] | Sequence[int]
"""The numbers of scenes: a tensor, or a list such as [0, 1]."""
Concepts: TypeAlias = tuple[str, ...]
"""One concept per factor, in the order of the world's factors: ("circle", "red", "large")."""

SHAPES = ("sphere", "cube", "cylinder", "capsule", "circle", "triangle", "square", "cross")
MATERIALS = ("rubber", "metal")


@dataclass(frozen=True)
class Factor:
    """An axis of variation and the concepts it can take; the first concept is the default."""

    name: str
    concepts: tuple[str, ...]

    def index(self, concept: str) -> int:
        """Return the number of a concept; the error names those there are."""
        if concept not in self.concepts:
            raise ValueError(f"{self.name} is one of {', '.join(self.concepts)}; got {concept!r}")
        return self.concepts.index(concept)


@dataclass(frozen=True)
class Scenes:
    """A batch of scenes. The values of an absent object are arbitrary.

    Position is in world units (2 or 3 of them), size is a radius or half side, rotation is in
    degrees, colour and backdrop are sRGB in [0, 1]. These are the actual values; `concepts` holds
    which concept of each factor they stand for. Flat worlds have no lamps and a camera of zeros.
    """

    position: Float[Tensor, "batch object space"]
    size: Float[Tensor, "batch object"]
    rotation: Float[Tensor, "batch object"]
    colour: Float[Tensor, "batch object 3"]
    shape: Int[Tensor, "batch object"]
    material: Int[Tensor, "batch object"]
    concepts: Int[Tensor, "batch object factor"]
    present: Bool[Tensor, "batch object"]
    backdrop: Float[Tensor, "batch surface 3"]
    camera: Float[Tensor, "batch 3"]
    lamps: Float[Tensor, "batch lamp 3"]

    def __len__(self) -> int:
        return len(self.present)

    def __getitem__(self, which: slice | Tensor) -> "Scenes":
        """Return the scenes at a slice, an index tensor or a mask."""
        return self._each(lambda value: value[which])

    def to(self, device: torch.device | str) -> "Scenes":
        """Return the same scenes on another device."""
        return self._each(lambda value: value.to(device))

    def without(self, index: int) -> "Scenes":
        """Return the scenes with one object taken away."""
        present = self.present.clone()
        present[:, index] = False
        return replace(self, present=present)

    def moved(self, index: int, to: Float[Tensor, "batch space"]) -> "Scenes":
        """Return the scenes with one object put elsewhere."""
        position = self.position.clone()
        position[:, index] = to.to(position)
        return replace(self, position=position)

    def padded(self, objects: int) -> "Scenes":
        """Return the scenes with room for more objects; the new ones are absent."""
        missing = objects - self.present.shape[1]
        if missing < 0:
            raise ValueError(f"scenes with {self.present.shape[1]} objects do not fit {objects}")
        grown = {
            name: torch.cat([value, value.new_zeros(len(self), missing, *value.shape[2:])], dim=1)
            for name in PER_OBJECT
            for value in [getattr(self, name)]
        }
        return replace(self, **grown)

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Scenes":
        return Scenes(**{field.name: change(getattr(self, field.name)) for field in fields(self)})


PER_OBJECT = tuple(
    field.name for field in fields(Scenes) if field.name not in ("backdrop", "camera", "lamps")
)


def concatenate(parts: Sequence[Scenes]) -> Scenes:
    """Join batches of scenes of one world; those with fewer objects get absent ones."""
    if not parts:
        raise ValueError("nothing to join: no scenes were given")
    objects = max(part.present.shape[1] for part in parts)
    parts = [part.padded(objects) for part in parts]
    return Scenes(
        **{
            field.name: torch.cat([getattr(part, field.name) for part in parts])
            for field in fields(Scenes)
        }
    )


def as_numbers(index: SceneNumbers) -> Int[Tensor, " batch"]:
    """Return the numbers of scenes as a tensor; those of a list are on the CPU."""
    return index if isinstance(index, Tensor) else torch.tensor(index, dtype=torch.long)


@runtime_checkable
class World(Protocol):
    """A law of scenes and the way they look; declared as a frozen value."""

    @property
    def name(self) -> str: ...

    @property
    def factors(self) -> tuple[Factor, ...]: ...

    @property
    def size(self) -> int:
        """Side of an image in pixels."""

    def scenes(self, index: Int[Tensor, " batch"], seed: int) -> Scenes:
        """Return the scenes of these numbers; each depends on its number and the seed only."""

    def image(self, scenes: Scenes) -> Float[Tensor, "batch 3 height width"]:
        """Return what the scenes look like, sRGB in [0, 1], on the device of the scenes."""


def compositions(factors: Sequence[Factor]) -> list[Concepts]:
    """Return every composition, the last factor changing fastest."""
    return list(product(*(factor.concepts for factor in factors)))


def concept_rows(
    factors: Sequence[Factor], among: Sequence[Concepts]
) -> Int[Tensor, "composition factor"]:
    """Return compositions as concept numbers; an unknown concept is named in the error."""
    for composition in among:
        if len(composition) != len(factors):
            names = ", ".join(factor.name for factor in factors)
            raise ValueError(f"a composition has one concept each for {names}; got {composition}")
    if len(set(among)) < len(among):
        raise ValueError(f"each composition is named once; got {tuple(among)}")
    rows = [
        [factor.index(concept) for factor, concept in zip(factors, composition, strict=True)]
        for composition in among
    ]
    return torch.tensor(rows, dtype=torch.int64).reshape(len(rows), len(factors))


def composition_number(
    concepts: Int[Tensor, "*batch factor"], factors: Sequence[Factor]
) -> Int[Tensor, "*batch"]:
    """Return where in `compositions(factors)` each row of concept numbers stands."""
    number = torch.zeros_like(concepts[..., 0])
    for axis, factor in enumerate(factors):
        number = number * len(factor.concepts) + concepts[..., axis]
    return number
