"""Figure: trained networks learn the stronger concept first; few of them swing by.

Twelve cells of the study swing_by_networks, all without a ReLU: the outputs of up to ten networks
at the test point over training, and above each panel the share of all networks whose loss at the
test point rises by more than 1 %.
"""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from recombine.figures import plain
from recombine.report.queries import finals
from recombine.report.seeds import summarised

COLUMNS, PANELS = 4, 12
NETWORKS = {
    "one_layer": "one layer",
    "two_layers": "two layers",
    "four_layers": "four layers",
    "three_narrow": "three narrow layers",
    "four_narrow": "four narrow layers",
}
DATA = {
    "means_1_2": "means 1 and 2",
    "means_2_2": "means 2 and 2",
    "means_3_2": "means 3 and 2",
    "means_2_4": "means 2 and 4",
}
_TRACK: dict[str, Any] = {"color": "#0072B2", "linewidth": 0.8, "alpha": 0.6}
_CLUSTER: dict[str, Any] = {"color": "0.5", "marker": "o", "markersize": 4, "linestyle": "none"}
_TEST: dict[str, Any] = {"color": "black", "marker": "x", "markersize": 6, "linestyle": "none"}


def draw(table: pd.DataFrame, arrays: Mapping[str, np.ndarray]) -> Figure:
    """Draw a panel per cell, architecture after architecture."""
    kept = {name.partition("/")[0]: name for name in arrays if name.endswith("/tracks")}
    usual = table[(table["convention"] == "authors") & (table["near"] == "kept")]
    cells = usual.drop_duplicates("cell").set_index(["network", "data"])["cell"].to_dict()
    places = [place for place in product(NETWORKS, DATA) if cells.get(place) in kept]
    shown = places[:PANELS]
    rows = max(-(-len(shown) // COLUMNS), 1)
    figure = Figure(figsize=(2.6 * COLUMNS, 2.6 * rows + 0.5), layout="constrained")
    panels = list(figure.subplots(rows, COLUMNS, squeeze=False).flat)
    for axes, (network, data) in zip(panels, shown, strict=False):
        cell = cells[network, data]
        share = _panel(axes, table[table["cell"] == cell], arrays[kept[cell]])
        title = f"{NETWORKS[network]}, {DATA[data]}\n{share:.0%} rise"
        axes.set_title(title, loc="left", fontsize=8.5)
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    marks = {"a network": _TRACK, "training clusters": _CLUSTER, "test point": _TEST}
    handles = [Line2D([], [], label=label, **style) for label, style in marks.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    figure.supxlabel("output for the first concept", fontsize=9)
    figure.supylabel("output for the last concept", fontsize=9)
    return figure


def _panel(axes: Axes, rows: pd.DataFrame, tracks: np.ndarray) -> float:
    """Draw the networks of a cell, and return the share of them whose loss rises."""
    for track in tracks:
        axes.plot(track[:, 1], track[:, 2], **_TRACK)
    target = rows[rows["measurement"] == "target"].sort_values("step")["value"].tolist()
    axes.plot([target[0], 0], [0, target[-1]], **_CLUSTER)
    axes.plot(target[0], target[-1], **_TEST)
    plain(axes)
    final = finals(rows)
    return summarised(final[final["measurement"] == "bump_share"]).value
