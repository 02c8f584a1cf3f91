"""Small results for tests of tables and figures: runs of the length study with chosen numbers."""

from collections.abc import Mapping, Sequence

import pandas as pd

from recombine.measurement import Measurement
from recombine.results import Origin, Results, Row
from recombine.results.query import table

AXES = {
    "condition": ("grid_all", "grid_one", "list_all", "list_all_slots"),
    "network": ("unet", "local", "global_window", "channels", "large"),
    "objects": ("up_to_3", "one", "up_to_5"),
    "sampling": ("plain", "guided"),
}


def levels(cell: str) -> dict[str, str]:
    """The levels of a cell of the length study."""
    parts = cell.split("-")
    return {axis: next((p for p in parts if p in of), of[0]) for axis, of in AXES.items()}


def a_run(
    cell: str = "grid_all",
    seed: int = 0,
    measured: Mapping[str, Measurement | float] = {},
    curves: Mapping[str, Sequence[Sequence[float]]] = {},
    study: str = "length",
) -> Results:
    """A run with these final numbers, and curves of (step, value)."""
    final = [
        Row(name, each.value, each.low, each.high, each.n)
        if isinstance(each, Measurement)
        else Row(name, each)
        for name, each in measured.items()
    ]
    early = [Row(name, value, step=at) for name, points in curves.items() for at, value in points]
    known = {"levels": levels(cell) if study == "length" else {}, "command": f"run {study}:{cell}"}
    origin = Origin(study, cell, seed, "cpu", seconds=3.0, commit="c", source="s", **known)
    return Results(origin, (*final, *early))


def a_table(*found: Results) -> pd.DataFrame:
    """The table of these runs."""
    return table(found)
