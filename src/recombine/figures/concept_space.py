"""Figure: where colours are close, the way to the unseen small blue circle leads by small red.

Reads the records of experiments/concept_space.py, and that of benchmarks/concept_space.py for the
theory. Left: the share of samples that are blue and that are small, over training, when asked for
small blue; dots are the first samples that are circles. Middle: mean of (share - 1)^2 over both.
Right: speed in the plane. Thick lines are means over seeds, thin ones seeds, dashed ones the
linear theory, with one time scale for all.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeAlias

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recombine.measurement import Number
from recombine.report.record import Record

ASKED = "blue small"
CURVES = (f"blue@{ASKED}", f"small@{ASKED}", "concept_mse", "concept_speed")
CLOSEST, FARTHEST = 0.1, 0.8
"""The range of separations that the colours of lines span."""

Row: TypeAlias = list[Number]
"""A step, then the value of each of CURVES there."""


@dataclass(frozen=True)
class Line:
    """The rows of all runs of one colour separation, which differ in their seed only."""

    separation: float
    seeds: Sequence[Sequence[Row]]

    @property
    def colour(self) -> Any:
        """Dark where colours are close, light where they are far apart."""
        share = (self.separation - CLOSEST) / (FARTHEST - CLOSEST)
        return colormaps["plasma"](0.9 * min(max(share, 0.0), 1.0))

    @property
    def mean(self) -> list[Row]:
        """The mean over seeds, where all of them have a row."""
        by_step = [{int(row[0]): row for row in rows} for rows in self.seeds]
        steps = sorted(set.intersection(*map(set, by_step)))
        return [
            [fmean(each) for each in zip(*(s[step] for s in by_step), strict=True)]
            for step in steps
        ]


def lines(records: Sequence[Record]) -> list[Line]:
    """Return a line per separation, the closest colours first."""
    seeds: dict[float, list[list[Row]]] = {}
    for record in records:
        apart, found = separation(record), rows(record)
        if apart is not None and found:
            seeds.setdefault(apart, []).append(found)
    for apart, kept in _kept(records, "course").items():
        # A record of all runs stands in for those that are not here.
        seeds.setdefault(apart, kept)
    every = [Line(apart, seeds[apart]) for apart in sorted(seeds)]
    return [line for line in every if line.mean]


def separation(record: Record) -> float | None:
    """Return how far apart the colours of a run are: 0.137 for separation_0137."""
    match = re.search(r":separation_(\d)(\d+)\b", record.command)
    return float(f"{match[1]}.{match[2]}") if match else None


def rows(record: Record) -> list[Row]:
    """Return what a run found at each milestone, from the first with samples that are circles."""
    curves = [dict(record.curves.get(name, [])) for name in CURVES]
    return [[step, *(curve[step] for curve in curves)] for step in curves[-1]]


def _kept(records: Sequence[Record], name: str) -> dict[float, list]:
    return {
        float(key.removeprefix(f"{name}@")): curve
        for record in records
        for key, curve in record.curves.items()
        if key.startswith(f"{name}@")
    }


def draw(records: Sequence[Record]) -> Figure:
    """Draw the plane of concepts, the error over steps, and the speed."""
    figure = Figure(figsize=(13, 4.2), layout="constrained")
    plane, error, speed = figure.subplots(1, 3)
    expected = _kept(records, "theory")
    for line in lines(records):
        steps, blue, small, *curves = zip(*line.mean, strict=True)
        plane.plot(blue, small, color=line.colour, label=f"{line.separation:g}")
        plane.plot(blue[:1], small[:1], "o", color=line.colour, markersize=5)
        for axes, column, mean in zip((error, speed), (3, 4), curves, strict=True):
            for seed in line.seeds:
                thin = {"color": line.colour, "linewidth": 0.6, "alpha": 0.4}
                axes.plot(*([row[at] for row in seed] for at in (0, column)), **thin)
            axes.plot(steps, mean, color=line.colour, linewidth=1.8)
        if told := expected.get(line.separation):
            steps, blue, small, far = zip(*told, strict=True)
            dashed = {"color": line.colour, "linewidth": 1, "linestyle": (0, (4, 2))}
            plane.plot(blue, small, **dashed)
            error.plot(steps, far, **dashed)
    _finish(plane, error, speed)
    handles, labels = plane.get_legend_handles_labels()
    if handles:
        title = "colours\napart by"
        figure.legend(handles, labels, loc="outside right center", frameon=False, title=title)
    return figure


def _finish(plane: Axes, error: Axes, speed: Axes) -> None:
    plane.set_xlim(-0.03, 1.03)
    plane.set_ylim(-0.03, 1.03)
    plane.set_aspect("equal")
    for x, y, words in ((0, 0, "red big"), (0, 1, "red small"), (1, 0, "blue big"), (1, 1, ASKED)):
        sides: dict[str, Any] = {
            "ha": "left" if x == 0 else "right",
            "va": "bottom" if y == 0 else "top",
        }
        place = (0.02 + 0.96 * x, 0.02 + 0.96 * y)
        plane.text(*place, words, fontsize=8, color="0.45", **sides)
    plane.set_xlabel("share of blue")
    plane.set_ylabel("share of small")
    titles = ("asked for small blue circles", "error in concept space", "speed per step")
    for axes, title in zip((plane, error, speed), titles, strict=True):
        axes.set_title(title, loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    for axes in (error, speed):
        axes.set_xscale("log")
        axes.set_xlabel("steps")
    error.set_ylim(bottom=0)
    speed.set_yscale("log")
    speed.set_ylim(bottom=1e-6)
