"""`recombine run`: train or go on training, measure, and keep the results."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.progress import Progress

from recombine import run as runner
from recombine import studies
from recombine.commands import choice, console
from recombine.commands.console import print_json, say
from recombine.commands.grammar import UNSET, Device, Json, Names
from recombine.commands.parse import overridden
from recombine.figures import draw
from recombine.report.files import naming
from recombine.report.table import duration, quoted
from recombine.run import Kept, Plan, estimate, needs
from recombine.study import Cell

FAILED, INTERRUPTED = 1, 130
A_DAY = 86_400
"""Seconds of training on a CPU from which on it takes --yes."""


@dataclass(frozen=True)
class RunOptions:
    """Train, measure and keep the results in runs/STUDY/CELL/seedK.

    The same command again goes on where it stopped. STUDY alone is all its cells; a study of yours
    is named by its file (my_study.py; recombine new study writes one). Further options change
    fields of the training's budget (--steps 500, --learning-rate 3e-4, ...), or of what is
    computed (recombine run swing_by:base --means 1,3); recombine list STUDY names the cells.

    Example: recombine run toy --seeds 0-2 --tiny
    """

    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="STUDY[:CELL]")]
    """What to run (see recombine list)."""
    tiny: bool = False
    """Shrink to seconds: does it run at all?"""
    seeds: Annotated[tuple[int, ...] | None, UNSET] = None
    """Which seeds: 0-2 or 0,3,5 (default: those of the cell)."""
    seed: Annotated[int | None, UNSET] = None
    """One seed."""
    device: Device = None
    out: Path = Path("runs")
    """Folder for the runs."""
    save_every: int = 1000
    """Steps between checkpoints."""
    eager: bool = False
    """Do not compile on a GPU."""
    together: int = 1
    """Train so many runs at once: small networks leave a GPU idle.

    Runs that differ in no more than world, seed and learning rate are stacked: they take each step
    as one, and their numbers are those of runs alone up to rounding. Others take turns.
    """
    log: Annotated[Names, UNSET] = ()
    """Also report to csv (log.csv of the run), tensorboard, trackio or wandb, or to several."""
    yes: bool = False
    """Train even if it takes a day or more on a CPU, or if the tokenizer loses some images."""
    json: Json = False


def run(options: RunOptions, words: Sequence[str] = ()) -> int:
    """Run every cell with every seed, and draw the figures."""
    plans = planned(options, words)
    trained = [plan for plan in plans if isinstance(plan.declared, Cell)]
    say_how_long(trained, options)
    done: list[tuple[Plan, Kept]] = []
    try:
        for plan in plans:
            if plan not in trained:
                done.append((plan, computed(plan, options)))
                announce(*done[-1], options.out)
        if trained:
            done += train(trained, options)
    except (runner.Interrupted, runner.Diverged) as stop:
        say(f"recombine: {stop}")
        return INTERRUPTED if isinstance(stop, runner.Interrupted) else FAILED
    drawn = figures(done, options.out)
    if options.json and done:
        runs = [described(*each) for each in done]
        (plan, kept), one = done[0], len(done) == 1
        measured = kept.measurements if one else {}
        kinds = ("seed", "note") if one else ()
        others = {name: runs[0][name] for name in kinds if name in runs[0]}
        others |= {} if one else {"runs": runs}
        print_json(plan.name if one else "run", measured, **others, figures=drawn)
    return 0


def train(plans: Sequence[Plan], options: RunOptions) -> list[tuple[Plan, Kept]]:
    """Train and measure, so many at once; print what came out of each."""
    done: list[tuple[Plan, Kept]] = []
    accelerator = runner.machine(choice.chosen_device(options.device))
    kept_as, log = (options.out, options.save_every, not options.eager), options.log
    try:
        alone = accelerator.num_processes == 1
        for group in runner.groups(plans, options.together, stacked=alone):
            with console.bar(hidden=not accelerator.is_main_process) as bar:
                settings = [runner.Settings(*kept_as, watching(plan, bar), log) for plan in group]
                found = runner.together(group, accelerator, settings)
            for plan, kept in zip(group, found, strict=True):
                if kept:
                    done.append((plan, kept))
                    announce(plan, kept, options.out)
    finally:
        accelerator.end_training()
    return done


def computed(plan: Plan, options: RunOptions) -> Kept:
    """Compute one cell, with a bar of its parts."""
    with console.bar() as bar:
        task = bar.add_task(plan.name, total=None, speed="")

        def watch(done: int, of: int) -> None:
            bar.update(task, completed=done, total=of)

        device = choice.chosen_device(options.device)
        return runner.compute(plan, device, options.out, watch, options.log)


def say_how_long(plans: Sequence[Plan], options: RunOptions) -> None:
    """Say how long the training would take on a CPU; refuse a day or more without --yes."""
    if options.tiny or choice.chosen_device(options.device).type != "cpu":
        return
    if not (expected := estimate.seconds(plans, options.out)):
        return
    says = f"the training takes about {duration(expected)} on this CPU"
    if expected >= A_DAY and not options.yes:
        words = "add --yes to start it all the same, or use a GPU, --tiny or fewer --steps"
        raise ValueError(f"{says}: {words}")
    say(f"{says}, without the measurements")


def planned(options: RunOptions, words: Sequence[str] = ()) -> list[Plan]:
    """Return one plan per cell and seed; what cannot be run is said before anything starts."""
    if not options.names:
        raise ValueError("name a study to run (see recombine list)")
    if options.seeds is not None and options.seed is not None:
        raise ValueError("--seed and --seeds exclude each other; got both")
    if options.together < 1:
        raise ValueError(f"at least 1 run is trained at once; got --together {options.together}")
    seeds = (options.seed,) if options.seed is not None else options.seeds
    plans = [
        plan
        for text in options.names
        for study, key in studies.chosen(text)
        for plan in seeded(study, key, seeds, options.tiny, words)
    ]
    needs.check(plans)
    try:
        needs.check_ceiling(plans)
    except ValueError as error:
        if not (options.yes or options.tiny):
            raise ValueError(f"{error}; --yes trains all the same") from error
        say(f"warning: {error}")
    for plan in plans:
        if isinstance(plan.declared, Cell):
            warn_of_change(plan, options.out)
    runner.Settings(options.out, options.save_every, log=options.log)  # refuses what is wrong
    return plans


def warn_of_change(plan: Plan, out: Path) -> None:
    """Say when the file of a user's study is not as it was when the run began."""
    described = plan.folder(out) / "training.json"
    if plan.file is not None and described.exists():
        with naming(described):
            if remark := plan.remarked(json.loads(described.read_text())).remark:
                say(remark)


def seeded(
    name: str, key: str, seeds: Sequence[int] | None, tiny: bool, words: Sequence[str]
) -> list[Plan]:
    """Return the plans of one cell; without seeds, with those it declares."""
    study = studies.load(name)
    cell = study.cells[key].tiny() if tiny else study.cells[key]
    value: Any = cell.training.budget if isinstance(cell, Cell) else cell
    changed = overridden(value, words, f"recombine run {name}:{key}")
    pairs = {each.name: getattr(changed, each.name) for each in fields(value)}
    changes = {name: new for name, new in pairs.items() if new != getattr(value, name)}
    chosen = seeds or (cell.seeds if isinstance(cell, Cell) else (0,))
    return [runner.planned(name, study, key, seed, tiny, changes) for seed in chosen]


def watching(plan: Plan, bar: Progress) -> runner.Watch:
    """Add a bar for a run, and return what shows its images per second, loss and time left."""
    budget = plan.trained.training.budget
    task = bar.add_task(f"{plan.name} seed {plan.seed}", total=budget.steps, speed="")
    before: list[tuple[int, float]] = []

    def watch(step: int, loss: float) -> None:
        now = time.perf_counter()
        at, since = before[-1] if before else (step, now)
        before[:] = [(step, now)]
        speed = (step - at) * budget.batch / (now - since) if now > since else 0
        bar.update(task, completed=step, speed=f"{speed:,.0f} images/s, loss {loss:.4f}")

    return watch


def announce(plan: Plan, kept: Kept, out: Path) -> None:
    """Say what came out and where the results are."""
    study = studies.load(plan.source)
    # Tiny runs measure too little for some numbers.
    shown = [name for name in study.headline if name in kept.measurements]
    answers = "; ".join(f"{name} {quoted(kept.measurements[name])}" for name in shown)
    tiny = " (tiny: it shows that it runs, and is no result)" * plan.tiny
    say(f"{plan.name} seed {plan.seed}{tiny}: {answers}")
    if study.note:
        say(f"  note: {study.note}")
    say(f"  {duration(kept.seconds)} on {kept.device}; {plan.folder(out)}")
    for text in kept.alarms:
        say(f"  alarm: {text}")


def figures(done: Sequence[tuple[Plan, Kept]], out: Path) -> list[str]:
    """Draw the figure of each study that has one from the runs under `out`; say where it is."""
    drawn = []
    for name, tiny in dict.fromkeys((plan.study, plan.tiny) for plan, _ in done):
        # A tiny run must not draw over a real one.
        path = out / name / f"{name}{'-tiny' * tiny}.svg"
        if draw(name, [kept.path for plan, kept in done if plan.study == name], path):
            say(f"figure: {path}")
            drawn.append(str(path))
    return drawn


def described(plan: Plan, kept: Kept) -> dict[str, Any]:
    """Return what JSON has of a run."""
    values = {name: asdict(each) for name, each in kept.measurements.items()}
    note = studies.load(plan.source).note
    said = {"subject": plan.name, "seed": plan.seed, "measurements": values}
    return {**said, "note": note} if note else said
