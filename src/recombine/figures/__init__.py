"""Figures: one file each, `draw(records) -> Figure`; they read records and compute nothing."""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TypeAlias

from matplotlib.figure import Figure

from recombine.report.record import Record

# In the figures of the length study hue says what is told (Okabe and Ito's colours), and dashes say
# what else differs.
TOLD_COLOURS = {"grid_all": "#0072B2", "grid_one": "#D55E00", "list_all": "#00875F"}
DASHES = {
    "_local": (5, 1.5),
    "_global_window": (1, 1),
    "_channels": (7, 1.5, 1, 1.5),
    "_anywhere": (2, 1.5),
    "_large": (4, 1, 1, 1, 1, 1),
}

Draw: TypeAlias = Callable[[Sequence[Record]], Figure]


def figures() -> dict[str, Draw]:
    """Return how to draw each figure, by the name of its file, which is its experiment's."""
    return {name: _module(name).draw for _, name, _ in pkgutil.iter_modules(__path__)}


def experiments_of(figure: str) -> tuple[str, ...]:
    """Return the experiments whose records a figure reads: its own and those it names besides."""
    return figure, *getattr(_module(figure), "BESIDES", ())


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{__name__}.{name}")
