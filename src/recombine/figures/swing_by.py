"""Figure: on its way to the new sum of concepts, the output swings by a training cluster.

A row per cell of the study swing_by whose trajectory is kept, four at most: the output at the test
point over training, coloured by its stages; the loss at the test point, with its spread over
starts, and the training loss; and the entries of W behind it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recombine.figures import plain
from recombine.report.queries import finals
from recombine.report.seeds import summarised
from recombine.report.table import interval

STAGES = ("minor entries grow", "suppression", "the next concept grows")
# Okabe and Ito's colours.
_COLOURS = ("#0072B2", "#D55E00", "#00875F")
_MAJOR, _MINOR = "-", (0, (4, 1.5))
_ENTRIES = ("#000000", "#E69F00", "#56B4E9", "#CC79A7", "#009E73", "#F0E442", "0.5", "0.3", "0.7")
ROWS = 4
SETTINGS = {"two_concepts": "random starts"}
WAYS = {"theory": "rates of the theory", "squared": "rates squared", "code": "as the authors' code"}
INITIAL = {"positive": "", "negative": ", minor entries start negative", "wide": ", 16 dimensions"}


def draw(table: pd.DataFrame, arrays: Mapping[str, np.ndarray]) -> Figure:
    """Draw a row per cell: trajectory, losses, entries."""
    shown = table[table["measurement"] == "stage"]["cell"].unique()[:ROWS]
    figure = Figure(figsize=(12, 3.8 * max(len(shown), 1)), layout="constrained")
    panels = figure.subplots(max(len(shown), 1), 3, squeeze=False)
    for row, cell in zip(panels, shown, strict=False):
        mine = table[table["cell"] == cell]
        mine = mine[mine["seed"] == mine["seed"].min()]
        curves = {name: rows for name, rows in mine[mine["step"].notna()].groupby("measurement")}
        _path(row[0], curves, _title(mine.iloc[0]))
        _losses(row[1], curves, finals(mine))
        _entries(row[2], curves)
    return figure


def _title(row: pd.Series) -> str:
    setting = SETTINGS.get(row["setting"], row["setting"].replace("_", ", numbers of the "))
    setting = setting.replace("figure", "figure ")
    return f"{setting}, {WAYS.get(row['way'], row['way'])}{INITIAL.get(row['initial'], '')}"


def _path(axes: Axes, curves: Mapping[str, pd.DataFrame], title: str) -> None:
    """Draw the outputs for the first and the last concept against each other."""
    target = curves["target"]["value"].tolist()
    across, up = (curves[f"output@{k}"]["value"].tolist() for k in (1, len(target)))
    _staged(axes, across, up, curves["stage"]["value"].tolist())
    for name, colour in zip(STAGES, _COLOURS, strict=True):
        axes.plot([], [], color=colour, linewidth=2, label=name)
    clusters: dict[str, Any] = {"color": "0.5", "markersize": 6, "label": "training clusters"}
    axes.plot([target[0], 0], [0, target[-1]], "o", **clusters)
    axes.plot(target[0], target[-1], "x", color="black", markersize=8, label="test point")
    axes.set_xlabel("output for the weakest concept", fontsize=9)
    axes.set_ylabel("output for the strongest concept", fontsize=9)
    axes.legend(loc="center left", frameon=False, fontsize=8)
    _finish(axes, title)


def _losses(axes: Axes, curves: Mapping[str, pd.DataFrame], final: pd.DataFrame) -> None:
    """Draw the loss at the test point, its spread over starts, and the training loss."""
    every, loss, training = (curves[n] for n in ("loss_of_starts", "loss", "training_loss"))
    spread: dict[str, Any] = {"color": "0.85", "linewidth": 0, "label": "80 % of all starts"}
    axes.fill_between(every["step"], every["low"], every["high"], **spread)
    steps, values = loss["step"].tolist(), loss["value"].tolist()
    _staged(axes, steps, values, curves["stage"]["value"].tolist())
    axes.plot([], [], color="0.2", linewidth=2, label="one start, colour: stage")
    axes.plot(training["step"], training["value"], "--", color="0.4", linewidth=1, label="training")
    _over_time(axes, steps[-1])
    axes.legend(loc="upper right", frameon=False, fontsize=8)
    risen = summarised(final[final["measurement"] == "bump_share"])
    share = interval(risen.value, risen.low, risen.high)
    _finish(axes, f"loss at the test point\nshare of starts that rise by 1 %: {share}")


def _entries(axes: Axes, curves: Mapping[str, pd.DataFrame]) -> None:
    """Draw the major entries of W, and the minor ones dashed."""
    concepts = range(1, len(curves["target"]) + 1)
    places = [(i, j) for i in concepts for j in concepts if i <= j]
    for (i, j), colour in zip(places, _ENTRIES, strict=False):
        rows = curves[f"w{i}{j}"]
        drawn: dict[str, Any] = {"color": colour, "linestyle": _MAJOR if i == j else _MINOR}
        label = f"$W_{{{i}{j}}}$, {'major' if i == j else 'minor'}"
        axes.plot(rows["step"], rows["value"], linewidth=1.5, label=label, **drawn)
    _over_time(axes, float(curves["loss"]["step"].iloc[-1]))
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=8)
    _finish(axes, "entries of W")


def _staged(
    axes: Axes, across: Sequence[float], up: Sequence[float], stages: Sequence[float]
) -> None:
    """Draw a line whose stretches have the colours of their stages."""
    starts = [at for at in range(len(stages)) if at == 0 or stages[at] != stages[at - 1]]
    ends = [*starts[1:], len(stages) - 1]
    for first, last in zip(starts, ends, strict=True):
        part = slice(first, last + 1)
        axes.plot(across[part], up[part], color=_COLOURS[int(stages[first])], linewidth=2)


def _over_time(axes: Axes, last: float) -> None:
    axes.set_xscale("symlog", linthresh=1.0)
    axes.set_xlim(0, last)
    axes.set_xlabel("time", fontsize=9)


def _finish(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=9)
    plain(axes)
