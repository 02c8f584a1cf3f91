"""Fresh renders of one object to an image, and files for testing: what no training has seen."""

from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.data import LabelledFiles
from recombine.measure.subject import inapplicable
from recombine.scene import Concepts, Scenes, concept_rows
from recombine.split import Split
from recombine.worlds.files.folder import labelled
from recombine.worlds.shapes2d import Shapes2D
from recombine.worlds.shapes3d import Shapes3D

FRESH = 10_037
"""The seed of fresh renders; no training has it."""
MEANS = 10_039
"""The seed of scenes without jitter; no training has it."""

SingleObjectWorld: TypeAlias = Shapes2D | Shapes3D | LabelledFiles
"""Worlds of one object to an image."""


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
    """Return renders, or files, of a composition that no training has seen, from a number on."""
    number = torch.arange(first, first + samples, device=device)
    if isinstance(world, LabelledFiles):
        mine = kept_for_testing(world, which)
        if first + samples > (there := len(mine)):
            raise ValueError(
                f"{', '.join(which)} has {there} images for testing; {first + samples} are needed "
                f"(so many samples for the model, and as many for its view)"
            )
        return mine.image_of(number)
    endless = replace(world, images=None) if isinstance(world, Shapes2D) else world
    only = replace(endless, among=(which,))
    return only.image(only.scenes(number, FRESH))


def means(world: SingleObjectWorld, which: Concepts, samples: int, device: torch.device) -> Scenes:
    """Return scenes of a composition whose values are its means: without jitter."""
    if isinstance(world, LabelledFiles):
        # Of a file nothing is known but its concepts, and there may be no file of these.
        rows = concept_rows(world.factors, (which,)).to(device)
        return labelled(rows.expand(samples, -1))
    if isinstance(world, Shapes2D):
        world = world.means
    return replace(world, among=(which,)).scenes(torch.arange(samples, device=device), MEANS)


@cache
def kept_for_testing(files: LabelledFiles, which: Concepts) -> LabelledFiles:
    """Return the files of a composition that are for testing; their list is read once."""
    declared: Any = files
    return replace(declared, part="test", among=(which,))
