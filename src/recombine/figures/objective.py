"""Figure: accuracy over training at each level, beside the paper's curves.

Reads the records of experiments/objective.py and jepa.py; tokenizer.py, conditioning.py,
setting.py and still.py have such figures of their own. A panel is a variant: blue is what was seen,
pink one factor away from it, red two. Lines are means over seeds, with the range of seeds; dashes
are the curves of Farid et al. 2025, over their own steps (above).
"""

from collections.abc import Collection, Sequence
from math import ceil
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from recombine.report.record import Record
from recombine.report.reference import NAMED, published
from recombine.report.table import variant

BESIDES = ("jepa",)
COLOURS = {0: "#2166AC", 1: "#F4A6C0", 2: "#B2182B"}
WORDS = {0: "seen", 1: "one factor away", 2: "two factors away"}
COLUMNS = 4
DITS = {"kl": "dit_kl", "vq": "dit_vq"}
"""What the DiTs of the tokenizers' study are called in that of objectives."""
ENDINGS = ("_small", "_few", "_narrow", "_short", "_all", "_seen", "_moving", "_still")
"""Models of another size, budget, tokenizer or world stand beside the same published curves."""


def draw(records: Sequence[Record]) -> Figure:
    """Draw a panel per variant."""
    panels: dict[str, list[Record]] = {}
    for record in sorted(records, key=_place):
        panels.setdefault(_title(record), []).append(record)
    columns = min(len(panels), COLUMNS) or 1
    rows = max(ceil(len(panels) / columns), 1)
    figure = Figure(figsize=(3.2 * columns, 2.7 * rows + 0.3), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for each, (name, runs) in zip(axes, panels.items(), strict=False):
        _panel(each, name, runs)
    for each in axes[len(panels) :]:
        each.set_visible(False)
    for each in axes[::columns]:
        each.set_ylabel("drawn as asked", fontsize=8)
    figure.legend(handles=_legend(), ncols=4, loc="outside lower center", frameon=False, fontsize=8)
    return figure


def beside(records: Sequence[Record], whose: str, others: Collection[str]) -> Figure:
    """Draw the variants of an experiment, and of others those that they stand beside."""
    return draw([each for each in records if experiment(each) == whose or variant(each) in others])


def _title(record: Record) -> str:
    """Name the experiment where the variant does not say what it is of."""
    return f"jepa: {variant(record)}" if experiment(record) == "jepa" else variant(record)


def experiment(record: Record) -> str:
    """Return the experiment that was run."""
    return record.command.removeprefix("recombine run ").split(":")[0]


def _place(record: Record) -> tuple[bool, str, int, str]:
    """Say where a record goes: models first, in the order of the paper's table."""
    known, name = list(NAMED), variant(record)
    rank = known.index(_stem(name)) if _stem(name) in known else len(known)
    return experiment(record) != "objective", experiment(record), rank, name


def _stem(name: str) -> str:
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return DITS.get(name, name)


def _legend() -> list[Line2D]:
    ours = [Line2D([], [], color=COLOURS[level], label=word) for level, word in WORDS.items()]
    dashes: Any = (0, (4, 2))
    theirs = "the paper's, over its own steps (above)"
    return [*ours, Line2D([], [], color="0.5", linewidth=0.9, linestyle=dashes, label=theirs)]


def _panel(axes: Axes, name: str, runs: Sequence[Record]) -> None:
    for level, colour in COLOURS.items():
        curves = [dict(run.curves.get(f"accuracy@level{level}", [])) for run in runs]
        steps = sorted(set.intersection(*map(set, curves)))
        each = [[curve[step] for curve in curves] for step in steps]
        axes.fill_between(
            steps, list(map(min, each)), list(map(max, each)), color=colour, alpha=0.2
        )
        axes.plot(steps, list(map(fmean, each)), color=colour, linewidth=1.6)
    theirs = published(_stem(variant(runs[0])))
    if theirs is not None:
        above = axes.twiny()
        for level, colour in COLOURS.items():
            points = list(zip(*theirs.level(level), strict=True))
            above.plot(*points, color=colour, linewidth=0.9, linestyle=(0, (4, 2)))
        above.xaxis.set_major_locator(MaxNLocator(4))
        above.tick_params(labelsize=6, length=2, colors="0.5")
        above.spines[["right"]].set_visible(False)
    axes.set_title(name, loc="left", fontsize=8)
    axes.set_xlabel("steps", fontsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_ylim(-0.03, 1.03)
    axes.tick_params(labelsize=7, length=2)
    axes.spines[["right"]].set_visible(False)
