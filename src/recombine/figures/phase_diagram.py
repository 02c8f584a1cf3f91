"""Figure: Swing-by lives where rows start alike, dimensions are few and layers are many.

Reads the record of experiments/swing_by_phase_diagram.py: a panel per depth (down) and dimension
(across); colour is the share of starts whose error at the test point rises by 1 % or more.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recombine.report.record import Record

_RATIO, _CORRELATION, _DIMENSIONS, _DEPTH, _SHARE = range(5)


def draw(records: Sequence[Record]) -> Figure:
    """Draw the diagram of the first record that has one."""
    cells = next((each.curves["cells"] for each in records if "cells" in each.curves), [])
    depths, dimensions = (_values(cells, at) or [0] for at in (_DEPTH, _DIMENSIONS))
    size = (1.2 + 2.3 * len(dimensions), 0.8 + 2.0 * len(depths))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(depths), len(dimensions), squeeze=False)
    drawn: Any = None
    for row, depth in zip(panels, depths, strict=True):
        for axes, width in zip(row, dimensions, strict=True):
            mine = [each for each in cells if (each[_DIMENSIONS], each[_DEPTH]) == (width, depth)]
            drawn = _panel(axes, mine) if mine else drawn
            axes.set_title(f"{depth:g} layers, {width:g} dimensions", fontsize=8, loc="left")
    if drawn is not None:
        bar = figure.colorbar(drawn, ax=panels.ravel().tolist(), shrink=0.8)
        bar.set_label("share of starts whose error rises by 1 %", fontsize=8)
    return figure


def _panel(axes: Axes, cells: list[list[float]]) -> Any:
    across, up = _values(cells, _RATIO), _values(cells, _CORRELATION)
    share = [[_share(cells, ratio, each) for ratio in across] for each in up]
    drawn = axes.imshow(share, origin="lower", vmin=0, vmax=1, cmap="viridis", aspect="auto")
    axes.set_xticks(range(len(across)), [f"{each:g}" for each in across], fontsize=7)
    axes.set_yticks(range(len(up)), [f"{each:g}" for each in up], fontsize=7)
    axes.set_xlabel("mean ratio", fontsize=7)
    axes.set_ylabel("correlation of rows", fontsize=7)
    return drawn


def _share(cells: list[list[float]], ratio: float, correlation: float) -> float:
    return next(each[_SHARE] for each in cells if each[:2] == [ratio, correlation])


def _values(cells: list[list[float]], at: int) -> list[float]:
    return sorted({each[at] for each in cells})
