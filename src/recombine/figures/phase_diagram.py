"""Figure: Swing-by lives where rows start alike, dimensions are few and layers are many.

Reads the points of the study phase_diagram: a panel per number of layers (down) and of dimensions
(across). Colour is the share of starts whose error at the test point rises by 1 % or more.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_RATIO, _CORRELATION, _DIMENSIONS, _DEPTH, _SHARE = range(5)


def draw(table: pd.DataFrame, arrays: Mapping[str, np.ndarray]) -> Figure:
    """Draw the diagram of the first run; two to four layers, as one layer never swings by."""
    points = next((each for name, each in arrays.items() if name.endswith("/points")), None)
    if points is None:
        return Figure()
    depths = [depth for depth in _values(points, _DEPTH) if depth > 1] or _values(points, _DEPTH)
    dimensions = _values(points, _DIMENSIONS)
    depths, dimensions = depths[:3], dimensions[:4]
    size = (1.2 + 2.3 * len(dimensions), 1.0 + 2.0 * len(depths))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(len(depths), len(dimensions), squeeze=False)
    drawn: Any = None
    for row, depth in zip(panels, depths, strict=True):
        for axes, width in zip(row, dimensions, strict=True):
            mine = points[(points[:, _DIMENSIONS] == width) & (points[:, _DEPTH] == depth)]
            drawn = _panel(axes, mine)
            words = "layer" if depth == 1 else "layers"
            axes.set_title(f"{depth:g} {words}, {width:g} dimensions", fontsize=8, loc="left")
    figure.supxlabel("mean of the strong concept over that of the weak one", fontsize=9)
    figure.supylabel("correlation of the rows of the start", fontsize=9)
    bar = figure.colorbar(drawn, ax=panels.ravel().tolist(), shrink=0.8)
    bar.set_label("share of starts whose error rises by 1 %", fontsize=8)
    return figure


def _panel(axes: Axes, points: np.ndarray) -> Any:
    across, up = _values(points, _RATIO), _values(points, _CORRELATION)
    share = np.full((len(up), len(across)), np.nan)
    for point in points:
        share[up.index(point[_CORRELATION]), across.index(point[_RATIO])] = point[_SHARE]
    drawn = axes.imshow(share, origin="lower", vmin=0, vmax=1, cmap="viridis", aspect="auto")
    axes.set_xticks(range(len(across)), [f"{each:g}" for each in across], fontsize=7)
    axes.set_yticks(range(len(up)), [f"{each:g}" for each in up], fontsize=7)
    return drawn


def _values(points: np.ndarray, at: int) -> list[float]:
    return sorted(set(points[:, at].tolist()))
