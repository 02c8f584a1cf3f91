"""`recombine measure`: ask a trained model its experiment's questions again."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from recombine import run as runner
from recombine import zoo
from recombine.checkpoint import Checkpoint, checkpoints
from recombine.commands import choice
from recombine.commands.console import drawing, print_json, say
from recombine.commands.parse import UNSET
from recombine.commands.run import chosen_variants, seeded
from recombine.experiment import Ask, Experiment, Plan
from recombine.experiments import declared
from recombine.report.table import quoted
from recombine.report.words import nearest

ZOO = "zoo:"


@dataclass(frozen=True)
class Options:
    """Measure shipped weights, the newest checkpoint of a run, or any; nothing is written.

    Example: recombine measure zoo:grid_all --what length --samples 64 --objects 1-9 --json
    """

    subject: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME_OR_CHECKPOINT")]
    """zoo:NAME (see recombine list), EXPERIMENT[:VARIANT], the folder of a run, or a checkpoint."""
    what: Annotated[str | None, UNSET] = None
    """Which question, such as length (default: all that the experiment asks; a wrong name is
    answered with those there are, also by other experiments)."""
    samples: Annotated[int | None, UNSET] = None
    """Images per composition or number of objects (default, as for the next two: as declared)."""
    objects: Annotated[tuple[int, ...] | None, UNSET] = None
    """Numbers of objects, such as 4 or 1-9."""
    steps: Annotated[int | None, UNSET] = None
    """Steps of the sampler."""
    seed: int = 0
    """Which run, when an experiment is named."""
    out: Path = Path("runs")
    """Folder of the runs, when an experiment is named."""
    device: Annotated[str | None, UNSET] = None
    """Where to measure: cpu, cuda, cuda:1 (default: the accelerator if there is one)."""
    json: bool = False
    """Print one JSON object and nothing else on standard output."""


def run(options: Options) -> None:
    """Print every measurement."""
    path = chosen_checkpoint(options.subject, options.seed, options.out)
    plan = plan_of(path)
    if options.what is not None:
        plan = replace(plan, experiment=replace(plan.experiment, asks=known_asks(plan)))
    plan = replace(plan, experiment=asked_for(plan.experiment, options))
    machine = runner.machine(choice.chosen_device(options.device))
    with drawing(options.subject) as watch:
        found = runner.measured(runner.loaded(plan, path, machine, watch), plan.seed)
    undefined = dict(found.curves.get("undefined", []))
    alarms = [text for _, text in found.curves.get("alarms", [])]
    if options.json:
        values = {name: asdict(each) for name, each in found.measurements.items()}
        said = {"subject": subject_of(options.subject, path), "measurements": values}
        others = {"undefined": undefined, "alarms": alarms}
        print_json({**said, **{name: each for name, each in others.items() if each}})
        return
    for name, each in found.measurements.items():
        print(f"{name} {quoted(each)}")
    for name, why in undefined.items():
        say(f"{name} is undefined: {why}")
    for text in alarms:
        say(f"alarm: {text}")


def known_asks(plan: Plan) -> tuple[Ask, ...]:
    """Return what is asked of these weights, by their own experiment or one that learns the same.

    The budget may be another: questions do not depend on it.
    """
    asks = list(plan.experiment.asks)
    for variants in declared().values():
        for other in variants.values():
            if not isinstance(other, Experiment):
                continue
            same = replace(other, budget=plan.experiment.budget).digest == plan.experiment.digest
            named = {getattr(ask, "what", None) for ask in asks}
            asked = (other.tiny() if plan.tiny else other).asks if same else ()
            asks += [ask for ask in asked if getattr(ask, "what", None) not in named]
    return tuple(asks)


def asked_for(experiment: Experiment, options: Options) -> Experiment:
    """Return the experiment with the questions that are wanted, set as they are wanted."""
    asks = chosen_asks(experiment.asks, options.what)
    if options.samples is not None:
        if options.samples < 1:
            raise ValueError(f"--samples is at least 1; got {options.samples}")
        asks = with_setting(asks, "samples", options.samples)
    if options.objects is not None:
        asks = with_setting(asks, "objects", options.objects)
    return replace(with_steps(experiment, options.steps), asks=asks)


def with_steps(experiment: Experiment, steps: int | None) -> Experiment:
    """Return the experiment with another number of sampler steps, where one is given."""
    if steps is None:
        return experiment
    return replace(experiment, sampler=replace(experiment.sampler, steps=steps))


def chosen_asks(asks: Sequence[Ask], what: str | None) -> tuple[Ask, ...]:
    """Return the questions of this name, or all; an unknown name is answered with those known."""
    if what is None:
        return tuple(asks)
    named = [getattr(ask, "what", None) for ask in asks]
    known = [name for name in dict.fromkeys(named) if name]
    if what not in known:
        if not known:
            raise ValueError(
                f"there is no question {what!r} here; plain measure asks all there are"
            )
        raise ValueError(
            f"question {what!r} is not one of {', '.join(known)}{nearest(what, known)}"
        )
    return tuple(ask for ask, name in zip(asks, named, strict=True) if name == what)


def with_setting(asks: Sequence[Any], field: str, value: Any) -> tuple[Ask, ...]:
    """Return the questions with a field set where they have it; one of them must."""
    having = [field in {each.name for each in fields(ask)} for ask in asks]
    if not any(having):
        raise ValueError(f"these questions have no {field} to set; got {value}")
    pairs = zip(asks, having, strict=True)
    return tuple(replace(ask, **{field: value}) if has else ask for ask, has in pairs)


def subject_of(subject: str, path: Path) -> str:
    """Return what was measured: shipped weights by name, others by their file."""
    return subject if subject.startswith(ZOO) else str(path)


def chosen_checkpoint(subject: str, seed: int, out: Path) -> Path:
    """Return the file that is meant."""
    if subject.startswith(ZOO):
        return zoo.path(subject.removeprefix(ZOO))
    place = Path(subject)
    if place.is_file():
        return place
    if not place.exists() and (len(place.parts) > 1 or place.suffix):
        raise ValueError(
            f"{place} is not there; expected zoo:NAME, an experiment, a run's folder or a file"
        )
    if not place.is_dir():
        name, variant = chosen_variants(subject)[0]
        place = out / name / variant / f"seed{seed}"
    found = checkpoints(place) if place.is_dir() else []
    if not found:
        raise ValueError(f"{place} has no checkpoint; expected the folder of a run")
    return found[0]


def plan_of(path: Path) -> Plan:
    """Return the run that a checkpoint is from, as it is declared today."""
    facts = Checkpoint.load(path).facts
    name, variant = chosen_variants(f"{facts['name']}:{facts['variant']}")[0]
    return seeded(name, variant, [facts["seed"]], facts["tiny"], facts["overrides"])[0]
