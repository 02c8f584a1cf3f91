"""Fresh renders of one object to an image, and faces: what no training has seen."""

from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.measure.subject import inapplicable
from recombine.scene import Concepts, Scenes
from recombine.split import Split
from recombine.worlds.files.celeba import CelebA
from recombine.worlds.shapes2d import Shapes2D
from recombine.worlds.shapes3d import Shapes3D

FRESH = 10_037
"""The seed of fresh renders; no training has it."""
MEANS = 10_039
"""The seed of scenes without jitter; no training has it."""

SingleObjectWorld: TypeAlias = Shapes2D | Shapes3D | CelebA
"""Worlds of one object, or face, to an image."""


def single_object_world(measure: str, training: Any, split: Split) -> SingleObjectWorld:
    """Return the world of a training, or say what the measurement needs."""
    world = training.world
    if not isinstance(world, SingleObjectWorld):
        raise inapplicable(measure, "worlds of one object", world)
    if split.factors != world.factors:
        names = ", ".join(each.name for each in split.factors)
        theirs = ", ".join(each.name for each in world.factors)
        raise ValueError(
            f"{measure} is measured on a split of the world's own factors, {theirs}; "
            f"got {split.name} of {names}"
        )
    return world


def fresh(
    world: SingleObjectWorld, which: Concepts, samples: int, device: torch.device, first: int = 0
) -> Float[Tensor, "batch 3 height width"]:
    """Return renders, or faces, of a composition that no training has seen, from a number on."""
    number = torch.arange(first, first + samples, device=device)
    if isinstance(world, CelebA):
        return kept_for_testing(world, which).image_of(number)
    endless = replace(world, images=None) if isinstance(world, Shapes2D) else world
    only = replace(endless, among=(which,))
    return only.image(only.scenes(number, FRESH))


def means(world: SingleObjectWorld, which: Concepts, samples: int, device: torch.device) -> Scenes:
    """Return scenes of a composition whose values are its means: without jitter."""
    if isinstance(world, CelebA):
        return kept_for_testing(world, which).scenes_of(torch.arange(samples, device=device))
    if isinstance(world, Shapes2D):
        world = world.means
    return replace(world, among=(which,)).scenes(torch.arange(samples, device=device), MEANS)


@cache
def kept_for_testing(faces: CelebA, which: Concepts) -> CelebA:
    """Return the faces of a composition that are for testing; their list is read once."""
    return replace(faces, part="test", among=(which,))
