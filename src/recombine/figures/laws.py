"""Figure: where theory says 0 we find rounding, and where it says a law is not local we find that.

Reads the study laws. Left: one row per law; every dot is a statement, at the largest value found:
full at the left of the tolerances, where it is 0 up to rounding, open at the right of them, where
it is not. Right: with one object marked the score changes in all other cells as well; at high noise
each changes by a share of 1 / (cells - 1), whatever the number of objects.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recombine.figures import plain
from recombine.report.queries import finals

_FLOOR = 1e-18
"""Residuals of exactly 0 are drawn here."""
ROUNDING = 1e-6
"""No declared tolerance is larger."""
# What a statement is about, in one of Okabe and Ito's colours, and the names of such statements.
KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "score is the local one": ("#0072B2", ("lcs_residual",)),
    "pixels of other blocks": ("#D55E00", ("coupling", "feature_coupling", "cells_coupled")),
    "conditions of other blocks": ("#009E73", ("leak", "changed_leak", "background_leak")),
    "KL, its terms, its integral": (
        "#CC79A7",
        ("kl_residual", "split_residual", "kl_minus_integral", "dependence"),
    ),
    "further statements": ("0.45", ()),
}
LAWS = {
    "T1": "block Gaussian",
    "T2": "block mixture",
    "T3": "coupled Gaussian",
    "T4": "a block depends on other conditions",
    "T4n": "a block depends on their number",
    "T5 all": "scenes, all objects marked",
    "T5 all silent": "the same, or no information",
    "T5 one": "scenes, one object marked",
    "T6 rotation": "features, turned",
    "T6 shear": "features, sheared",
    "T7": "one coupled pair",
    "T8": "coupled signs",
    "L2 coupled": "orthogonal, yet coupled",
    "L2 astray": "orthogonal, yet astray",
    "3x3x3": "random laws of three pixels",
    "random": "random Gaussians and mixtures",
}
_COUNTS = ("levels_with_lcs", "bound_violations", "bound_largest_ratio", "leak_ratio")


@dataclass(frozen=True)
class Dot:
    """One statement on one law."""

    law: str
    kind: str
    value: float

    @property
    def mark(self) -> dict[str, Any]:
        """How it is drawn: full where it is 0 up to rounding, open where it is not."""
        colour, _ = KINDS[self.kind]
        face = colour if self.value <= ROUNDING else "none"
        size = {"markersize": 5.5, "linestyle": "none", "markeredgewidth": 1.2}
        return {"color": colour, "markerfacecolor": face, "marker": "o", **size}


def draw(table: pd.DataFrame, arrays: Mapping[str, np.ndarray]) -> Figure:
    """Draw the statements at the left and the leak of one marked object at the right."""
    final = finals(table)
    final = final[final["seed"] == final["seed"].min()]
    figure = Figure(figsize=(11.5, 5.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    _statements(left, dots(final))
    _leak(right, table[table["seed"] == table["seed"].min()])
    for row in final[final["measurement"] == "statements_broken"].itertuples():
        title = f"{row.value:g} of {row.n} statements broken"
        left.set_title(title, loc="left", fontsize=10)
    return figure


def dots(final: pd.DataFrame) -> list[Dot]:
    """Return the statements; what has an interval is a mean, about which nothing is stated."""
    found = []
    for row in final[final["low"].isna()].itertuples():
        statement, _, law = row.measurement.partition("@")
        if law and statement not in _COUNTS:
            kinds = (kind for kind, (_, names) in KINDS.items() if statement in names)
            kind = next(kinds, "further statements")
            found.append(Dot(_short(law), kind, abs(row.value)))
    return found


def _short(law: str) -> str:
    """Return the name of a law without the noise level; rotation and shear are those of T6."""
    if law.startswith(("rotation", "shear")):
        return f"T6 {law.partition('_')[0]}"
    first, _, rest = law.partition("_")
    kept = [word for word in rest.split("_") if word.isalpha()]
    return " ".join([first, *kept])


def _statements(axes: Axes, found: list[Dot]) -> None:
    laws = {dot.law for dot in found}
    rows = [law for law in LAWS if law in laws] + sorted(laws - LAWS.keys())
    kinds = list(KINDS)
    for dot in found:
        height = rows.index(dot.law) + 0.14 * (kinds.index(dot.kind) - 2)
        axes.plot([max(dot.value, _FLOOR)], [height], **dot.mark)
    for words, (colour, _) in KINDS.items():
        axes.plot([], [], "o", color=colour, label=words)
    axes.plot([], [], "o", color="0.2", markerfacecolor="none", label="open: not 0, as proved")
    axes.axvspan(1e-12, ROUNDING, color="0.93", linewidth=0, zorder=0, label="tolerances")
    axes.set_xscale("log")
    ticks = [_FLOOR, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 1]
    axes.set_xticks(ticks, ["0", *(f"{tick:g}" for tick in ticks[1:])])
    axes.minorticks_off()
    axes.set_xlim(_FLOOR / 3, 30)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    names = [LAWS.get(law, law) for law in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=8)
    axes.set_xlabel("largest value found", fontsize=9)
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.1), ncols=4, frameon=False, fontsize=8)
    plain(axes)


def _leak(axes: Axes, table: pd.DataFrame) -> None:
    curves = {name: rows for name, rows in table[table["step"].notna()].groupby("measurement")}
    if "leak_limit" in curves:
        limit = curves["leak_limit"]
        axes.plot(limit["step"], limit["value"], color="0.5", linewidth=1, label="limit: a fifth")
    if "leak_ratio" in curves:
        ratio = curves["leak_ratio"]
        band: dict[str, Any] = {"color": "#0072B2", "alpha": 0.2, "linewidth": 0}
        ends = (ratio["step"], ratio["low"], ratio["high"])
        axes.fill_between(*ends, label="95 % interval", **band)
        axes.plot(ratio["step"], ratio["value"], color="#0072B2", linewidth=1.8, label="measured")
        axes.set_xscale("log")
        axes.legend(loc="lower right", frameon=False, fontsize=8)
    axes.set_ylim(0, 0.25)
    axes.set_xlabel("noise level sigma", fontsize=9)
    title = "one object marked: change of the score\nin another cell, over that in its own"
    axes.set_title(title, loc="left", fontsize=9)
    plain(axes)
