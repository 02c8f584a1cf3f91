"""Results as one table: a row a number, a column for everything that is known of it.

Only this file and what draws or prints tables import pandas: it takes a fifth of a second.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import load_file

from recombine.report.words import listed, nearest
from recombine.results.rows import Results
from recombine.results.store import NAME, files, read

HOME = Path(__file__).parents[3] / "results"
"""The results of the repository; a package that is installed alone has none."""
_BEFORE = ("study", "cell")
_AFTER = (
    *("seed", "step", "measurement", "value", "low", "high", "n", "reader"),
    *("device", "commit", "source"),
)


def records(study: str | None = None, where: Path | str | None = None) -> pd.DataFrame:
    """Return every number on record, a row each, or those of one study.

    Columns are study, cell, one for each axis of the study, seed, step (the x of a curve; nothing
    after training), measurement, value, low, high, n, reader, device, commit and source. `where`
    is a file, or a folder of runs; without it, the results of the repository are read.
    """
    return table(_read(study, where))


def runs(study: str | None = None, where: Path | str | None = None) -> pd.DataFrame:
    """Return every run on record: where, by what command and how long it ran, and its notes."""
    found = [each.origin for each in _read(study, where)]
    kept = ("study", "cell", "seed", "device", "seconds", "command", "commit", "source", "notes")
    return pd.DataFrame([{name: getattr(each, name) for name in kept} for each in found])


def arrays(study: str, where: Path | str | None = None) -> dict[str, np.ndarray]:
    """Return the arrays beside the rows of a study, by run and name: grid_all/seed0/heat_map."""
    place = _place(where)
    found = [place / "arrays" / f"{study}.safetensors"]
    if not found[0].exists():
        inside = [place] if place.is_file() else place.rglob(NAME)
        mine = (path for path in inside if study in {each.origin.study for each in read(path)})
        found = [each for path in mine if (each := path.with_suffix(".safetensors")).exists()]
    return {name: array for each in sorted(found) for name, array in load_file(each).items()}


def table(found: Iterable[Results]) -> pd.DataFrame:
    """Return the rows of runs as one table."""
    every = list(found)
    axes = list(dict.fromkeys(axis for each in every for axis in each.origin.levels))
    if taken := sorted({*axes} & {*_BEFORE, *_AFTER}):
        raise ValueError(f"an axis cannot be called {', '.join(taken)}: results have such a column")
    columns: dict[str, list[Any]] = {name: [] for name in (*_BEFORE, *axes, *_AFTER)}
    for each in every:
        for name in (*_BEFORE, "seed", "device", "commit", "source"):
            columns[name] += [getattr(each.origin, name)] * len(each.rows)
        for axis in axes:
            columns[axis] += [each.origin.levels.get(axis, "")] * len(each.rows)
        for name in ("step", "measurement", "value", "low", "high", "n", "reader"):
            columns[name] += [getattr(row, name) for row in each.rows]
    kinds = {name: "float64" for name in ("step", "value", "low", "high")} | {"n": "Int64"}
    return pd.DataFrame(columns).astype(kinds)


def _place(where: Path | str | None) -> Path:
    place = HOME if where is None else Path(where)
    if place.exists():
        return place
    if where is None:
        raise ValueError(f"results are not installed with the package; {place} is not there")
    raise ValueError(f"{place} is not there; expected a file of results or a folder of them")


def _read(study: str | None, where: Path | str | None) -> list[Results]:
    place = _place(where)
    known = files(place) if place.is_dir() else [place]
    # In the repository a file is named after its study, so that others need not be read.
    named = [each for each in known if study is not None and each.stem == study]
    found = [each for path in named or known for each in read(path)]
    mine = [each for each in found if study in (None, each.origin.study)]
    if study is not None and not mine:
        studies = list(dict.fromkeys(each.origin.study for each in found))
        words = f"{study!r} has no results in {place}; expected one of {listed(studies)}"
        raise ValueError(words + nearest(study, studies))
    return mine
