"""`recombine list`: what there is to choose from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from recombine import own
from recombine.commands import index
from recombine.commands.console import print_json, show_table
from recombine.commands.grammar import Json
from recombine.report.words import nearest

RESULTS = "results.csv"


@dataclass(frozen=True)
class ListOptions:
    """Show worlds, studies and shipped weights; of one study, or a file of yours, axes and cells.

    Example: recombine list length
    """

    study: Annotated[
        str | None,
        tyro.conf.Positional,
        tyro.conf.arg(metavar="STUDY[:CELL]", help_behavior_hint=""),
    ] = None
    """A study, to show its axes and its cells, and which of them you have run."""
    out: Path = Path("runs")
    """Folder of your runs."""
    json: Json = False


def run(options: ListOptions) -> None:
    """Print everything there is, or one study."""
    known = index.read()
    if options.study is not None:
        name, key = own.parted(options.study)
        study = own_study(name) if own.is_own(name) else known["studies"].get(name)
        if study is None:
            names = list(known["studies"])
            meant = nearest(name, names)
            raise ValueError(f"study {name!r} is not one of {', '.join(names)}{meant}")
        show_study(name, one_cell(name, study, key) if key else study, options)
    elif options.json:
        print_json(known)
    else:
        show_all(known)


def own_study(path: str) -> dict[str, Any]:
    """Return what is listed of the study that a file declares."""
    from recombine import studies  # here, as it imports torch

    return index.listed_study(studies.load(path))


def one_cell(name: str, study: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the study with one of its cells, or say which there are."""
    cells = study["cells"]
    if key not in cells:
        known = f"{', '.join(cells)}{nearest(key, list(cells))}"
        raise ValueError(f"cell {key!r} of {name} is not one of {known}")
    return {**study, "cells": {key: cells[key]}}


def show_all(known: Mapping[str, Any]) -> None:
    """Print a table of worlds, one of studies, one of weights."""
    worlds = [
        (name, f"{world['size']} px", factors_in_words(world["factors"], "\n"))
        for name, world in known["worlds"].items()
    ]
    studies = [
        (name, each["question"], ", ".join(each["axes"]), str(len(each["cells"])), each["cost"])
        for name, each in known["studies"].items()
    ]
    weights = [(f"zoo:{name}", command) for name, command in known["zoo"].items()]
    show_table(("world", "image", "factors"), worlds, "Worlds")
    head = ("study", "question", "axes", "cells", "cost")
    show_table(head, studies, "Studies (recombine list STUDY shows the cells)")
    show_table(("weights", "trained by"), weights, "Shipped weights")


def show_study(name: str, study: Mapping[str, Any], options: ListOptions) -> None:
    """Print the axes of a study with what each level says, and its cells, run or not."""
    axes, cells = study["axes"], study["cells"]
    folder = own.folder_of(name)
    done = {key: seeds_run(options.out, folder, key) for key in cells}
    if options.json:
        print_json({"study": name, **study, "seeds_run": done})
        return
    print(f"{name}: {study['question']}\n{study['cost']}")
    for axis, levels in axes.items():
        show_table((axis, "says"), levels.items())
    rows = [
        (f"{name}:{key}", *(levels[axis] for axis in axes), ", ".join(map(str, done[key])))
        for key, levels in cells.items()
    ]
    show_table(("cell", *axes, f"seeds in {options.out}"), rows)


def seeds_run(out: Path, name: str, key: str) -> list[int]:
    """Return the seeds of which a cell has results; cells that share a training lie below it."""
    found = [
        *out.glob(f"{name}/{key}/seed*/{RESULTS}"),
        *out.glob(f"{name}/*/seed*/{key}/{RESULTS}"),
    ]
    folders = [next(part for part in path.parts[::-1] if part.startswith("seed")) for path in found]
    return sorted(int(folder.removeprefix("seed")) for folder in folders)


def factors_in_words(factors: Mapping[str, Sequence[str]], between: str) -> str:
    """Return the factors with their concepts: "shape (cube, sphere); colour (red, blue)"."""
    return between.join(f"{name} ({', '.join(each)})" for name, each in factors.items())
