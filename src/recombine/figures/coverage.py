"""Figure: how well each model draws what it has not seen, over how much it has seen.

Lines are means over replicates, dots single ones; the grey line above is what a tokenizer's
reconstructions of true renders reach, the one below is chance. A panel for each size of networks.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recombine.figures import plain
from recombine.report.queries import finals

# Hues of Okabe and Ito, which most colour-blind readers tell apart.
MODELS = {
    "dit": ("#0072B2", "DiT on code vectors"),
    "dit_kl": ("#56B4E9", "DiT on KL latents"),
    "maskgit_squared": ("#009E73", "MaskGIT, squared error"),
    "maskgit": ("#D55E00", "MaskGIT, cross-entropy"),
    "mar": ("#CC79A7", "MAR"),
    "givt": ("#E69F00", "GIVT"),
}
PANELS = {
    ("middle", "random"): "1.2 M weights, random places",
    ("small", "random"): "0.2 to 0.3 M weights, random places",
    ("small", "fixed"): "0.2 to 0.3 M weights, shapes in the middle",
}
USUAL = {"world": "grid", "auxiliary": "none", "volume": "endless"}
_GREY: dict[str, Any] = {"color": "0.55", "linewidth": 1.0, "zorder": 1}


def draw(table: pd.DataFrame, arrays: Mapping[str, np.ndarray]) -> Figure:
    """Draw accuracy on test compositions over coverage, a line a model."""
    del arrays
    table = finals(table)
    if "coverage" not in table:
        return Figure(figsize=(4.6, 3.9))
    for axis, level in USUAL.items():
        table = table[table[axis] == level]
    parts = {
        title: table[(table["size"] == size) & (table["position"] == position)]
        for (size, position), title in PANELS.items()
    }
    parts = {title: part for title, part in parts.items() if not part.empty}
    figure = Figure(figsize=(4.6 * max(len(parts), 1), 3.9), layout="constrained")
    panels = figure.subplots(1, max(len(parts), 1), squeeze=False)[0]
    for axes, (title, part) in zip(panels, parts.items(), strict=False):
        _panel(axes, part)
        axes.set_title(title, fontsize=9)
    panels[0].set_ylabel("accuracy on unseen test compositions", fontsize=9)
    named = {label: line for axes in panels for line, label in zip(*_legend(axes), strict=True)}
    if named:
        figure.legend(
            named.values(), named, loc="outside lower center", ncols=3, frameon=False, fontsize=8
        )
    return figure


def _legend(axes: Axes) -> tuple[list, list[str]]:
    lines, labels = axes.get_legend_handles_labels()
    return lines, labels


def _panel(axes: Axes, table: pd.DataFrame) -> None:
    covers = sorted({int(each[1:]) for each in table["coverage"]})
    for model, (colour, words) in MODELS.items():
        mine = _over(table[table["model"] == model], "accuracy@test")
        if mine.empty:
            continue
        axes.plot(mine["cover"], mine["value"], ".", color=colour, markersize=4, alpha=0.6)
        means = mine.groupby("cover")["value"].mean()
        axes.plot(means.index, means, "o-", color=colour, markersize=5, label=words)
    for name, words, dashes in (
        ("accuracy_view@test", "reconstructions of true renders", "-"),
        ("accuracy_chance@test", "chance", (0, (3, 2))),
    ):
        means = _over(table, name).groupby("cover")["value"].mean()
        axes.plot(means.index, means, "_", linestyle=dashes, markersize=18, label=words, **_GREY)
    axes.set_xscale("log")
    axes.set_xticks(covers, [str(each) for each in covers])
    axes.minorticks_off()
    axes.set_ylim(-0.03, 1.05)
    axes.set_xlabel("compositions seen, of 96", fontsize=9)
    plain(axes)


def _over(table: pd.DataFrame, measurement: str) -> pd.DataFrame:
    mine = table[table["measurement"] == measurement]
    return mine.assign(cover=mine["coverage"].str[1:].astype(int))
