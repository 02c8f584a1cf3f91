"""Figures: one file each, `draw(records) -> Figure`; they read records and compute nothing."""

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from typing import TypeAlias

from matplotlib.figure import Figure

from recombine.report.record import Record

Draw: TypeAlias = Callable[[Sequence[Record]], Figure]


def figures() -> dict[str, Draw]:
    """Return how to draw each figure, by the name of its file, which is its experiment's."""
    return {
        name: importlib.import_module(f"{__name__}.{name}").draw
        for _, name, _ in pkgutil.iter_modules(__path__)
    }
