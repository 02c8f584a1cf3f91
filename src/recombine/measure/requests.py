"""Length of a trained model: which places are requested, and by which rule a sample succeeds."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from recombine.condition import EncodesPlaces, Grid, all_objects_shuffled, one_object
from recombine.measure.length import Request, Rule, length
from recombine.measure.subject import Findings, Subject, inapplicable
from recombine.render.camera import places
from recombine.scene import Scenes
from recombine.worlds.clevr import Clevr

SEED = 10_007
"""The seed of the requested scenes; no training has it."""
CELLS = 16
"""Cells to a side of the grid in which no two requested objects share one."""


@dataclass(frozen=True)
class Length:
    """Request so many `samples` of each number of `objects`, and count what is drawn.

    Every model is conditioned on the same scenes: those with no two centres in one cell of the
    grid, which could only mark one of them.
    """

    objects: tuple[int, ...] = tuple(range(13))
    samples: int = 256

    name: ClassVar[str] = "length"

    def __post_init__(self) -> None:
        if not self.objects or min(self.objects) < 0 or self.samples < 2:
            raise ValueError(f"length needs numbers of objects and 2 samples or more; got {self}")

    def __call__(self, subject: Subject, generator: torch.Generator) -> Findings:
        """Sample, detect, and compare with the requested places."""
        world, encode = scenes_with_places(self.name, subject.training)
        rule = rule_of(subject.training)
        requests = {
            count: requested(world, encode, count, self.samples, generator)
            for count in self.objects
        }
        return length(requests, subject.images, subject.reader("detector"), rule, generator)

    @property
    def size(self) -> int:
        """The number of images."""
        return self.samples * len(self.objects)

    def quick(self) -> "Length":
        """Return the same measurement with few samples: too few to call anything K_max."""
        objects = tuple(count for count in self.objects if 1 <= count <= 10) or self.objects
        return replace(self, objects=objects, samples=min(self.samples, 16))

    def tiny(self) -> "Length":
        """Return the same measurement with few samples of few objects."""
        return replace(self, objects=(1, 2), samples=2)


def scenes_with_places(measure: str, training: Any) -> tuple[Clevr, EncodesPlaces]:
    """Return the world and the encoder of places, or say what the measurement needs."""
    world, encode = training.world, training.conditioner.encode
    if not isinstance(world, Clevr):
        raise inapplicable(measure, "CLEVR-like scenes", world)
    if not isinstance(encode, EncodesPlaces):
        raise inapplicable(measure, "models conditioned on places", encode)
    return world, encode


def rule_of(training: Any) -> Rule:
    """Return what counts as success: a model conditioned on one object may draw others."""
    most, one = training.world.objects[1], training.conditioner.select is one_object
    return Rule(objects=most, labels=1 if one else most, strict=not one)


def requested(
    world: Clevr,
    encode: EncodesPlaces,
    count: int,
    samples: int,
    generator: torch.Generator,
    seed: int = SEED,
) -> Request:
    """Return scenes with so many objects, as the encoder writes their places, and their renders."""
    scenes = one_to_a_cell(replace(world, objects=(count, count)), samples, generator.device, seed)
    scenes = all_objects_shuffled(scenes, generator)
    place, present = places(scenes)[0], scenes.present
    return Request(
        *encode.requested(place, present), encode.at(place, present), world.image(scenes)
    )


def one_to_a_cell(world: Clevr, samples: int, device: torch.device, seed: int = SEED) -> Scenes:
    """Return the first scenes in which the centres of all objects lie in cells of their own."""
    more = samples + samples // 2 + 8
    scenes = world.scenes(torch.arange(more, device=device), seed)
    _, kept = Grid(CELLS).requested(places(scenes)[0], scenes.present)
    whole = (kept == scenes.present).all(dim=1)
    if int(whole.sum()) < samples:
        raise ValueError(
            f"only {int(whole.sum())} of {more} scenes of {world} have every object in a cell of "
            f"its own; expected {samples}"
        )
    return scenes[whole][:samples]
