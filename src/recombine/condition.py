"""What a model is told about a scene: first which objects, then in which form."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.scene import Scenes

Tell: TypeAlias = Callable[[Scenes, torch.Generator], Scenes]
"""Leaves out the objects that go unmentioned."""
Encode: TypeAlias = Callable[[Scenes], Tensor]
"""Writes down the objects that are told of; an absent one leaves no trace."""


def everything(scenes: Scenes, generator: torch.Generator) -> Scenes:
    """Tell the model about every object."""
    del generator
    return scenes


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
class Conditioner:
    """Choose what is told and how it is written."""

    tell: Tell = everything
    encode: Encode = Values()

    def __call__(self, scenes: Scenes, generator: torch.Generator) -> Tensor:
        return self.encode(self.tell(scenes, generator))
