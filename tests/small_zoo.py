"""A zoo of models too small to draw anything, shipped into a folder of the test's own."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from recombine import run as runner
from recombine import studies, zoo
from recombine.checkpoint import Checkpoint
from recombine.condition import Conditioner, Grid, List, Values, all_objects, one_object
from recombine.measure.subject import Findings, Subject
from recombine.measurement import Measurement
from recombine.models.entry import Vector
from recombine.models.unet import UNet
from recombine.reader import Found
from recombine.run.state import checkpoints
from recombine.sample.heun import Sampler
from recombine.study import Axis, Cell, Level, Study, study
from recombine.training import Budget, Training
from recombine.worlds.circles import Circles
from recombine.worlds.clevr import Clevr

SIZE = 64
NAME = "small"


@dataclass(frozen=True)
class Brightness:
    """A measurement with the settings of length: the mean of some images."""

    objects: tuple[int, ...] = (1, 2)
    samples: int = 3
    name: ClassVar[str] = "length"

    def __call__(self, subject: Subject, generator: torch.Generator) -> Findings:
        found = {}
        for count in self.objects:
            condition = torch.zeros(self.samples, 16, 16)
            values = subject.images(condition, generator).mean(dim=(1, 2, 3)).tolist()
            found[f"count@{count}"] = Measurement.mean(values)
        return Findings(found)

    def tiny(self) -> "Brightness":
        return self


@dataclass(frozen=True)
class Steps:
    """A measurement without a setting."""

    name: ClassVar[str] = "steps"

    def __call__(self, subject: Any, generator: torch.Generator) -> Findings:
        return Findings({"steps": Measurement(subject.cell.sampler.steps, None, None, n=1)})

    def tiny(self) -> "Steps":
        return self


NETWORK = UNet(3, SIZE, Vector(256), width=8, multipliers=(1,), blocks=1, attention=(), patch=8)
SMALL = Cell(
    Training(
        world=Clevr(size=SIZE, objects=(1, 3), margin=False),
        network=NETWORK,
        budget=Budget(steps=4, batch=2, learning_rate=0.1, ema=0.1),
        conditioner=Conditioner(all_objects, Grid()),
    ),
    sampler=Sampler(steps=2),
    measures=(Brightness(), Steps()),
    seeds=(0,),
)


def with_training(**changes: Any) -> Callable[[Cell], Cell]:
    return lambda cell: replace(cell, training=replace(cell.training, **changes))


def without_length(**changes: Any) -> Callable[[Cell], Cell]:
    """Change the training, and leave out the measurement that is for conditions of a grid."""
    return lambda cell: replace(with_training(**changes)(cell), measures=(Steps(),))


LEVELS = {
    "grid_all": Level("All objects in a grid."),
    "grid_one": Level("One.", with_training(conditioner=Conditioner(one_object, Grid()))),
    "grid_one_local": Level(
        "Slower.", with_training(budget=replace(SMALL.training.budget, learning_rate=0.05))
    ),
    "list_all": Level(
        "A list.",
        without_length(
            network=replace(NETWORK, entry=Vector(36)), conditioner=Conditioner(all_objects, List())
        ),
    ),
    "circles": Level(
        "Circles.",
        without_length(
            world=Circles(size=SIZE),
            network=replace(NETWORK, entry=Vector(4)),
            conditioner=Conditioner(all_objects, Values()),
        ),
    ),
}
AXES = {"model": Axis(("training", "measures"), LEVELS)}
STUDY = study("All objects?", SMALL, AXES, ({"model": list(LEVELS)},), ("steps",), cost="none")


def shipped(out: Path, folder: Path, names: tuple[str, ...] = tuple(LEVELS)) -> Path:
    """Train every model for a few steps and ship it."""
    folder.mkdir()
    machine = runner.machine(torch.device("cpu"))
    for name in names:
        plan = runner.planned(NAME, STUDY, name)
        (kept,) = runner.together([plan], machine, [runner.Settings(out)])
        assert kept is not None
        checkpoint = Checkpoint.load(checkpoints(plan.folder(out))[0])
        zoo.ship(checkpoint, kept.measurements, name, folder)
    return folder


def use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this the zoo, and its study the one of that name."""
    monkeypatch.setattr(zoo, "FOLDER", folder)
    use_study(NAME, STUDY, monkeypatch)


def use_study(name: str, declared: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a study beside the others, or in the place of one."""
    load = studies.load
    known = dict.fromkeys([*studies.names(), name])
    monkeypatch.setattr(studies, "load", lambda each: declared if each == name else load(each))
    monkeypatch.setattr(studies, "names", lambda: [*known])


def painted(condition: Float[Tensor, "batch 16 16"], missing: int = 0) -> Tensor:
    """Return black images with a bright pixel in the middle of every marked cell but the first."""
    images = torch.zeros(len(condition), 3, SIZE, SIZE)
    step = SIZE // 16
    for image, cells in zip(images, condition, strict=True):
        for row, column in cells.nonzero()[missing:].tolist():
            image[:, row * step + step // 2, column * step + step // 2] = 1
    return images


def bright_pixels(images: Float[Tensor, "batch 3 height width"]) -> Found:
    """Read what `painted` wrote: a sphere where all three channels are at their highest."""
    most = 16
    place, present = torch.zeros(len(images), most, 2), torch.zeros(len(images), most).bool()
    for index, image in enumerate(images):
        for number, (row, column) in enumerate((image.amin(dim=0) == 1).nonzero().tolist()[:most]):
            place[index, number] = torch.tensor([(column + 0.5), (row + 0.5)]) / image.shape[-1]
            present[index, number] = True
    concepts = torch.zeros(len(images), most, len(Clevr.factors), dtype=torch.long)
    return Found(place, concepts, present.float(), present)
