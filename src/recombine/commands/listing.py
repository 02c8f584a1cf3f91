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
from recombine.report.words import listed, nearest

RESULTS = "results.csv"


@dataclass(frozen=True)
class ListOptions:
    """Show worlds, studies and shipped weights, or one of these; of a study its axes and cells.

    A study is one of ours or a file of yours.

    Example: recombine list length
    """

    what: Annotated[
        str | None, tyro.conf.Positional, tyro.conf.arg(metavar="WHAT", help_behavior_hint="")
    ] = None
    """worlds, studies or zoo; or a study, to show its axes, its cells, and which you have run."""
    out: Path = Path("runs")
    """Folder of your runs."""
    json: Json = False


def run(options: ListOptions) -> None:
    """Print everything there is, or one study."""
    known = index.read()
    if options.what is None or options.what in known:
        shown = [*known] if options.what is None else [options.what]
        if options.json:
            return print_json("list", {}, **{name: known[name] for name in shown})
        return show(known, shown)
    name, key = own.parted(options.what)
    study = own_study(name) if own.is_own(name) else known["studies"].get(name)
    if study is None:
        names = [*known, *known["studies"]]
        meant = nearest(name, names)
        raise ValueError(f"{name!r} is not one of {', '.join(names)}{meant}")
    return show_study(name, one_cell(name, study, key) if key else study, options)


def own_study(path: str) -> dict[str, Any]:
    """Return what is listed of the study that a file declares."""
    from recombine import studies  # here, as it imports torch

    return index.listed_study(studies.load(path))


def one_cell(name: str, study: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the study with one of its cells, or say which there are."""
    cells = study["cells"]
    if key not in cells:
        known = f"{listed(cells)}{nearest(key, list(cells))}"
        raise ValueError(f"cell {key!r} of {name} is not one of {known}")
    return {**study, "cells": {key: cells[key]}}


def show(known: Mapping[str, Any], shown: Sequence[str]) -> None:
    """Print a table of worlds, one of studies, one of weights, or those of them that are wanted."""
    worlds = [
        (name, f"{world['size']} px", factors_in_words(world["factors"], "\n"))
        for name, world in known["worlds"].items()
    ]
    studies = [
        (name, each["question"], ", ".join(each["axes"]), str(len(each["cells"])), each["cost"])
        for name, each in known["studies"].items()
    ]
    weights = [(f"zoo:{name}", command) for name, command in known["zoo"].items()]
    head = ("study", "question", "axes", "cells", "cost")
    tables: dict[str, tuple[Sequence[str], list[Any], str]] = {
        "worlds": (("world", "image", "factors"), worlds, "Worlds"),
        "studies": (head, studies, "Studies (recombine list STUDY shows the cells)"),
        "zoo": (("weights", "trained by"), weights, "Shipped weights"),
    }
    for name in shown:
        show_table(*tables[name])


def show_study(name: str, study: Mapping[str, Any], options: ListOptions) -> None:
    """Print the axes of a study with what each level says, and its cells, run or not."""
    axes, cells = study["axes"], study["cells"]
    folder = own.folder_of(name)
    done = {key: seeds_run(options.out, folder, key) for key in cells}
    if options.json:
        print_json("list", {}, study=name, **study, seeds_run=done)
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
