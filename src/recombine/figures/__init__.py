"""Figures: one file each, `draw(table, arrays) -> Figure`; they read results and measure nothing.

Two of them show the same models: hue is the network there, the shape of a line or a point the
condition, and words stand for the names of levels.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recombine.report.seeds import Summary, summarised
from recombine.results.query import arrays, table
from recombine.results.store import read

DrawFigure: TypeAlias = Callable[[pd.DataFrame, Mapping[str, np.ndarray]], Figure]

# Hues of Okabe and Ito, which most colour-blind readers tell apart.
HUES = {
    "unet": "#0072B2",
    "local": "#D55E00",
    "global_window": "#CC79A7",
    "channels": "#009E73",
    "large": "#E69F00",
}
CONDITIONS = {
    "grid_all": "grid with all objects",
    "grid_one": "grid with one object at random",
    "list_all": "list of all objects",
    "list_all_slots": "list, objects in any slot",
}
NETWORKS = {
    "unet": "U-Net",
    "local": "local network, windows of 5 x 5 cells",
    "global_window": "the same network, windows of 17 x 17 cells",
    "channels": "U-Net with the grid as an input channel",
    "large": "U-Net with nine times the weights",
}
OBJECTS = {"up_to_3": "1 to 3 objects", "one": "1 object", "up_to_5": "1 to 5 objects"}
MOST = {"up_to_3": 3, "one": 1, "up_to_5": 5}


def names() -> list[str]:
    """Return the figures: the names of their files."""
    return [name for _, name, _ in pkgutil.iter_modules(__path__)]


def drawing(figure: str) -> DrawFigure:
    """Return how to draw a figure."""
    draw: DrawFigure = _module(figure).draw
    return draw


def study_of(figure: str) -> str:
    """Return the study whose results a figure reads: that of its name, or the one it says."""
    return getattr(_module(figure), "STUDY", figure)


def draw(study: str, results: Sequence[Path], file: Path) -> bool:
    """Draw the figure of a study from the results of some runs; return whether it has one."""
    if study not in names():
        return False
    beside = {name: array for path in results for name, array in arrays(study, path).items()}
    found = table(each for path in results for each in read(path))
    drawing(study)(found, beside).savefig(file)
    return True


def plain(axes: Axes) -> None:
    """Remove what a panel does not need."""
    axes.tick_params(labelsize=8, length=3)
    axes.spines[["top", "right"]].set_visible(False)


def key(table: pd.DataFrame, cell: str) -> Mapping[str, Any]:
    """Return the levels of a cell."""
    return table[table["cell"] == cell].iloc[0].to_dict()


def suffixed(table: pd.DataFrame, name: str) -> dict[float, Summary]:
    """Return the mean over seeds of NAME@X, by X."""
    mine = table[table["measurement"].str.startswith(f"{name}@")]
    groups = mine.groupby("measurement", sort=False)
    found = {float(each.partition("@")[2]): summarised(rows) for each, rows in groups}
    return {x: found[x] for x in sorted(found)}


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")
