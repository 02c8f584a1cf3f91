"""`recombine measure`: measure a trained model, in any way that applies to it."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro

from recombine import run as runner
from recombine import studies
from recombine.commands import choice
from recombine.commands.console import image_progress, print_json, say
from recombine.commands.grammar import UNSET, Device, Json, Names
from recombine.measure.subject import Measure
from recombine.report.table import quoted
from recombine.run import Model
from recombine.run.model import chosen_checkpoint, configured
from recombine.sample.heun import Progress, unwatched
from recombine.study import Cell


@dataclass(frozen=True)
class MeasureOptions:
    """Measure shipped weights, the newest checkpoint of a run, or any; nothing is written.

    Example: recombine measure zoo:grid_all --what length --samples 64 --objects 1-9 --json
    """

    subject: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ZOO_OR_RUN")]
    """zoo:NAME (see recombine list), STUDY:CELL, the folder of a run, or a checkpoint."""
    what: Annotated[Names | None, UNSET] = None
    """Which measurements: length, or length,locality (default: those the cell declares; a wrong
    name is answered with all there are)."""
    samples: Annotated[int | None, UNSET] = None
    """Images per composition or number of objects (default, as for the next two: as declared)."""
    objects: Annotated[tuple[int, ...] | None, UNSET] = None
    """How many objects to request: 4, 1-9 or 3,6,9."""
    layers: Annotated[tuple[int, ...] | None, UNSET] = None
    """Which layers to look into: 0-3."""
    steps: Annotated[int | None, UNSET] = None
    """Steps of the sampler."""
    seed: int = 0
    """Which run, when a cell is named."""
    out: Path = Path("runs")
    """Folder of the runs, when a cell is named."""
    device: Device = None
    json: Json = False


def run(options: MeasureOptions) -> None:
    """Print every measurement."""
    path = chosen_checkpoint(options.subject, options.seed, options.out)
    with image_progress(options.subject) as watch:
        model = chosen_model(path, choice.chosen_device(options.device), options.steps, watch)
        found = model.found(chosen_measures(model.cell, options))
    note = studies.load(runner.plan_of(path).source).note
    if options.json:
        values = {name: asdict(each) for name, each in found.measurements.items()}
        others = {"undefined": dict(found.undefined), "alarms": list(found.alarms), "note": note}
        others = {name: each for name, each in others.items() if each}
        print_json({"subject": options.subject, "measurements": values, **others})
        return
    if note:
        say(f"note: {note}")
    for name, each in found.measurements.items():
        print(f"{name} {quoted(each)}")
    for name, why in found.undefined.items():
        say(f"{name} is undefined: {why}")
    for text in found.alarms:
        say(f"alarm: {text}")


def chosen_model(
    path: Path, device: torch.device, steps: int | None = None, watch: Progress = unwatched
) -> Model:
    """Load the model of a checkpoint, to sample in so many steps (default: the cell's)."""
    plan = runner.plan_of(path)
    if plan.remark:
        say(plan.remark)
    if steps is not None:
        sampler = replace(plan.trained.sampler, steps=steps)
        plan = replace(plan, declared=replace(plan.trained, sampler=sampler))
    return runner.loaded(plan, path, runner.machine(device), watch)


def chosen_measures(cell: Cell, options: MeasureOptions) -> list[Measure]:
    """Return the measurements that are wanted, set as they are wanted."""
    if options.samples is not None and options.samples < 1:
        raise ValueError(f"--samples is at least 1; got {options.samples}")
    names = options.what or tuple(each.name for each in cell.measures)
    chosen: Any = [configured(cell, name, {}) for name in names]
    for name in ("samples", "objects", "layers"):
        if (value := getattr(options, name)) is not None:
            if not any(hasattr(measure, name) for measure in chosen):
                raise ValueError(f"{', '.join(names)} has no {name} to set; got {value}")
            chosen = [
                replace(measure, **{name: value}) if hasattr(measure, name) else measure
                for measure in chosen
            ]
    return list(chosen)
