"""`recombine run`: train or go on training, measure, and write a record."""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import tyro
from rich.progress import Progress

from recombine import run as runner
from recombine import views
from recombine.commands import choice, console
from recombine.commands.console import print_json, say
from recombine.commands.parse import UNSET
from recombine.compute import Calculation
from recombine.experiment import Experiment, Plan
from recombine.experiments import declared
from recombine.figures import figures
from recombine.report.record import Record
from recombine.report.table import duration, quoted
from recombine.report.words import nearest

FAILED, INTERRUPTED = 1, 130
OVERRIDES = ("steps", "batch", "learning_rate", "warm_up", "ema", "clip", "weight_decay")

Planned: TypeAlias = Plan | Calculation


@dataclass(frozen=True)
class Options:
    """Train, measure and write runs/EXPERIMENT/VARIANT/seedK/record.json.

    The same command again goes on where it stopped. EXPERIMENT alone is its first variant,
    EXPERIMENT:all is every one.

    Example: recombine run denoise_toy:all --seeds 0-2 --tiny
    """

    names: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="EXPERIMENT[:VARIANT]")
    ]
    """What to run (see recombine list)."""
    tiny: bool = False
    """Shrink to seconds: does it run at all?"""
    seeds: Annotated[str | None, UNSET] = None
    """Which seeds: 0-2 or 0,3,5 (default: those of the experiment)."""
    seed: Annotated[int | None, UNSET] = None
    """One seed."""
    device: Annotated[str | None, UNSET] = None
    """Where to run: cpu, cuda, cuda:1 (default: the accelerator if there is one)."""
    out: Path = Path("runs")
    """Folder for the runs."""
    steps: Annotated[int | None, UNSET] = None
    """Train for this many steps (default of this and the next six: the experiment's budget)."""
    batch: Annotated[int | None, UNSET] = None
    """Images per step, over all processes."""
    learning_rate: Annotated[float | None, UNSET] = None
    """The highest learning rate."""
    warm_up: Annotated[int | None, UNSET] = None
    """Steps until the learning rate is highest."""
    ema: Annotated[float | None, UNSET] = None
    """Share of the averaged weights that a step keeps."""
    clip: Annotated[float | None, UNSET] = None
    """The longest gradient."""
    weight_decay: Annotated[float | None, UNSET] = None
    """What a step takes of every weight, times its learning rate."""
    save_every: int = 1000
    """Steps between checkpoints."""
    eager: bool = False
    """Do not compile on a GPU."""
    together: int = 1
    """Train so many runs at once, a step of each in turn: small networks leave a GPU idle."""
    json: bool = False
    """Print one JSON object and nothing else on standard output."""


def run(options: Options) -> int:
    """Run every variant with every seed, and draw the figures."""
    plans = planned(options)
    accelerator = runner.machine(choice.chosen_device(options.device))
    records: list[tuple[Plan, Record]] = []
    try:
        for at in range(0, len(plans), options.together):
            group = plans[at : at + options.together]
            with progress(group, quiet=not accelerator.is_main_process) as watches:
                settings = [
                    runner.Settings(options.out, options.save_every, not options.eager, watch)
                    for watch in watches
                ]
                found = runner.together(group, accelerator, settings)
            for plan, record in zip(group, found, strict=True):
                if record:
                    records.append((plan, record))
                    announce(plan, record, options.out)
    except runner.Interrupted as stop:
        say(f"recombine: {stop}")
        return INTERRUPTED
    except runner.Diverged as error:
        say(f"recombine: {error}")
        return FAILED
    finally:
        accelerator.end_training()
    drawn = draw(records, options.out)
    if options.json and records:
        runs = [described(*each) for each in records]
        print_json({**(runs[0] if len(runs) == 1 else {"runs": runs}), "figures": drawn})
    return 0


def planned(options: Options) -> list[Plan]:
    """Return one plan per variant and seed."""
    if not options.names:
        raise ValueError("name an experiment to run (see recombine list)")
    if options.seeds is not None and options.seed is not None:
        raise ValueError(f"--seed {options.seed} and --seeds {options.seeds} exclude each other")
    if not 1 <= options.together <= runner.AT_ONCE:
        most, got = runner.AT_ONCE, options.together
        raise ValueError(f"1 to {most} runs are trained at once; got --together {got}")
    given = {name: getattr(options, name) for name in OVERRIDES}
    overrides = {name: value for name, value in given.items() if value is not None}
    seeds = (options.seed,) if options.seed is not None else chosen_seeds(options.seeds)
    plans = [
        plan
        for text in options.names
        for name, variant in chosen_variants(text)
        for plan in seeded(name, variant, seeds, options.tiny, overrides)
    ]
    for plan in plans:
        views.check(plan.experiment.view)
    return plans


def seeded(
    name: str, variant: str, seeds: Sequence[int], tiny: bool, overrides: dict[str, Any]
) -> list[Plan]:
    """Return the plans of one variant; without seeds, with those it declares."""
    experiment = declared()[name][variant]
    if not isinstance(experiment, Experiment):
        raise ValueError(f"{name}:{variant} is computed, not trained: it has no steps and weights")
    experiment = experiment.tiny() if tiny else experiment
    budget = experiment.budget
    budget = budget.of_steps(overrides["steps"]) if "steps" in overrides else budget
    experiment = replace(experiment, budget=replace(budget, **overrides))
    chosen = seeds or experiment.seeds
    return [Plan(name, variant, experiment, seed, tiny, overrides) for seed in chosen]


def chosen_variants(text: str) -> list[tuple[str, str]]:
    """Read "denoise_toy", "denoise_toy:base" or "denoise_toy:all"."""
    name, _, variant = text.partition(":")
    known = declared()
    if name not in known:
        names = ", ".join(known)
        raise ValueError(f"experiment {name!r} is not one of {names}{nearest(name, list(known))}")
    variants = list(known[name])
    if variant == "all":
        return [(name, each) for each in variants]
    if variant and variant not in variants:
        listed = ", ".join([*variants, "all"])
        raise ValueError(
            f"variant {variant!r} of {name} is not one of {listed}{nearest(variant, variants)}"
        )
    return [(name, variant or variants[0])]


def chosen_seeds(text: str | None) -> list[int]:
    """Read "0-2" or "0,3,5"."""
    if text is None:
        return []
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part.strip())
        found = range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
        if not found:
            raise ValueError(f"seeds are numbers or ranges, such as 0-2 or 0,3,5; got {text!r}")
        seeds += found
    return list(dict.fromkeys(seeds))


@contextmanager
def progress(plans: Sequence[Plan], quiet: bool) -> Iterator[list[runner.Watch]]:
    """Show a bar for each run with images per second, the loss and the time left."""
    with console.bar(quiet) as bar:
        yield [_watch(plan, bar) for plan in plans]


def _watch(plan: Plan, bar: Progress) -> runner.Watch:
    budget = plan.experiment.budget
    name = f"{plan.name}:{plan.variant} seed {plan.seed}"
    task = bar.add_task(name, total=budget.steps, speed="")
    before: list[tuple[int, float]] = []

    def watch(step: int, loss: float) -> None:
        now = time.perf_counter()
        at, since = before[-1] if before else (step, now)
        before[:] = [(step, now)]
        speed = (step - at) * budget.batch / (now - since) if now > since else 0
        bar.update(task, completed=step, speed=f"{speed:,.0f} images/s, loss {loss:.4f}")

    return watch


def announce(plan: Planned, record: Record, out: Path) -> None:
    """Say what came out and where the record is."""
    answers = "; ".join(f"{name} {quoted(record.measurements[name])}" for name in record.headline)
    where = plan.folder(out) / "record.json"
    say(f"{plan.name}:{plan.variant} seed {plan.seed}: {answers}")
    say(f"  {duration(record.seconds)} on {record.device}; {where}")
    for _, text in record.curves.get("alarms", ()):
        say(f"  alarm: {text}")


def draw(records: Sequence[tuple[Planned, Record]], out: Path) -> list[str]:
    """Draw the figure of each experiment that has one; return where they are."""
    drawn = []
    known = figures()
    for name in dict.fromkeys(plan.name for plan, _ in records):
        if name in known:
            mine = [(plan, record) for plan, record in records if plan.name == name]
            # A tiny run must not draw over a real one.
            path = out / name / f"{name}{'-tiny' * mine[0][0].tiny}.svg"
            known[name]([record for _, record in mine]).savefig(path)
            say(f"figure: {path}")
            drawn.append(str(path))
    return drawn


def described(plan: Planned, record: Record) -> dict[str, Any]:
    """Return what is said of a run in JSON."""
    values = {name: asdict(each) for name, each in record.measurements.items()}
    subject = f"{plan.name}:{plan.variant}"
    return {"subject": subject, "seed": plan.seed, "measurements": values}
