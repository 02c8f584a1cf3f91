"""Two verbs for whatever a user brings: measure anything that can be called, run any training."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recombine import studies, zoo
from recombine.condition import Conditioner
from recombine.data import Source
from recombine.measurement import Measurement
from recombine.run import Model, Plan, Settings, loaded, machine, planned, together
from recombine.run.model import MEASURING, chosen_measure, load, stream
from recombine.run.state import checkpoints
from recombine.sample.heun import HEUN, Keep, Sampler, anew
from recombine.split import Split
from recombine.study import Cell, Study, study
from recombine.training import Training
from recombine.views import Centred, Unchanged, View


@dataclass(frozen=True)
class GivenTraining:
    """What is known of a model that was trained elsewhere."""

    world: Source
    conditioner: Conditioner
    view: View
    network: Any = None
    objective: Any = None


@dataclass(frozen=True)
class Foreign:
    """A generator or a denoiser made elsewhere, as measurements see it."""

    training: GivenTraining
    called: Callable[..., Tensor]
    denoises: bool
    sampler: Sampler
    device: torch.device
    keep: Keep = anew

    @property
    def denoiser(self) -> Any:
        """The denoiser itself; a generator has none, and says so when it is called as one."""
        return self.called if self.denoises else _no_denoiser

    @property
    def precise(self) -> Any:
        """The same: its precision is the user's."""
        return self.denoiser

    def drawn(self, condition: Tensor, generator: torch.Generator) -> Tensor:
        """Sample as the model sees images."""
        if not self.denoises:
            return self.called(condition.to(self.device), generator)
        side = self.training.world.size
        shape = tuple(self.training.view(torch.zeros(1, 3, side, side)).shape[1:])
        draw = self.sampler.generator(self.called, shape, 16 if self.device.type == "cpu" else 256)
        return draw(condition.to(self.device), generator)

    def images(self, condition: Tensor, generator: torch.Generator) -> Tensor:
        """Sample images in [0, 1]."""
        return self.training.view.back(self.drawn(condition, generator))

    def reader(self, name: str) -> Any:
        """Return a shipped reader, or the fit of this world."""
        return zoo.reader(name, self.device, self.training.world)

    def watch(self, done: float, total: int) -> None:
        """Show nothing."""
        del done, total


def _no_denoiser(*call: Tensor) -> Tensor:
    raise ValueError("this is measured on a denoiser (x, sigma, condition); got a generator")


def measure(
    model: Any,
    what: str,
    world: Source | None = None,
    conditioner: Conditioner | None = None,
    split: Split | None = None,
    view: View | None = None,
    sampler: Sampler = HEUN,
    seed: int = 0,
    device: torch.device | str = "cpu",
    **settings: Any,
) -> Mapping[str, Measurement]:
    """Measure a model of ours, its name, a generator or a denoiser; return its numbers by name.

    A generator is called as (condition, generator) -> images in [0, 1]. A denoiser is called as
    (x, sigma, condition) -> images in [-1, 1], as `view` says, and sampled by `sampler`. Of both,
    say on which `world` and by which `conditioner` they are conditioned. Settings are fields of the
    measurement: samples=8.
    """
    settings = settings if split is None else {**settings, "split": split}
    model = load(str(model), device) if isinstance(model, str | Path) else model
    if isinstance(model, Model):
        return model.measure(what, **settings)
    if world is None or conditioner is None:
        missing = [n for n, v in (("world", world), ("conditioner", conditioner)) if v is None]
        raise ValueError(f"a model made elsewhere is measured with its {' and '.join(missing)}")
    denoises = is_denoiser(model)
    view = view or (Centred() if denoises else Unchanged())
    place = torch.device(device)
    subject = Foreign(GivenTraining(world, conditioner, view), model, denoises, sampler, place)
    chosen = chosen_measure((), what, settings)
    with torch.no_grad():
        return chosen(subject, stream(seed, MEASURING, place)).measurements


def is_denoiser(model: Any) -> bool:
    """Return whether this is called as (x, sigma, condition), and not as (condition, generator)."""
    if not callable(model):
        raise ValueError(f"a model is a name, a Model or something to call; got {model!r}")
    call = model.forward if isinstance(model, torch.nn.Module) else model
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    every = [each for each in inspect.signature(call).parameters.values() if each.kind in kinds]
    needed = [each.name for each in every if each.default is inspect.Parameter.empty]
    if len(needed) not in (2, 3):
        raise ValueError(
            "a generator is called as (condition, generator), a denoiser as (x, sigma, condition); "
            f"got ({', '.join(needed)})"
        )
    return len(needed) == 3


def run(
    what: "Training | Cell | Study | str",
    name: str | None = None,
    seed: int | None = None,
    out: Path | str = "runs",
    device: torch.device | str = "cpu",
    tiny: bool = False,
    **budget: Any,
) -> "Model | dict[str, Model]":
    """Train, measure and keep in out/NAME; return the model, or those of a study by cell.

    `what` is a training, a cell, a study, or the name of one of ours: "toy:denoising". The same
    call again goes on where it stopped, and returns at once what is done. Further settings are
    fields of the budget: steps=500.
    """
    cells = _cells(what, name)
    plans = {key: _plan(*each, key, seed, tiny, budget) for key, each in cells.items()}
    accelerator = machine(torch.device(device))
    found = {}
    for key, plan in plans.items():
        together([plan], accelerator, [Settings(Path(out))])
        path = checkpoints(plan.folder(Path(out)))[0]
        found[key] = loaded(plan, path, accelerator, of=cells[key][1])
    return found if isinstance(what, Study) or len(found) > 1 else next(iter(found.values()))


def _cells(what: Any, name: str | None) -> dict[str, tuple[str, Study]]:
    """Return the name of a study and the study, by cell."""
    if isinstance(what, str):
        return {key: (own, studies.load(own)) for own, key in studies.chosen(what)}
    if not name or name in studies.names():
        raise ValueError(
            f"name=... is the folder of what is declared here, a new name; got {name!r}"
        )
    if isinstance(what, Study):
        return {key: (name, what) for key in what.cells}
    if not isinstance(what, Training | Cell):
        raise ValueError(f"run takes a training, a cell, a study or a name; got {what!r}")
    cell = what if isinstance(what, Cell) else Cell(what)
    return {"base": (name, study(name, cell, {}))}


def _plan(
    name: str, of: Study, key: str, seed: int | None, tiny: bool, budget: Mapping[str, Any]
) -> Plan:
    cell = of.cells[key]
    if not isinstance(cell, Cell):
        raise ValueError(f"{name}:{key} is computed and not trained; use recombine run {name}")
    known = [each.name for each in fields(cell.training.budget)]
    for field in budget:
        if field not in known:
            raise ValueError(f"a budget has {', '.join(known)}; got {field}")
    return planned(name, of, key, seed, tiny, budget)
