"""How far from grey are the images of a model? (Say here what is measured, and why.)

    recombine run FILE --tiny       # trains a small model, at the end of the file, and measures it
    python -m pytest FILE           # the tests after it

A measurement is a frozen value: it looks at a subject, and returns numbers with their intervals.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from recombine.condition import Conditioner, Labels, all_objects
from recombine.measure.subject import Findings, Subject
from recombine.measurement import Measurement
from recombine.models.dit import DiT
from recombine.models.entry import Vector
from recombine.study import Cell, study
from recombine.training import Budget, Training
from recombine.worlds.shapes2d import Shapes2D

# Scenes of a seed that no training has.
FRESH = 10_103


@dataclass(frozen=True)
class SkeletonMeasure:
    """The mean distance from grey of so many samples, and of renders of the same scenes."""

    samples: int = 64

    name: ClassVar[str] = "skeleton"

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise ValueError(f"an interval needs 2 samples or more; got {self.samples}")

    def __call__(self, subject: Subject, generator: torch.Generator) -> Findings:
        """Sample and measure; `subject` also has the denoiser, and readers of images."""
        training = subject.training
        scenes = training.world.scenes(torch.arange(self.samples), FRESH)
        drawn = subject.images(training.conditioner(scenes, generator), generator).clamp(0, 1)
        renders = training.world.image(scenes)
        found = {"skeleton": contrast(drawn), "skeleton_ceiling": contrast(renders)}
        return Findings(found, images={"samples": drawn})

    def tiny(self) -> "SkeletonMeasure":
        """Return the same measurement, made in a second."""
        return replace(self, samples=2)


def contrast(images: torch.Tensor) -> Measurement:
    """Return the mean distance from grey, with the interval over images."""
    each = (images - 0.5).abs().mean(dim=(1, 2, 3))
    return Measurement.mean(each.tolist()).clipped(0, 0.5)


# A study, so that it can be run.
TRAINING = Training(
    world=Shapes2D(),
    network=DiT(3, 28, patch=4, entry=Vector(21), width=64, layers=4, heads=4),
    budget=Budget(steps=1_000, batch=64, warm_up=100),
    conditioner=Conditioner(all_objects, Labels((4, 4, 6))),
)
STUDY = study(
    "How far from grey are the images of a model?",
    Cell(TRAINING, measures=(SkeletonMeasure(),), seeds=(0,)),
    {},
    headline=("skeleton", "skeleton_ceiling"),
)


# A law for which the value is known: half of the images are black, half are grey.


@dataclass(frozen=True)
class HalfBlack:
    """A subject whose samples are known."""

    training: Any = TRAINING

    def images(self, condition: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Return black and grey images in turn."""
        black = torch.arange(len(condition)) % 2 == 0
        return torch.where(black, 0.0, 0.5)[:, None, None, None].expand(-1, 3, 28, 28)


def test_the_value_is_that_of_a_law_for_which_it_is_known() -> None:
    subject: Any = HalfBlack()
    found = SkeletonMeasure(samples=8)(subject, torch.Generator()).measurements["skeleton"]
    assert found.value == 0.25
    assert found.n == 8
