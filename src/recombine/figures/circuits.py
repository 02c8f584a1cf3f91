"""Figure: do compositions share the neurons that make them?

Reads the records of experiments/circuits.py. Left, layer by layer, the share of serving neurons
(above) and heads (below) whose compositions have no concept in common. Right, the overlap of the
most influential neurons of two compositions, over the number of factors in which these differ.
Lines are means over seeds, bars the interval of each seed; definitions are ours
(measure/circuits.py) and compare with no published number.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from recombine.measurement import Measurement
from recombine.report.record import Record
from recombine.report.table import variant

# Okabe and Ito's colours, then dashes.
COLOURS = ("#0072B2", "#D55E00", "#00875F", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
DASHES = ("solid", (0, (5, 1.5)), (0, (1, 1)))
PANELS = {
    "polysemantic@layer": ("polysemantic neurons", "layer"),
    "polysemantic_heads@layer": ("polysemantic heads", "layer"),
    "jaccard@apart": ("Jaccard overlap of neurons", "factors in which two compositions differ"),
}
"""How measurements of a panel begin, and what is written above and below it."""


def draw(records: Sequence[Record]) -> Figure:
    """Draw a line per model in each panel; records without these measurements are left out."""
    models: dict[str, list[Record]] = {}
    for record in records:
        if any(measured(record, begins) for begins in PANELS):
            models.setdefault(variant(record), []).append(record)
    figure = Figure(figsize=(8.6, 4.6), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=[1.25, 1])
    places = (grid[0, 0], grid[1, 0], grid[:, 1])
    panels = {begins: figure.add_subplot(at) for begins, at in zip(PANELS, places, strict=True)}
    for begins, axes in panels.items():
        for number, runs in enumerate(models.values()):
            # Models side by side, so that their bars do not hide each other.
            aside = 0.05 * (number - (len(models) - 1) / 2)
            _line(axes, [measured(run, begins) for run in runs], _look(number), aside)
        _framed(axes, *PANELS[begins])
    for number, name in enumerate(models):
        panels["jaccard@apart"].plot([], [], **_look(number), marker="o", markersize=3, label=name)
    if models:
        figure.legend(
            loc="outside lower center", ncols=4, fontsize=8, frameon=False, handlelength=3.5
        )
    return figure


def measured(record: Record, begins: str) -> dict[int, Measurement]:
    """Return the measurements of a record whose names go on with a number, by that number."""
    return {
        int(number): each
        for name, each in record.measurements.items()
        if (number := name.removeprefix(begins)).isdigit()
    }


def _look(number: int) -> dict[str, Any]:
    """Return the colour and the dashes of the model of this number."""
    again, colour = divmod(number, len(COLOURS))
    return {"color": COLOURS[colour], "linestyle": DASHES[again % len(DASHES)], "linewidth": 1.5}


def _line(
    axes: Axes, runs: Sequence[Mapping[int, Measurement]], look: Mapping[str, Any], aside: float
) -> None:
    """Draw the mean over seeds, where one has a value, and the interval of each."""
    places = sorted({at for run in runs for at in run})
    found = {at: [run[at] for run in runs if at in run] for at in places}
    for at, each in found.items():
        for one in each:
            if one.low is not None and one.high is not None:
                axes.plot([at + aside] * 2, [one.low, one.high], color=look["color"], linewidth=0.8)
    means = [fmean(one.value for one in each) for each in found.values()]
    axes.plot([at + aside for at in found], means, **look, marker="o", markersize=3)


def _framed(axes: Axes, title: str, below: str) -> None:
    axes.set_title(title, loc="left", fontsize=9)
    axes.set_xlabel(below, fontsize=8)
    axes.set_ylim(-0.03, 1.03)
    axes.margins(x=0.08)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.tick_params(labelsize=7, length=2)
    axes.spines[["top", "right"]].set_visible(False)
