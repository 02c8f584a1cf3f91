"""A zoo of models too small to draw anything, shipped into a folder of the test's own."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from recombine import run as runner
from recombine import zoo
from recombine.checkpoint import checkpoints
from recombine.commands import run as run_command
from recombine.condition import Conditioner, Grid, List, Values, all_objects, one_object
from recombine.experiment import Budget, Experiment, Findings, Plan, Trained
from recombine.measurement import Measurement
from recombine.models.entry import Vector
from recombine.models.unet import UNet
from recombine.reader import Found
from recombine.sample.heun import Sampler
from recombine.worlds.circles import Circles
from recombine.worlds.clevr import Clevr

SIZE = 64
NAME = "length_generalization"


@dataclass(frozen=True)
class Brightness:
    """A question with the settings of the length study, answered by the mean of some images."""

    objects: tuple[int, ...] = (1, 2)
    samples: int = 3
    what: ClassVar[str] = "length"

    def __call__(self, trained: Trained, generator: torch.Generator) -> Findings:
        found = {}
        for count in self.objects:
            condition = torch.zeros(self.samples, 16, 16)
            values = trained.images(condition, generator).mean(dim=(1, 2, 3)).tolist()
            found[f"count@{count}"] = Measurement.mean(values)
        return Findings(found)

    def tiny(self) -> "Brightness":
        return self


@dataclass(frozen=True)
class Nameless:
    """A question that has neither a name nor a setting."""

    def __call__(self, trained: Trained, generator: torch.Generator) -> Findings:
        return Findings({"steps": Measurement(trained.experiment.sampler.steps, None, None, n=1)})

    def tiny(self) -> "Nameless":
        return self


SMALL = Experiment(
    question="Told of every object?",
    world=Clevr(size=SIZE, objects=(1, 3), margin=False),
    network=UNet(3, SIZE, Vector(256), width=8, multipliers=(1,), blocks=1, attention=(), patch=8),
    budget=Budget(steps=4, batch=2, learning_rate=0.1, ema=0.1),
    asks=(Brightness(), Nameless()),
    headline=("steps",),
    conditioner=Conditioner(all_objects, Grid()),
    sampler=Sampler(steps=2),
    seeds=(0,),
)
VARIANTS = {
    "grid_all": SMALL,
    "grid_one": replace(SMALL, conditioner=Conditioner(one_object, Grid())),
    "grid_one_local": replace(SMALL, budget=replace(SMALL.budget, learning_rate=0.05)),
    "list_all": replace(
        SMALL,
        network=replace(SMALL.network, entry=Vector(36)),
        conditioner=Conditioner(all_objects, List()),
        asks=(Nameless(),),
    ),
    "circles": replace(
        SMALL,
        world=Circles(size=SIZE),
        network=replace(SMALL.network, entry=Vector(4)),
        conditioner=Conditioner(all_objects, Values()),
        asks=(Nameless(),),
    ),
}


def shipped(out: Path, folder: Path, names: tuple[str, ...] = tuple(VARIANTS)) -> Path:
    """Train every model for a few steps and ship it."""
    folder.mkdir()
    machine = runner.machine(torch.device("cpu"))
    for name in names:
        plan = Plan(NAME, name, VARIANTS[name], seed=0)
        runner.run(plan, machine, runner.Settings(out))
        run = plan.folder(out)
        zoo.ship(checkpoints(run)[0], run / "record.json", name, folder)
    return folder


def use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this the zoo, and its experiments the declared ones."""
    monkeypatch.setattr(zoo, "FOLDER", folder)
    monkeypatch.setattr(run_command, "declared", lambda: {NAME: VARIANTS})


def painted(condition: Float[Tensor, "batch 16 16"], missing: int = 0) -> Tensor:
    """Return black images with a bright pixel in the middle of every told cell but the first."""
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
