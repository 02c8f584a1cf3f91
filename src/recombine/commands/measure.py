"""`recombine measure`: measure a trained model, in any way that applies to it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro

from recombine import run as runner
from recombine.commands import choice
from recombine.commands.console import image_progress, print_json, say, tell_time
from recombine.commands.grammar import UNSET, Device, Json, Names, SamplerName, written
from recombine.measure.subject import Findings, HasQuick, Measure
from recombine.report.origin import device_name, source_digest, versions
from recombine.report.table import quoted
from recombine.run import Model
from recombine.run.devices import multiplies_bf16, warm
from recombine.run.model import chosen_checkpoint, configured
from recombine.run.parts import Parts, stoppable
from recombine.sample.heun import Progress, unwatched
from recombine.spelling import spelled

INTERRUPTED = 130


@dataclass(frozen=True)
class MeasureOptions:
    """Measure shipped weights, the newest checkpoint of a run, or any.

    On a CPU the settings are quick ones, and it is said which; --full takes those of the study.
    What is stopped goes on with the same command: finished parts lie in OUT/measured until then.

    Example: recombine measure zoo:grid_all --what length --samples 64 --objects 1-9 --json
    """

    subject: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ZOO_OR_RUN")]
    """zoo:NAME (see recombine list), STUDY:CELL, the folder of a run, or a checkpoint."""
    what: Annotated[Names | None, UNSET] = None
    """Which measurements: length, or length,locality (default: those the cell declares; a wrong
    name is answered with all there are)."""
    samples: Annotated[int | None, UNSET] = None
    """Images per composition or number of objects (default, as for the next two: see --full)."""
    objects: Annotated[tuple[int, ...] | None, UNSET] = None
    """How many objects to request: 4, 1-9 or 3,6,9."""
    layers: Annotated[tuple[int, ...] | None, UNSET] = None
    """Which layers to look into: 0-3."""
    steps: Annotated[int | None, UNSET] = None
    """Steps of the sampler."""
    sampler: SamplerName = None
    full: bool = False
    """Measure as the study declares, on a CPU too: that may take hours."""
    seed: int = 0
    """Which run, when a cell is named."""
    out: Path = Path("runs")
    """Folder of the runs, when a cell is named, and of what is measured in parts."""
    device: Device = None
    json: Json = False


def run(options: MeasureOptions) -> int:
    """Print every measurement."""
    path = chosen_checkpoint(options.subject, options.seed, options.out)
    device = choice.chosen_device(options.device)
    sampler = options.sampler or ("declared" if options.full else None)
    model = chosen_model(path, device, options.steps, sampler=sampler)
    quick = device.type == "cpu" and not options.full
    declared, measures = (chosen_measures(model, options, each) for each in (False, quick))
    changes = changed(path, model, declared, measures) if quick else []
    if changes:
        say(f"quick on a CPU ({'; '.join(changes)}); --full measures as declared")
    parts = Parts(place(options.out, path, model, measures))
    try:
        with stoppable():
            found = found_in_parts(options, model, measures, parts)
    except KeyboardInterrupt:
        kept = f"{parts.count} parts are in {parts.folder}" if parts.count else "nothing is kept"
        say(f"recombine: stopped, {kept}; the same command goes on from there")
        return INTERRUPTED
    parts.forget()
    announce(options, found, model.record.note, changes)
    return 0


def found_in_parts(
    options: MeasureOptions, model: Model, measures: Sequence[Measure], parts: Parts
) -> Findings:
    """Measure what is not yet kept, with a bar; say first how long it takes."""
    if parts.count:
        say(f"going on: {parts.count} parts are done already, in {parts.folder}")
    else:
        tell_time(sum(seconds(model, each) for each in measures), options.subject)
    with image_progress(options.subject) as watch:
        return replace(model, watch=watch, keep=parts).found(measures)


def seconds(model: Model, measure: Measure) -> float:
    """Estimate how long a measurement takes, by a tiny one; 0 where none is known to be long."""
    tiny = measure.tiny()
    if not (isinstance(measure, HasQuick) and isinstance(tiny, HasQuick)):
        return 0.0
    return warm(lambda: model.found((tiny,))) * measure.size / tiny.size


def place(out: Path, path: Path, model: Model, measures: Sequence[Measure]) -> Path:
    """Return the folder of the parts: one of its own for everything that numbers depend on."""
    plan = runner.plan_of(path)
    of = (
        hashlib.sha256(path.read_bytes()).hexdigest(),
        spelled(model.cell.sampler),
        spelled(tuple(measures)),
        device_name(model.device),
        str(torch.get_num_threads()),
        source_digest(),
        str(versions()),
    )
    digest = hashlib.sha256("\n".join(of).encode()).hexdigest()[:12]
    return out / "measured" / f"{plan.study}-{plan.cell}-seed{plan.seed}-{digest}"


def announce(options: MeasureOptions, found: Findings, note: str, changes: Sequence[str]) -> None:
    """Print the numbers, and what is to be known of them."""
    if options.json:
        others = {
            "undefined": dict(found.undefined),
            "alarms": list(found.alarms),
            "note": note,
            "quick": list(changes),
        }
        others = {name: each for name, each in others.items() if each}
        print_json(options.subject, found.measurements, **others)
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
    path: Path,
    device: torch.device,
    steps: int | None = None,
    watch: Progress = unwatched,
    sampler: str | None = None,
) -> Model:
    """Load the model of a checkpoint, to sample in so many steps (default: the sampler's)."""
    plan = runner.plan_of(path)
    if plan.remark:
        say(plan.remark)
    model = runner.loaded(plan, path, runner.machine(device), watch)
    if sampler == "quick" or (sampler is None and device.type == "cpu"):
        model = model.quick
    return model if steps is None else model.of_steps(steps)


def chosen_measures(model: Model, options: MeasureOptions, quick: bool) -> list[Measure]:
    """Return the measurements that are wanted, set as they are wanted."""
    if options.samples is not None and options.samples < 1:
        raise ValueError(f"--samples is at least 1; got {options.samples}")
    names = options.what or tuple(each.name for each in model.cell.measures)
    chosen: Any = [configured(model.cell, name, {}) for name in names]
    if quick:
        chosen = [each.quick() if isinstance(each, HasQuick) else each for each in chosen]
    for name in ("samples", "objects", "layers"):
        if (value := getattr(options, name)) is not None:
            if not any(hasattr(measure, name) for measure in chosen):
                raise ValueError(f"{', '.join(names)} has no {name} to set; got {value}")
            chosen = [
                replace(measure, **{name: value}) if hasattr(measure, name) else measure
                for measure in chosen
            ]
    return list(chosen)


def changed(
    path: Path, model: Model, declared: Sequence[Measure], measures: Sequence[Measure]
) -> list[str]:
    """Return what is not as declared: "length: samples 16 for 256"."""
    found = []
    now, before = model.cell.sampler, runner.plan_of(path).trained.sampler
    if now != before:
        bf16 = " in bf16" * multiplies_bf16()
        found.append(f"sampler: steps {now.steps} for {before.steps}{bf16}")
    both: list[tuple[Any, Any]] = list(zip(declared, measures, strict=True))
    for old, new in both:
        pairs = [
            (each.name, getattr(new, each.name), getattr(old, each.name)) for each in fields(new)
        ]
        shown = [f"{name} {short(to)} for {short(of)}" for name, to, of in pairs if to != of]
        if shown:
            found.append(f"{new.name}: {', '.join(shown)}")
    return found


def short(value: Any) -> str:
    """Write a setting; of a long list, only how long it is."""
    if isinstance(value, tuple) and not all(isinstance(each, int) for each in value):
        return f"{len(value)}"
    return written(value)
