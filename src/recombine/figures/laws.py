"""Figure: where theory says 0 we find rounding, and where it says a law is not local we find that.

Reads the record of experiments/cpc_lcs.py. Left: one row per law; full dots are residuals of what
is proved to be 0, each under its tolerance, open dots are what is proved not to be 0; crosses would
be broken statements. Right: told of one object, the score changes in all other cells as well; at
high noise each changes by a share of 1 / (cells - 1), whatever the number of objects.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recombine.measurement import Measurement
from recombine.report.record import Record

_FLOOR = 1e-18
"""Residuals of exactly 0 are drawn here."""
# Okabe and Ito's colours.
_KINDS = {
    "lcs": ("score is the local one", "#0072B2"),
    "coupling": ("pixels of other blocks", "#D55E00"),
    "leak": ("conditions of other blocks", "#009E73"),
    "kl": ("KL, its terms, its integral", "#CC79A7"),
    "other": ("further statements", "0.45"),
}
_NAMES = {
    "lcs_residual": "lcs",
    "coupling": "coupling",
    "feature_coupling": "coupling",
    "cells_coupled": "coupling",
    "leak": "leak",
    "retold_leak": "leak",
    "background_leak": "leak",
    "kl_residual": "kl",
    "split_residual": "kl",
    "kl_minus_integral": "kl",
    "dependence": "kl",
}
_LAWS = {
    "T1": "block Gaussian",
    "T2": "block mixture",
    "T3": "coupled Gaussian",
    "T4": "block hears other conditions",
    "T4n": "block hears their number",
    "T5 all": "scenes, all told",
    "T5 all silent": "scenes, all told or silence",
    "T5 one": "scenes, one told",
    "T6 rotation": "features, turned",
    "T6 shear": "features, sheared",
    "T7": "one coupled pair",
    "T8": "coupled signs",
    "L2 coupled": "orthogonal, yet coupled",
    "L2 astray": "orthogonal, yet astray",
}
_COUNTS = ("levels_with_lcs", "bound_violations", "bound_largest_ratio")


@dataclass(frozen=True)
class Dot:
    """One statement on one law."""

    law: str
    kind: str
    measured: Measurement

    @property
    def mark(self) -> dict[str, Any]:
        """How it is drawn: full where 0 is proved, open where it is not 0, a cross if broken."""
        colour, verdict = _KINDS[self.kind][1], str(self.measured.verdict)
        face = colour if verdict.startswith("proved") else "none"
        marker = "x" if verdict.startswith("broken") else "o"
        size = {"markersize": 5.5, "linestyle": "none", "markeredgewidth": 1.2}
        return {"color": colour, "markerfacecolor": face, "marker": marker, **size}


def draw(records: Sequence[Record]) -> Figure:
    """Draw the statements at the left and the leak of one told object at the right."""
    record = records[0]
    dots = _dots(record)
    figure = Figure(figsize=(11, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    _statements(left, dots)
    _leak(right, record)
    if answer := record.measurements.get("statements_broken"):
        words = f"{answer.value} of {answer.n} statements broken"
        left.set_title(words, loc="left", fontsize=10)
    return figure


def _dots(record: Record) -> list[Dot]:
    found = []
    for name, measured in record.measurements.items():
        statement, _, law = name.partition("@")
        if law and measured.verdict and statement not in _COUNTS and "_ratio" not in statement:
            found.append(Dot(_short(law), _NAMES.get(statement, "other"), measured))
    return found


def _short(law: str) -> str:
    """Return the name of a law without the noise level; rotation and shear are those of T6."""
    if law.startswith(("rotation", "shear")):
        return f"T6 {law.partition('_')[0]}"
    first, _, rest = law.partition("_")
    kept = [word for word in rest.split("_") if word.isalpha()]
    return " ".join([first, *kept])


def _statements(axes: Axes, dots: Sequence[Dot]) -> None:
    laws = {dot.law for dot in dots}
    rows = [law for law in _LAWS if law in laws] + sorted(laws - _LAWS.keys())
    kinds = list(_KINDS)
    for dot in dots:
        shift = 0.14 * (kinds.index(dot.kind) - 2)
        height = rows.index(dot.law) + shift
        axes.plot([max(abs(dot.measured.value), _FLOOR)], [height], **dot.mark)
    for kind, colour in _KINDS.values():
        axes.plot([], [], "o", color=colour, label=kind)
    axes.axvspan(1e-12, 1e-6, color="0.93", linewidth=0, zorder=0)
    axes.text(1e-9, -0.85, "tolerances", ha="center", va="center", fontsize=8, color="0.4")
    axes.set_xscale("log")
    ticks = [_FLOOR, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 1]
    axes.set_xticks(ticks, ["0", *(f"{tick:g}" for tick in ticks[1:])])
    axes.minorticks_off()
    axes.tick_params(labelsize=8)
    axes.set_xlim(_FLOOR / 3, 30)
    axes.set_ylim(len(rows) - 0.4, -1.1)
    words = [f"{_LAWS[law]} ({law.split()[0]})" if law in _LAWS else law for law in rows]
    axes.set_yticks(range(len(rows)), words, fontsize=8)
    axes.set_xlabel(
        "largest value found (full: proved to be 0; open: proved not to be)", fontsize=9
    )
    if dots:
        axes.legend(
            loc="lower center", bbox_to_anchor=(0.5, -0.26), ncols=3, frameon=False, fontsize=8
        )
    axes.spines[["top", "right"]].set_visible(False)


def _leak(axes: Axes, record: Record) -> None:
    points = record.curves.get("leak_ratio", [])
    for limit in record.curves.get("leak_limit", []):
        axes.axhline(limit, color="0.6", linewidth=0.8)
        axes.text(0.31, limit, f"limit {limit:g}", fontsize=8, color="0.4", va="bottom")
    if points:
        level, value, low, high = (list(each) for each in zip(*points, strict=True))
        axes.fill_between(level, low, high, color="#0072B2", alpha=0.2, linewidth=0)
        axes.plot(level, value, color="#0072B2", linewidth=1.8)
        axes.set_xscale("log")
    axes.set_ylim(0, 0.25)
    axes.set_xlabel("noise level sigma", fontsize=9)
    axes.set_title("one object told: change elsewhere / there", loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
