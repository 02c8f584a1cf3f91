"""Figure: networks in which a place depends on the condition near it continue beyond training.

Top: the share of samples that succeed, over the number of requested places, a panel a condition;
lines are means over seeds, dots the K_max of each seed. Middle: how many objects are detected.
Bottom: the share of samples that succeed, for models that were trained on other scenes.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from recombine.figures import CONDITIONS, HUES, MOST, NETWORKS, OBJECTS, key, plain, suffixed
from recombine.report.queries import finals
from recombine.report.seeds import Summary

USUAL = "up_to_3"
FAMILIES: Sequence[Sequence[str]] = (("grid_all",), ("grid_one",), ("list_all", "list_all_slots"))
"""Conditions that share a panel."""
GUIDED, SLOTS = (0, (5, 1.5)), (0, (1, 1.2))
_GREY: dict[str, Any] = {"color": "0.55", "linewidth": 1.0, "zorder": 1}
_CHANCE = (0, (3, 2))


def draw(table: pd.DataFrame, arrays: Mapping[str, np.ndarray]) -> Figure:
    """Draw success and counts of the usual training scenes, and success of the others."""
    table = finals(table)
    first = table[table["objects"] == USUAL]
    others = table[table["objects"] != USUAL]
    columns = [family for family in FAMILIES if first["condition"].isin(family).any()]
    below = [
        (objects, family)
        for objects, family in product(OBJECTS, FAMILIES)
        if len(_of(others, objects, family))
    ]
    wide = max(len(columns), 1)
    rows = 2 + -(-len(below) // wide)
    figure = Figure(figsize=(3.9 * wide, 2.9 * rows + 1.6), layout="constrained")
    panels = figure.subplots(rows, wide, squeeze=False)
    for number, family in enumerate(columns):
        mine = _of(first, USUAL, family)
        _success(panels[0, number], mine, USUAL, family)
        _count(panels[1, number], mine, USUAL)
    for axes, (objects, family) in zip(panels[2:].flat, below, strict=False):
        _success(axes, _of(others, objects, family), objects, family)
    for axes in panels.flat:
        if not axes.has_data():
            axes.set_visible(False)
    _legend(figure, table)
    return figure


def _of(table: pd.DataFrame, objects: str, family: Sequence[str]) -> pd.DataFrame:
    return table[(table["objects"] == objects) & table["condition"].isin(family)]


def over_places(table: pd.DataFrame, name: str) -> dict[int, Summary]:
    """Return the mean over seeds of NAME@K, by the number K of requested places."""
    # To draw nothing when nothing is requested is another question.
    return {int(k): each for k, each in suffixed(table, name).items() if k or name == "count"}


def look(levels: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the line of a cell is drawn."""
    style: Any = "solid"
    if levels["sampling"] == "guided":
        style = GUIDED
    elif levels["condition"] == "list_all_slots":
        style = SLOTS
    return {"color": HUES[levels["network"]], "linestyle": style, "linewidth": 1.8}


def _success(axes: Axes, table: pd.DataFrame, objects: str, family: Sequence[str]) -> None:
    _curves(axes, table, "success")
    for name, style in (("ceiling", "solid"), ("chance", _CHANCE)):
        for _, rows in table.groupby("cell", sort=False):
            points = over_places(rows, f"success_{name}")
            means = [each.value for each in points.values()]
            axes.plot(list(points), means, linestyle=style, **_GREY)
    for cell, rows in table.groupby("cell", sort=False):
        for _, run in rows.groupby("seed"):
            _dot(axes, run, look(key(table, str(cell)))["color"])
    axes.set_ylim(-0.03, 1.05)
    axes.set_ylabel("success rate", fontsize=9)
    _finish(axes, table, objects)
    axes.set_title(f"{CONDITIONS[family[0]]},\ntrained on {OBJECTS[objects]}", fontsize=9)


def _dot(axes: Axes, run: pd.DataFrame, colour: str) -> None:
    """Put a dot at the K_max of a run, on its own success rate there."""
    values = dict(zip(run["measurement"], run["value"], strict=True))
    most = int(values.get("k_max", 0))
    if most > 0:
        style: dict[str, Any] = {"markersize": 6, "markeredgecolor": "white", "zorder": 4}
        axes.plot([most], [values[f"success@{most}"]], "o", color=colour, **style)


def _count(axes: Axes, table: pd.DataFrame, objects: str) -> None:
    _curves(axes, table, "count")
    last = max((k for k in over_places(_any_cell(table), "count")), default=1)
    axes.plot([0, last], [0, last], **_GREY)
    # Where seeds differ much, Student's interval is wider than the panel.
    axes.set_ylim(-0.5, last + 1.5)
    axes.set_ylabel("objects detected", fontsize=9)
    _finish(axes, table, objects)


def _any_cell(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["cell"] == table["cell"].iloc[0]]


def _curves(axes: Axes, table: pd.DataFrame, name: str) -> None:
    """Draw the mean over seeds of each cell, with its interval, a little aside of the others."""
    cells = list(dict.fromkeys(table["cell"]))
    for number, cell in enumerate(cells):
        points = over_places(table[table["cell"] == cell], name)
        style = look(key(table, cell))
        axes.plot(list(points), [each.value for each in points.values()], zorder=3, **style)
        shift = 0.08 * (number - (len(cells) - 1) / 2)
        for k, found in points.items():
            if found.low is not None and found.high is not None:
                at = [k + shift, k + shift], [found.low, found.high]
                axes.plot(*at, color=style["color"], linewidth=0.9, alpha=0.6, zorder=2)


def _finish(axes: Axes, table: pd.DataFrame, objects: str) -> None:
    axes.axvspan(0.5, MOST[objects] + 0.5, color="0.94", linewidth=0, zorder=0)
    axes.set_xlabel("requested places", fontsize=9)
    axes.set_xticks(sorted(over_places(_any_cell(table), "count")))
    plain(axes)


def _legend(figure: Figure, table: pd.DataFrame) -> None:
    """Say what every hue, dash, dot and grey means."""
    ink: dict[str, Any] = {"color": "0.25", "linewidth": 1.8}
    handles: list[tuple[Any, str]] = [
        (Line2D([], [], color=HUES[name], linewidth=1.8), words)
        for name, words in NETWORKS.items()
        if name in set(table["network"])
    ]
    if "guided" in set(table["sampling"]):
        handles.append((Line2D([], [], linestyle=GUIDED, **ink), "sampled with guidance"))
    if "list_all_slots" in set(table["condition"]):
        handles.append((Line2D([], [], linestyle=SLOTS, **ink), CONDITIONS["list_all_slots"]))
    dot: dict[str, Any] = {"color": "0.25", "markeredgecolor": "white", "linestyle": ""}
    bar: dict[str, Any] = {"color": "0.25", "linestyle": "", "marker": "|", "markersize": 11}
    handles += [
        (Line2D([], [], marker="o", **dot), "K_max of each seed"),
        (Line2D([], [], **bar), "95 % interval, over seeds or of one seed's samples"),
        (Line2D([], [], **_GREY), "true renders; below: as many as requested"),
        (Line2D([], [], linestyle=_CHANCE, **_GREY), "chance: requests of other samples"),
        (Patch(color="0.94"), "numbers of objects seen in training"),
    ]
    lines, words = zip(*handles, strict=True)
    figure.legend(lines, words, loc="outside lower center", ncols=3, fontsize=8.5, frameon=False)
