"""Figure: accuracy over training at each level, beside the paper's curves.

Reads the records of experiments/objective.py, tokenizer.py, conditioning.py and jepa.py. A panel is
a variant: blue is what was seen, pink one factor away from it, red two. Lines are means over seeds,
with the range of seeds; dashes are the curves of Farid et al. 2025, over their own steps (above).
"""

from collections.abc import Sequence
from math import ceil
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recombine.report.record import Record
from recombine.report.reference import published
from recombine.report.table import variant

BESIDES = ("tokenizer", "conditioning", "jepa")
COLOURS = {0: "#2166AC", 1: "#F4A6C0", 2: "#B2182B"}
COLUMNS = 4


def draw(records: Sequence[Record]) -> Figure:
    """Draw a panel per variant."""
    panels: dict[str, list[Record]] = {}
    for record in records:
        name = record.command.removeprefix("recombine run ").split(":")[0]
        panels.setdefault(f"{name}: {variant(record)}", []).append(record)
    rows = max(ceil(len(panels) / COLUMNS), 1)
    figure = Figure(figsize=(3.2 * COLUMNS, 2.7 * rows), layout="constrained")
    axes = list(figure.subplots(rows, COLUMNS, squeeze=False).flat)
    for each, (name, runs) in zip(axes, panels.items(), strict=False):
        _panel(each, name, runs)
    for each in axes[len(panels) :]:
        each.set_visible(False)
    return figure


def _panel(axes: Axes, name: str, runs: Sequence[Record]) -> None:
    for level, colour in COLOURS.items():
        curves = [dict(run.curves.get(f"accuracy@level{level}", [])) for run in runs]
        steps = sorted(set.intersection(*map(set, curves)))
        each = [[curve[step] for curve in curves] for step in steps]
        axes.fill_between(
            steps, list(map(min, each)), list(map(max, each)), color=colour, alpha=0.2
        )
        axes.plot(steps, list(map(fmean, each)), color=colour, linewidth=1.6)
    theirs = published(name.split(": ")[1])
    if theirs is not None:
        above = axes.twiny()
        for level, colour in COLOURS.items():
            points = list(zip(*theirs.level(level), strict=True))
            above.plot(*points, color=colour, linewidth=0.9, linestyle=(0, (4, 2)))
        above.tick_params(labelsize=6, length=2, colors="0.5")
        above.spines[["right"]].set_visible(False)
    axes.set_title(name, loc="left", fontsize=9)
    axes.set_ylim(-0.03, 1.03)
    axes.tick_params(labelsize=7, length=2)
    axes.spines[["right"]].set_visible(False)
