"""Figure: the trained models that continue beyond training are those that are local.

Left, a row a model and a column a noise level: on which pixels of the noisy image the middle of the
square depends (dark: most), and on which requested objects (crosses, with their shares). Right:
both localities over noise, means over seeds, and K_max beyond training over conditional locality,
where small points are earlier in training. Weights that are sampled in two ways are counted once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from textwrap import wrap
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from recombine.figures import CONDITIONS, HUES, MOST, NETWORKS, key, plain, suffixed
from recombine.measure.locality import HIGH, RADIUS
from recombine.report.correlation import rank_correlation
from recombine.report.queries import checkpoints, finals
from recombine.report.table import interval, number
from recombine.report.templates import ONCE

STUDY = "length"
PAIR = ("conditional_locality", "beyond_objects")
"""What the scatter shows: K_max beyond training, over locality."""
SHOWN = ("grid_all", "grid_one", "list_all", "grid_one-local-guided")
"""The cells with heat maps: one network in three conditions, and a repair."""
DASHES: dict[str, Any] = {
    "grid_all": "solid",
    "grid_one": (0, (5, 1.5)),
    "list_all": (0, (1, 1.2)),
    "list_all_slots": (0, (7, 1.5, 1, 1.5)),
}
MARKERS = {"grid_all": "o", "grid_one": "s", "list_all": "^", "list_all_slots": "D"}
_SIZES = (70, 34, 14)
"""Of a point at the end of training, before it, and earlier."""
_APART = 0.2
"""How far points of two seeds are set apart; K_max is a whole number."""


@dataclass(frozen=True)
class HeatMap:
    """What one requested place depends on: pixels (0 to 1, in rows), and every requested object."""

    sigma: float
    place: tuple[float, float]
    pixels: np.ndarray
    requested: np.ndarray
    shares: np.ndarray

    @property
    def own(self) -> int:
        """The number of the object that is requested at this place."""
        return int(np.linalg.norm(self.requested - np.array(self.place), axis=1).argmin())


def heat_maps(arrays: Mapping[str, np.ndarray], run: str) -> list[HeatMap]:
    """Return the maps of a run (grid_all/seed0) from the lowest noise, at its lowest place."""
    places = arrays.get(f"{run}/locality_places")
    if places is None:
        return []
    lowest = int(places[:, 1].argmax())
    begin = f"{run}/locality_map@"
    levels = sorted(
        (name.removeprefix(begin) for name in arrays if name.startswith(begin)), key=float
    )
    at = (float(places[lowest, 0]), float(places[lowest, 1]))
    return [
        HeatMap(
            float(level),
            at,
            arrays[f"{begin}{level}"][lowest] / 255,
            places,
            arrays[f"{run}/locality_objects@{level}"][lowest].astype(float),
        )
        for level in levels
    ]


def draw(table: pd.DataFrame, arrays: Mapping[str, np.ndarray]) -> Figure:
    """Draw heat maps at the left, locality over noise and the scatter at the right."""
    counted = [not fnmatchcase(f"{cell}/", ONCE[0]) for cell in table["cell"]]
    table = table[counted]
    known = list(dict.fromkeys(table[table["measurement"] == PAIR[0]]["cell"]))
    maps = {cell: _first_maps(table, arrays, cell) for cell in SHOWN if cell in known}
    columns = max([1, *(len(found[::2]) for found in maps.values())])
    figure = Figure(figsize=(1.7 * columns + 8.2, 9.4), layout="constrained")
    halves: Any = figure.subfigures(1, 2, width_ratios=[1.7 * columns + 1.5, 6.7])
    left, right = halves
    if maps:
        panels = left.subplots(len(maps), columns, squeeze=False)
        for row, (cell, found) in zip(panels, maps.items(), strict=True):
            _row(list(row), key(table, cell), found[::2])
        _explain(left)
    conditional, pixel, scatter = right.subplots(3, 1, height_ratios=[1, 1, 1.6])
    usual = table[(table["objects"] == "up_to_3") & table["cell"].isin(known)]
    _over_noise(conditional, usual, "conditional_locality", _places(arrays))
    _over_noise(pixel, usual, "pixel_locality", 0)
    conditional.sharex(pixel)
    _scatter(scatter, table[table["cell"].isin(known)])
    _legend(right, table[table["cell"].isin(known)])
    return figure


def _first_maps(table: pd.DataFrame, arrays: Mapping[str, np.ndarray], cell: str) -> list[HeatMap]:
    seeds = sorted(table[table["cell"] == cell]["seed"].unique())
    return next((found for s in seeds if (found := heat_maps(arrays, f"{cell}/seed{s}"))), [])


def _places(arrays: Mapping[str, np.ndarray]) -> int:
    """Return how many places are requested in the scenes of the maps."""
    return max((len(each) for name, each in arrays.items() if name.endswith("_places")), default=0)


def words(levels: Mapping[str, Any]) -> str:
    """Return what a cell is, in words."""
    return f"{NETWORKS[levels['network']]}, {CONDITIONS[levels['condition']]}"


def _row(row: Sequence[Axes], levels: Mapping[str, Any], maps: Sequence[HeatMap]) -> None:
    for axes, shown in zip(row, maps, strict=False):
        draw_map(axes, shown)
        axes.set_title(f"noise {number(shown.sigma)}", fontsize=8.5, pad=3)
    for axes in row[len(maps) :]:
        axes.set_visible(False)
    label = "\n".join(wrap(words(levels), 18))
    row[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=8.5)


def draw_map(axes: Axes, shown: HeatMap) -> None:
    """Draw one heat map with its requested places, each with its share of the influence here."""
    # Square roots, so that faint influence shows; not up to black, so that crosses do.
    shades: dict[str, Any] = {"vmin": 0, "vmax": 1.7, "interpolation": "nearest"}
    axes.imshow(shown.pixels**0.5, cmap="Greys", extent=(0, 1, 1, 0), **shades)
    x, y = shown.place
    near: dict[str, Any] = {"fill": False, "edgecolor": "0.2", "linewidth": 0.9}
    axes.add_patch(Rectangle((x - RADIUS, y - RADIUS), 2 * RADIUS, 2 * RADIUS, **near))
    for (right, down), share in zip(shown.requested, shown.shares, strict=True):
        axes.plot(right, down, "x", color="0.7", markersize=6, markeredgewidth=1)
        cross: dict[str, Any] = {"markersize": 6, "markeredgewidth": 2, "color": "#CC0000"}
        axes.plot(right, down, "x", alpha=float(np.clip(share, 0, 1)), **cross)
        style: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 7, "color": "0.15"}
        axes.text(right, down - 0.035, f"{100 * share:.0f} %", **style)
    axes.set(xlim=(0, 1), ylim=(1, 0), xticks=[], yticks=[])
    axes.spines[:].set_color("0.8")


def _explain(part: Any) -> None:
    """Say what the marks of a heat map mean."""
    cross = Line2D([], [], color="#CC0000", marker="x", linestyle="", markeredgewidth=2)
    square = Line2D([], [], color="0.2", marker="s", linestyle="", fillstyle="none")
    handles = [Patch(color="0.6"), square, cross]
    said = [
        "influence of a noisy pixel on the middle of the square",
        "what counts as near",
        "a requested object, its share of the influence there",
    ]
    part.legend(handles, said, loc="outside lower center", fontsize=8, frameon=False)


def _over_noise(axes: Axes, table: pd.DataFrame, name: str, places: int) -> None:
    axes.axvspan(*HIGH, color="0.94", linewidth=0, zorder=0)
    mine = finals(table)
    mine = mine[mine["measurement"].str.startswith(f"{name}@")]
    for cell, rows in mine.groupby("cell", sort=False):
        levels = key(table, str(cell))
        points = [(at, each.value) for at, each in suffixed(rows, name).items()]
        style: dict[str, Any] = {"color": HUES[levels["network"]], "linewidth": 1.6}
        axes.plot(*zip(*points, strict=True), linestyle=DASHES[levels["condition"]], **style)
    axes.set(xscale="log", ylim=(0, 1.03))
    axes.set_title(f"{name.replace('_', ' ')} (1: local), over noise", loc="left", fontsize=10)
    axes.set_xlabel("sigma (shaded: high noise; no line where undefined)", fontsize=9)
    if places > 1:
        axes.axhline(1 / places, color="0.4", linewidth=0.8, linestyle=":", zorder=0)
        said = f"1/{places}: every object has the same influence"
        style = {"transform": axes.get_yaxis_transform(), "fontsize": 7.5, "color": "0.4"}
        axes.text(0.01, 1 / places - 0.03, said, va="top", **style)
    plain(axes)


def _scatter(axes: Axes, table: pd.DataFrame) -> None:
    pairs = checkpoints(table, PAIR)
    for run, points in pairs.items():
        cell, _, seed = run.partition("/seed")
        levels, seeds = key(table, cell), table[table["cell"] == cell]["seed"].nunique()
        apart = _APART * (int(seed) - 1) * (seeds > 1)
        # The end first, so that early points of the same place lie on it.
        places = [(x, y + apart) for x, y in reversed(points)]
        hue = HUES[levels["network"]]
        axes.plot(*zip(*places, strict=True), color=hue, linewidth=0.6, alpha=0.5, zorder=2)
        sizes = [*_SIZES, *_SIZES[-1:] * (len(points) - 3)][: len(points)]
        usual = levels["objects"] == "up_to_3"
        filled = {"facecolors": hue, "edgecolors": "white"}
        look: dict[str, Any] = filled if usual else {"facecolors": "none", "edgecolors": hue}
        look["marker"] = MARKERS[levels["condition"]]
        axes.scatter([x for x, _ in places], [y for _, y in places], s=sizes, zorder=3, **look)
        if not usual:
            place: dict[str, Any] = {"xytext": (7, 3), "textcoords": "offset points"}
            axes.annotate(str(MOST[levels["objects"]]), places[0], color=hue, fontsize=8, **place)
    found = rank_correlation([points[-1:] for points in pairs.values()])
    said = "too few runs to correlate"
    if found is not None:
        ends = interval(found.value, found.low, found.high)
        said = f"Spearman {ends} over the ends of {found.n} runs"
    axes.set_title(f"K_max beyond training\n{said}", loc="left", fontsize=10)
    axes.set_xlabel("conditional locality at high noise", fontsize=9)
    axes.set_ylabel("K_max minus the most objects seen", fontsize=9)
    axes.axhline(0, color="0.85", linewidth=0.8, zorder=0)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    plain(axes)


def _legend(part: Any, table: pd.DataFrame) -> None:
    """Say what hues, dashes and points mean."""
    handles: list[tuple[Any, str]] = [
        (Line2D([], [], color=HUES[name], linewidth=1.8), said)
        for name, said in NETWORKS.items()
        if name in set(table["network"])
    ]
    ink: dict[str, Any] = {"color": "0.25", "linewidth": 1.6, "markersize": 5.5}
    handles += [
        (Line2D([], [], linestyle=DASHES[name], marker=MARKERS[name], **ink), said)
        for name, said in CONDITIONS.items()
        if name in set(table["condition"])
    ]
    point: dict[str, Any] = {"linestyle": "", "marker": "o", "color": "0.25"}
    handles += [
        (Line2D([], [], markersize=3, **point), "small point: earlier in training"),
        (
            Line2D([], [], markersize=6, fillstyle="none", **point),
            "hollow: trained on at most 1 or 5 objects, as written; else 3",
        ),
    ]
    lines, said = zip(*handles, strict=True)
    part.legend(
        lines, said, loc="outside lower center", ncols=2, handlelength=4, fontsize=8, frameon=False
    )
