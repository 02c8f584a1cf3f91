"""`recombine list`: what there is to choose from."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from recombine.commands import index
from recombine.commands.console import print_json
from recombine.commands.index import Index, ListedStudy, ListedWorld
from recombine.report.words import nearest

RESULTS = "results.csv"


@dataclass(frozen=True)
class ListOptions:
    """Show worlds, studies and shipped weights; of one study, its axes and its cells.

    Example: recombine list length
    """

    study: Annotated[
        str | None, tyro.conf.Positional, tyro.conf.arg(metavar="STUDY", help_behavior_hint="")
    ] = None
    """A study, to show its axes and its cells, and which of them you have run."""
    out: Path = Path("runs")
    """Folder of your runs."""
    json: bool = False
    """Print one JSON object and nothing else."""


OPTIONS = ListOptions


def run(options: ListOptions) -> None:
    """Print everything there is, or one study."""
    known = index.read()
    if options.study is not None:
        names = list(known.studies)
        if options.study not in names:
            meant = nearest(options.study, names)
            raise ValueError(f"study {options.study!r} is not one of {', '.join(names)}{meant}")
        show_study(options.study, known.studies[options.study], options)
    elif options.json:
        print_json(asdict(known))
    else:
        show_all(known)


def show_all(known: Index) -> None:
    """Print a table of worlds, one of studies, one of weights."""
    table = Table("world", "image", "factors", title="Worlds", title_justify="left")
    for name, world in known.worlds.items():
        table.add_row(name, f"{world.size} px", factors_in_words(world, "\n"))
    Console().print(table)
    head = ("study", "question", "axes", "cells", "cost")
    table = Table(
        *head, title="Studies (recombine list STUDY shows the cells)", title_justify="left"
    )
    for name, each in known.studies.items():
        table.add_row(name, each.question, ", ".join(each.axes), str(len(each.cells)), each.cost)
    Console().print(table)
    table = Table("weights", "trained by", title="Shipped weights", title_justify="left")
    for name, command in known.zoo.items():
        table.add_row(f"zoo:{name}", command)
    Console().print(table)


def show_study(name: str, study: ListedStudy, options: ListOptions) -> None:
    """Print the axes of a study with what each level says, and its cells, run or not."""
    done = {key: seeds_run(options.out, name, key) for key in study.cells}
    if options.json:
        print_json({"study": name, **asdict(study), "seeds_run": done})
        return
    console = Console()
    console.print(f"{name}: {study.question}\n{study.cost}", highlight=False)
    for axis, levels in study.axes.items():
        table = Table(axis, "says", title_justify="left")
        for level, says in levels.items():
            table.add_row(level, says)
        console.print(table)
    table = Table("cell", *study.axes, f"seeds in {options.out}", title_justify="left")
    for key, levels in study.cells.items():
        seeds = ", ".join(map(str, done[key]))
        table.add_row(f"{name}:{key}", *(levels[axis] for axis in study.axes), seeds)
    console.print(table)


def seeds_run(out: Path, name: str, key: str) -> list[int]:
    """Return the seeds of which a cell has results; cells that share a training lie below it."""
    found = [
        *out.glob(f"{name}/{key}/seed*/{RESULTS}"),
        *out.glob(f"{name}/*/seed*/{key}/{RESULTS}"),
    ]
    folders = [next(part for part in path.parts[::-1] if part.startswith("seed")) for path in found]
    return sorted(int(folder.removeprefix("seed")) for folder in folders)


def factors_in_words(world: ListedWorld, between: str) -> str:
    """Return the factors with their concepts: "shape (cube, sphere); colour (red, blue)"."""
    return between.join(f"{name} ({', '.join(each)})" for name, each in world.factors.items())
