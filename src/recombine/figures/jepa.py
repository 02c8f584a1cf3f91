"""Figure: what JEPA adds to MaskGIT, variant by variant and seed by seed.

Reads the records of experiments/jepa.py, and of the MaskGITs of experiments/objective.py that they
stand beside; likewise those of experiments/tokenizer.py, but for shorter trainings. A row is a
variant, a mark the late mean of level 2 in one run by one reader, a bar the mean over seeds, grey
what the paper reports.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from recombine.report.record import Record
from recombine.report.table import variant

BESIDES = ("objective", "tokenizer")
ALONE = "maskgit"
READERS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "accuracy_late@level2": ("probe", {"marker": "o", "color": "#B2182B"}),
    "accuracy_linear_late@level2": ("linear in pixels", {"marker": "s", "color": "#0072B2"}),
    "accuracy_nearest_late@level2": ("nearest render", {"marker": "^", "color": "#00875F"}),
}
"""The measurement of each reader, what it is called, and its marks."""
_PAPER: dict[str, Any] = {
    "linestyle": "none",
    "marker": "D",
    "color": "0.5",
    "markerfacecolor": "none",
    "markersize": 6,
}
APART = 0.22
"""How far the readers of a row are apart."""


def draw(records: Sequence[Record]) -> Figure:
    """Draw a row per variant, those with JEPA below the one they stand beside."""
    rows: dict[str, list[Record]] = {}
    for record in sorted(filter(_belongs, records), key=_place):
        rows.setdefault(_name(record), []).append(record)
    figure = Figure(figsize=(7.5, 0.55 * len(rows) + 1.3), layout="constrained")
    axes = figure.subplots()
    for at, runs in enumerate(rows.values()):
        row(axes, at, runs)
    axes.set_yticks(range(len(rows)), list(rows), fontsize=8)
    axes.set_ylim(max(len(rows), 1) - 0.5, -0.5)
    axes.set_xlim(-0.03, 1.03)
    axes.set_xlabel("drawn as asked, two factors away from what was seen: late mean", fontsize=8)
    axes.tick_params(labelsize=8, length=2)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(handles=legend(), ncols=4, loc="outside lower center", frameon=False, fontsize=8)
    return figure


def _belongs(record: Record) -> bool:
    mine = _with_jepa(record) or variant(record).startswith(ALONE)
    mine &= not variant(record).endswith("_short")
    return mine and any(name in record.measurements for name in READERS)


def _with_jepa(record: Record) -> bool:
    return record.command.startswith("recombine run jepa:") or variant(record).startswith("jepa_")


def _name(record: Record) -> str:
    return (
        f"{variant(record).removeprefix('jepa_')} + JEPA" if _with_jepa(record) else variant(record)
    )


def _place(record: Record) -> tuple[bool, bool, bool, bool, str]:
    """Say where a row goes: small networks last, then tokenizers of all, steered ones, JEPA."""
    name = variant(record)
    return "small" in name, "_all" in name, "steered" in name, _with_jepa(record), name


def row(axes: Axes, at: int, runs: Sequence[Record]) -> None:
    """Draw the late means of a variant's runs at this height, by all readers."""
    axes.axhline(at + 0.5, color="0.9", linewidth=0.6)
    every = [run.measurements[name] for run in runs for name in READERS if name in run.measurements]
    for reported in {each.paper for each in every if each.paper is not None}:
        axes.plot([reported], [at], **_PAPER)
    for number, (name, (_, look)) in enumerate(READERS.items()):
        found = [run.measurements[name] for run in runs if name in run.measurements]
        if not found:
            continue
        height = at + APART * (number - 1)
        values = [each.value for each in found]
        axes.plot(values, [height] * len(values), linestyle="none", markersize=4.5, **look)
        mean = fmean(values)
        axes.plot([mean, mean], [height - 0.09, height + 0.09], color=look["color"], linewidth=2)


def legend() -> list[Line2D]:
    """Return what the marks mean."""
    marks = [
        Line2D([], [], linestyle="none", markersize=4.5, label=words, **look)
        for words, look in READERS.values()
    ]
    return [*marks, Line2D([], [], label="the paper", **_PAPER)]
