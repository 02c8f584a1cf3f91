"""`recombine measure`: measure a trained model, in any way that applies to it."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from recombine import run as runner
from recombine import studies
from recombine.commands import choice
from recombine.commands.console import drawing, print_json, say
from recombine.commands.grammar import Names
from recombine.commands.parse import UNSET
from recombine.measure.subject import Measure
from recombine.report.table import quoted
from recombine.run.model import chosen_checkpoint, configured
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
    device: Annotated[str | None, UNSET] = None
    """Where to measure: cpu, cuda, cuda:1 (default: the accelerator if there is one)."""
    json: bool = False
    """Print one JSON object and nothing else on standard output."""


OPTIONS = MeasureOptions


def run(options: MeasureOptions) -> None:
    """Print every measurement."""
    path = chosen_checkpoint(options.subject, options.seed, options.out)
    plan = runner.plan_of(path)
    plan = replace(plan, declared=with_steps(plan.trained, options.steps))
    measures = chosen_measures(plan.trained, options)
    machine = runner.machine(choice.chosen_device(options.device))
    with drawing(options.subject) as watch:
        found = runner.loaded(plan, path, machine, watch).found(measures)
    note = studies.load(plan.study).note
    if options.json:
        values = {name: asdict(each) for name, each in found.measurements.items()}
        others = {"undefined": dict(found.undefined), "alarms": list(found.alarms), "note": note}
        others = {name: each for name, each in others.items() if each}
        print_json({"subject": options.subject, "measurements": values, **others})
        return
    for name, each in found.measurements.items():
        print(f"{name} {quoted(each)}")
    for name, why in found.undefined.items():
        say(f"{name} is undefined: {why}")
    for text in found.alarms:
        say(f"alarm: {text}")
    if note:
        say(f"note: {note}")


def with_steps(cell: Cell, steps: int | None) -> Cell:
    """Return the cell with another number of sampler steps, where one is given."""
    if steps is None:
        return cell
    return replace(cell, sampler=replace(cell.sampler, steps=steps))


def chosen_measures(cell: Cell, options: MeasureOptions) -> list[Measure]:
    """Return the measurements that are wanted, set as they are wanted."""
    given = {"samples": options.samples, "objects": options.objects, "layers": options.layers}
    settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if options.samples is not None and options.samples < 1:
        raise ValueError(f"--samples is at least 1; got {options.samples}")
    names = options.what or tuple(each.name for each in cell.measures)
    plain = [configured(cell, name, {}) for name in names]
    for name, value in settings.items():
        if not any(hasattr(measure, name) for measure in plain):
            raise ValueError(f"{', '.join(names)} has no {name} to set; got {value}")
    return [
        configured(cell, name, {key: v for key, v in settings.items() if hasattr(measure, key)})
        for name, measure in zip(names, plain, strict=True)
    ]
