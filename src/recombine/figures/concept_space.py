"""Figure: where colours are close, the way to the unseen small blue circle leads by small red.

Reads the study concept_space, and the theory that benchmarks/concept_space.py fits. Left: the share
of samples that are blue and that are small, over training, when the condition is small blue; dots
are the first samples that are circles. Middle: mean of (share - 1)^2 over both. Right: speed in the
plane. Thick lines are means over seeds, thin ones seeds, dashed ones the linear theory, with one
time scale for all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from recombine.figures import plain
from recombine.measure.concept_space import HELD_OUT, ConceptSpace, first_of
from recombine.measure.trajectory import speed
from recombine.measurement import Number

CURVES = (f"blue@{HELD_OUT}", f"small@{HELD_OUT}", "concept_mse")
THEORY = ("blue", "small", "concept_mse")
"""The curves that are named after a separation: blue@0.137."""
FULL = "full_scale"
CLOSEST, FARTHEST = 0.1, 0.8
"""The range of separations that the colours of lines span."""
_MEAN: dict[str, Any] = {"linewidth": 1.8}
_SEED: dict[str, Any] = {"linewidth": 0.6, "alpha": 0.4}
_THEORY: dict[str, Any] = {"linewidth": 1.0, "linestyle": (0, (4, 2))}

CurvePoint: TypeAlias = list[Number]
"""A step, then the value of each of CURVES there, and the speed."""


@dataclass(frozen=True)
class Line:
    """The rows of all runs of one colour separation, which differ in their seed only."""

    separation: float
    seeds: Sequence[Sequence[CurvePoint]]

    @property
    def colour(self) -> Any:
        """Dark where colours are close, light where they are far apart."""
        share = (self.separation - CLOSEST) / (FARTHEST - CLOSEST)
        return colormaps["plasma"](0.9 * min(max(share, 0.0), 1.0))

    @property
    def mean(self) -> list[CurvePoint]:
        """The mean over seeds, where all of them have a row."""
        by_step = [{int(row[0]): row for row in rows} for rows in self.seeds]
        steps = sorted(set.intersection(*map(set, by_step)))
        return [
            [fmean(each) for each in zip(*(s[step] for s in by_step), strict=True)]
            for step in steps
        ]


def lines(table: pd.DataFrame) -> list[Line]:
    """Return a line per separation, the closest colours first."""
    usual = table[table["cell"].isin(separations(table)) & table["step"].notna()]
    seeds: dict[float, list[list[CurvePoint]]] = {}
    for (cell, _), mine in usual.groupby(["cell", "seed"], sort=True):
        if found := rows(mine):
            seeds.setdefault(float(cell), []).append(found)
    every = [Line(apart, seeds[apart]) for apart in sorted(seeds)]
    return [line for line in every if line.mean]


def separations(table: pd.DataFrame) -> list[str]:
    """Return the cells whose condition has the usual scale."""
    mine = table[(table["separation"] != "") & (table["scale"] != FULL)]
    return [str(cell) for cell in mine["cell"].unique()]


def rows(table: pd.DataFrame) -> list[CurvePoint]:
    """Return what a run found at each milestone, from the first with samples that are circles."""
    curves = {
        name: dict(zip(mine["step"].tolist(), mine["value"].tolist(), strict=True))
        for name, mine in table.sort_values("step").groupby("measurement")
    }
    circles = curves.get(f"circles@{HELD_OUT}", {})
    begin = first_of([*circles.values()], ConceptSpace().enough)
    steps = [*circles][begin:]
    if len(steps) < 2:
        return []
    found = [[step, *(curves[name][step] for name in CURVES)] for step in steps]
    course = torch.tensor([row[1:3] for row in found]).double()
    fast = speed(torch.tensor(steps).double(), course).tolist()
    return [[*row, each] for row, each in zip(found, fast, strict=True)]


def theory(table: pd.DataFrame, separation: float) -> list[list[float]]:
    """Return the step, blue, small and the error that the fitted theory expects."""
    curves = [
        table[table["measurement"] == f"{name}@{separation:g}"].sort_values("step")
        for name in THEORY
    ]
    columns = [curves[0]["step"].tolist(), *(each["value"].tolist() for each in curves)]
    return [list(row) for row in zip(*columns, strict=True)]


def draw(table: pd.DataFrame, arrays: Mapping[str, np.ndarray]) -> Figure:
    """Draw the plane of concepts, the error over steps, and the speed."""
    figure = Figure(figsize=(13, 4.2), layout="constrained")
    plane, error, fast = figure.subplots(1, 3)
    drawn = lines(table)
    for line in drawn:
        steps, blue, small, *curves = zip(*line.mean, strict=True)
        plane.plot(blue, small, color=line.colour)
        plane.plot(blue[:1], small[:1], "o", color=line.colour, markersize=5)
        for axes, column, mean in zip((error, fast), (3, 4), curves, strict=True):
            for seed in line.seeds:
                axes.plot(
                    *([row[at] for row in seed] for at in (0, column)), color=line.colour, **_SEED
                )
            axes.plot(steps, mean, color=line.colour, **_MEAN)
        if expected := theory(table, line.separation):
            steps, blue, small, far = zip(*expected, strict=True)
            plane.plot(blue, small, color=line.colour, **_THEORY)
            error.plot(steps, far, color=line.colour, **_THEORY)
    _finish(plane, error, fast)
    if drawn:
        figure.legend(handles=_legend(drawn), loc="outside right center", frameon=False, fontsize=9)
    return figure


def _legend(drawn: Sequence[Line]) -> list[Line2D]:
    hues = [
        Line2D([], [], color=line.colour, label=f"colours {line.separation:g} apart")
        for line in drawn
    ]
    return [
        *hues,
        Line2D([], [], color="0.3", label="mean over seeds", **_MEAN),
        Line2D([], [], color="0.3", label="a seed", **_SEED),
        Line2D([], [], color="0.3", label="linear theory", **_THEORY),
        Line2D([], [], color="0.3", marker="o", linestyle="none", label="first circles"),
    ]


def _finish(plane: Axes, error: Axes, fast: Axes) -> None:
    plane.set_xlim(-0.03, 1.03)
    plane.set_ylim(-0.03, 1.03)
    plane.set_aspect("equal")
    corners = ((0, 0, "red big"), (0, 1, "red small"), (1, 0, "blue big"), (1, 1, HELD_OUT))
    for x, y, words in corners:
        sides: dict[str, Any] = {
            "ha": "left" if x == 0 else "right",
            "va": "bottom" if y == 0 else "top",
        }
        place = (0.02 + 0.96 * x, 0.02 + 0.96 * y)
        plane.text(*place, words, fontsize=8, color="0.45", **sides)
    plane.set_xlabel("share of blue")
    plane.set_ylabel("share of small")
    titles = ("condition: small blue circles", "error in concept space", "speed per step")
    for axes, title in zip((plane, error, fast), titles, strict=True):
        axes.set_title(title, loc="left", fontsize=10)
        plain(axes)
    for axes in (error, fast):
        axes.set_xscale("log")
        axes.set_xlabel("steps")
    error.set_ylim(bottom=0)
    fast.set_yscale("log")
    fast.set_ylim(bottom=1e-6)
