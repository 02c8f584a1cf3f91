"""Figure: models whose pixels hear only the object at their own place go on beyond training.

Reads the records of experiments/locality.py. Left, a row per model (its first seed) and a column
per noise level: which pixels of the noisy image the dotted pixel listens to (black: most; the
square is what counts as near), and which told objects (crosses, red: much). Right: both localities
over noise, mean over seeds, shaded high noise; and K_max beyond training over conditional
locality, a point per checkpoint, small for early ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from recombine.figures import NETWORK_DASHES, TOLD_COLOURS
from recombine.measure.locality import HIGH, RADIUS
from recombine.measurement import Number
from recombine.report.correlation import Pairs, rank_correlation
from recombine.report.record import Record
from recombine.report.table import quoted

_MARKERS = {"_local": "s", "_global_window": "^", "_channels": "D"}
_SIZES = (14, 32, 60)
"""Of an early, a middle and a late point."""


@dataclass(frozen=True)
class Model:
    """The runs of one variant, which differ in their seed only."""

    variant: str
    runs: Sequence[Record]

    @property
    def colour(self) -> str:
        """The hue of what it is told."""
        known = [colour for name, colour in TOLD_COLOURS.items() if self.variant.startswith(name)]
        return known[0] if known else "0.3"

    @property
    def words(self) -> str:
        """Its name, as one says it."""
        return self.variant.replace("_", " ")

    def _of(self, looks: Mapping[str, Any], plain: Any) -> Any:
        found = [look for name, look in looks.items() if name in self.variant]
        return found[0] if found else plain

    @property
    def line(self) -> dict[str, Any]:
        """How its line is drawn."""
        dashes = self._of(NETWORK_DASHES, None)
        style = (0, dashes) if dashes else "solid"
        return {"color": self.colour, "linestyle": style, "linewidth": 1.5, "label": self.words}

    @property
    def marker(self) -> str:
        """The shape of its points."""
        return self._of(_MARKERS, "o")

    def over_noise(self, name: str) -> tuple[list[float], list[float]]:
        """Return the levels at which this is defined, and the mean over seeds there."""
        levels = [level for run in self.runs for level in run.curves.get("locality_levels", [])]
        found = {}
        for level in dict.fromkeys(levels):
            measured = [run.measurements.get(f"{name}@{level}") for run in self.runs]
            if values := [each.value for each in measured if each is not None]:
                found[float(level)] = fmean(values)
        return list(found), list(found.values())


def checkpoints(run: Record) -> list[tuple[Number, Number]]:
    """Return conditional locality and K_max beyond training, from the first milestone to the end.

    A milestone at which either is undefined has no point.
    """
    names = ("conditional_locality", "beyond_objects")
    early, late = (dict(run.curves.get(name, [])) for name in names)
    pairs = [(early[step], late[step]) for step in sorted(early.keys() & late.keys())]
    end = [run.measurements.get(name) for name in names]
    if end[0] is not None and end[1] is not None:
        pairs.append((end[0].value, end[1].value))
    return pairs


def draw(records: Sequence[Record]) -> Figure:
    """Draw heat maps at the left, locality over noise and the scatter at the right."""
    models = _models(records)
    if not models:
        raise ValueError("locality is drawn from 1 record or more; got none")
    columns = max(1, *(len(_levels(model)) for model in models))
    height = max(1.45 * len(models) + 0.5, 8.5)
    figure = Figure(figsize=(1.45 * columns + 7.5, height), layout="constrained")
    halves: Any = figure.subfigures(1, 2, width_ratios=[1.45 * columns + 1, 6.0])
    left, right = halves
    panels = left.subplots(len(models), columns, squeeze=False)
    for row, model in zip(panels, models, strict=True):
        _maps(list(row), model)
    for axes, level in zip(panels[0], _levels(models[0]), strict=False):
        axes.set_title(f"sigma {level}", fontsize=9, pad=3)
    conditional, pixel, scatter = right.subplots(3, 1, height_ratios=[1, 1, 1.3])
    conditional.sharex(pixel)
    _over_noise(conditional, models, "conditional_locality")
    _over_noise(pixel, models, "pixel_locality")
    pixel.legend(frameon=False, fontsize=7.5, ncols=2, loc="lower left", handlelength=3.5)
    _scatter(scatter, models)
    return figure


def _models(records: Sequence[Record]) -> list[Model]:
    variants: dict[str, list[Record]] = {}
    for record in records:
        # What was overridden stays in the name: a longer run is another model.
        variant = record.command.split(":", 1)[-1].rsplit(" --seed", 1)[0]
        variants.setdefault(variant, []).append(record)
    return [Model(variant, runs) for variant, runs in variants.items()]


def _shown(model: Model) -> list[dict[str, Any]]:
    """Return the maps of the told place that is lowest in the image of its first run."""
    maps = model.runs[0].curves.get("locality_maps", [])
    lowest = max((each["pixel"] for each in maps), key=lambda pixel: pixel[1], default=None)
    return [each for each in maps if each["pixel"] == lowest]


def _levels(model: Model) -> list[str]:
    return [each["sigma"] for each in _shown(model)]


def _maps(row: Sequence[Axes], model: Model) -> None:
    """Draw the heat maps of one model, one noise level beside the other."""
    for axes in row:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_color("0.8")
    row[0].set_ylabel(model.words, fontsize=8, color=model.colour)
    for axes, shown in zip(row, _shown(model), strict=False):
        heat = [[int(number) for number in line.split()] for line in shown["map"]]
        # Square roots, so that faint influence shows.
        roots = [[number**0.5 for number in line] for line in heat]
        axes.imshow(roots, cmap="Greys", extent=(0, 1, 1, 0), interpolation="nearest")
        x, y = shown["pixel"]
        near: dict[str, Any] = {"fill": False, "edgecolor": "C0", "linewidth": 0.8}
        axes.add_patch(Rectangle((x - RADIUS, y - RADIUS), 2 * RADIUS, 2 * RADIUS, **near))
        places = model.runs[0].curves.get("locality_places", [])
        for (right, down), heard in zip(places, shown["heard"], strict=False):
            axes.plot(right, down, "x", color="0.8", markersize=6, markeredgewidth=1)
            cross: dict[str, Any] = {"markersize": 6, "markeredgewidth": 2}
            axes.plot(right, down, "x", color="#CC0000", alpha=min(heard, 1.0), **cross)
        axes.plot(x, y, ".", color="C0", markersize=4)
        axes.set(xlim=(0, 1), ylim=(1, 0))


def _over_noise(axes: Axes, models: Sequence[Model], name: str) -> None:
    axes.axvspan(*HIGH, color="0.94", linewidth=0, zorder=0)
    for model in models:
        axes.plot(*model.over_noise(name), **model.line)
    axes.set(xscale="log", ylim=(0, 1.03))
    axes.set_title(f"{name.replace('_', ' ')} (1: local)", loc="left", fontsize=10)
    axes.set_xlabel("sigma (shaded: high noise; no line where undefined)", fontsize=9)
    _finish(axes)


def _scatter(axes: Axes, models: Sequence[Model]) -> None:
    runs = []
    for model in models:
        for number, run in enumerate(model.runs):
            points = checkpoints(run)
            runs.append(points)
            sizes = [*_SIZES[:1] * (len(points) - 3), *_SIZES][-len(points) :] if points else []
            label = model.words if number == 0 else None
            look: dict[str, Any] = {"color": model.colour, "marker": model.marker, "label": label}
            axes.scatter(*_split(points), s=sizes, alpha=0.75, edgecolors="white", **look)
    found = rank_correlation(runs)
    said = f"Spearman {quoted(found)} checkpoints" if found else "too few checkpoints to correlate"
    axes.set_title(f"K_max beyond training; {said}", loc="left", fontsize=10)
    axes.set_xlabel("conditional locality at high noise (large: end of training)", fontsize=9)
    axes.legend(frameon=False, fontsize=7.5, ncols=2)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    _finish(axes)


def _finish(axes: Axes) -> None:
    axes.tick_params(labelsize=8, length=3)
    axes.spines[["top", "right"]].set_visible(False)


def _split(points: Pairs) -> tuple[list[Number], list[Number]]:
    return [x for x, _ in points], [y for _, y in points]
