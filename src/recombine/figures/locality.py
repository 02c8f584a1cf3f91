"""Figure: when trained, the models that go on beyond training are those that listen locally.

Reads the records of experiments/locality.py. Left, a row per model (its first seed) and a column
per noise level: which pixels of the noisy image the middle of the square listens to (dark: most;
the square is what counts as near), and which told objects (crosses; per cent, red: much). That is
the lowest place of one scene; the number beside it is of all places and scenes. Right: both
localities over noise, mean over seeds, shaded high noise; and K_max beyond training over
conditional locality, a point per checkpoint: small early in training, where locality is there
before K_max, large at its end. Models that were trained on more or fewer objects than most are
points only, with that number beside them. Weights that are sampled a second time, with guidance or
without, are drawn hollow and not counted again. Locality is never measured under guidance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, mode
from textwrap import wrap
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from recombine.figures import DASHES, TOLD_COLOURS
from recombine.measure.locality import HIGH, RADIUS
from recombine.measurement import Number
from recombine.report.record import Record
from recombine.report.table import checkpoints, correlation, number, quoted, variant

PAIR = ("conditional_locality", "beyond_objects")
"""What the scatter shows: K_max beyond training, over locality."""
SAMPLED_AGAIN = ("_guided", "_unguided")
"""How variants end that are the weights of another one, sampled in another way."""
_MARKERS = {"_local": "s", "_global_window": "^", "_channels": "D", "_anywhere": "v"}
_SIZES = (70, 34, 14)
"""Of a point at the end of training, before it, and earlier."""
_SIDE = 1.4
"""Of a heat map, in inches."""
_APART = 0.2
"""How far points of two seeds are set apart; K_max is a whole number."""


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
    def counted(self) -> bool:
        """Whether its weights are its own."""
        return not self.variant.endswith(SAMPLED_AGAIN)

    @property
    def trained_on(self) -> int:
        """The most objects that it has seen in one image; 0 where that is not told."""
        return int(self.runs[0].curves.get("length_trained_on", [0])[0])

    @property
    def title(self) -> str:
        """Its name, and the conditional locality of its first run at high noise."""
        high = self.runs[0].measurements.get("conditional_locality")
        lines = wrap(self.variant.replace("_", " "), 14)
        return "\n".join(lines if high is None else [*lines, f"locality {number(high.value)}"])

    @property
    def words(self) -> str:
        """Its name, and the K_max of its seeds."""
        found = [run.measurements.get("k_max") for run in self.runs]
        most = " and ".join(dict.fromkeys(number(each.value) for each in found if each is not None))
        guided = ", guided" * any("guidance=Guidance(" in run.experiment for run in self.runs)
        return f"{self.variant} (K_max {most}{guided})" if most else self.variant

    def _of(self, looks: Mapping[str, Any], plain: Any) -> Any:
        found = [look for name, look in looks.items() if name in self.variant]
        return found[0] if found else plain

    @property
    def line(self) -> dict[str, Any]:
        """How its line is drawn; dashes of lists begin later, so that those of grids show too."""
        dashes = self._of(DASHES, None)
        start = sum(dashes) / 2 if dashes and self.variant.startswith("list") else 0
        style = (start, (dashes[0] / 2, *dashes[1:]) if dashes else None)
        return {"color": self.colour, "linestyle": style, "linewidth": 1.6, "label": self.variant}

    @property
    def point(self) -> dict[str, Any]:
        """How its points are drawn."""
        filled = {"facecolors": self.colour, "edgecolors": "white", "linewidths": 0.6}
        hollow = {"facecolors": "none", "edgecolors": self.colour, "linewidths": 1.0}
        look = filled if self.counted else hollow
        return {"marker": self._of(_MARKERS, "o"), **look, "zorder": 3}

    def over_noise(self, name: str) -> tuple[list[float], list[float]]:
        """Return the levels at which this is defined, and the mean over seeds there."""
        levels = [level for run in self.runs for level in run.curves.get("locality_levels", [])]
        found = {}
        for level in dict.fromkeys(levels):
            measured = [run.measurements.get(f"{name}@{level}") for run in self.runs]
            if values := [each.value for each in measured if each is not None]:
                found[float(level)] = fmean(values)
        return list(found), list(found.values())


def draw(records: Sequence[Record]) -> Figure:
    """Draw heat maps at the left, locality over noise and the scatter at the right."""
    models = _models(records)
    if not models:
        raise ValueError("locality is drawn from 1 record or more; got none")
    usual = mode(model.trained_on for model in models)
    alone = [model for model in models if model.counted and model.trained_on == usual] or models
    maps = [kept_maps(model.runs[0]) for model in alone]
    columns = max(1, *map(len, maps))
    height = max(_SIDE * len(alone) + 0.4, 11.0)
    figure = Figure(figsize=(_SIDE * columns + 8.0, height), layout="constrained")
    halves: Any = figure.subfigures(1, 2, width_ratios=[_SIDE * columns + 1.2, 6.8])
    left, right = halves
    panels = left.subplots(len(alone), columns, squeeze=False)
    for row, model in zip(panels, alone, strict=True):
        _row(list(row), model)
    for axes, shown in zip(panels[0], maps[0], strict=False):
        axes.set_title(f"sigma {shown['sigma']}", fontsize=9, pad=3)
    conditional, pixel, scatter = right.subplots(3, 1, height_ratios=[1, 1, 1.7])
    conditional.sharex(pixel)
    _over_noise(conditional, alone, "conditional_locality")
    _over_noise(pixel, alone, "pixel_locality")
    pixel.legend(frameon=False, fontsize=8, ncols=2, loc="lower left", handlelength=3.5)
    _scatter(scatter, models, usual)
    return figure


def _models(records: Sequence[Record]) -> list[Model]:
    variants: dict[str, list[Record]] = {}
    for record in sorted(records, key=lambda record: record.seed):
        variants.setdefault(variant(record), []).append(record)
    models = [Model(name, runs) for name, runs in variants.items()]
    # Plain networks first, as told in the order of TOLD_COLOURS.
    told = list(TOLD_COLOURS.values())
    return sorted(models, key=lambda model: (len(model.variant.split("_")), _at(told, model)))


def _at(told: Sequence[str], model: Model) -> int:
    return told.index(model.colour) if model.colour in told else len(told)


def kept_maps(record: Record) -> list[dict[str, Any]]:
    """Return the heat maps of the told place that is lowest in the image, from the lowest sigma."""
    maps = record.curves.get("locality_maps", [])
    lowest = max((each["pixel"] for each in maps), key=lambda pixel: pixel[1], default=None)
    return [each for each in maps if each["pixel"] == lowest]


def draw_map(axes: Axes, shown: Mapping[str, Any], places: Sequence[Sequence[float]]) -> None:
    """Draw one heat map with its told places, each with the share of it that is heard here."""
    # Square roots, so that faint influence shows; not up to black, so that crosses do.
    roots = [[int(each) ** 0.5 for each in line.split()] for line in shown["map"]]
    shades: dict[str, Any] = {"vmin": 0, "vmax": 1.7 * 999**0.5, "interpolation": "nearest"}
    axes.imshow(roots, cmap="Greys", extent=(0, 1, 1, 0), **shades)
    x, y = shown["pixel"]
    near: dict[str, Any] = {"fill": False, "edgecolor": "0.2", "linewidth": 0.9}
    axes.add_patch(Rectangle((x - RADIUS, y - RADIUS), 2 * RADIUS, 2 * RADIUS, **near))
    for (right, down), heard in zip(places, shown["heard"], strict=False):
        axes.plot(right, down, "x", color="0.7", markersize=6, markeredgewidth=1)
        cross: dict[str, Any] = {"markersize": 6, "markeredgewidth": 2}
        axes.plot(right, down, "x", color="#CC0000", alpha=min(heard, 1.0), **cross)
        words: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 7, "color": "0.15"}
        axes.text(right, down - 0.035, f"{100 * heard:.0f}", **words)
    axes.set(xlim=(0, 1), ylim=(1, 0), xticks=[], yticks=[])
    axes.spines[:].set_color("0.8")


def _row(row: Sequence[Axes], model: Model) -> None:
    """Draw the heat maps of one model, one noise level beside the other."""
    for axes in row:
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_color("0.8")
    beside: dict[str, Any] = {"rotation": 0, "ha": "right", "va": "center"}
    row[0].set_ylabel(model.title, fontsize=8.5, color=model.colour, **beside)
    places = model.runs[0].curves.get("locality_places", [])
    for axes, shown in zip(row, kept_maps(model.runs[0]), strict=False):
        draw_map(axes, shown, places)


def _over_noise(axes: Axes, models: Sequence[Model], name: str) -> None:
    axes.axvspan(*HIGH, color="0.94", linewidth=0, zorder=0)
    for model in models:
        axes.plot(*model.over_noise(name), **model.line)
    axes.set(xscale="log", ylim=(0, 1.03))
    axes.set_title(f"{name.replace('_', ' ')} (1: local)", loc="left", fontsize=10)
    axes.set_xlabel("sigma (shaded: high noise; no line where undefined)", fontsize=9)
    told = [len(model.runs[0].curves.get("locality_places", [])) for model in models]
    if name.startswith("conditional") and max(told) > 1:
        words = f"1/{max(told)}: the own object is heard like any other"
        axes.axhline(1 / max(told), color="0.4", linewidth=0.8, linestyle=":", zorder=0)
        axes.text(0.01, 1 / max(told) - 0.03, words, **_beside(axes), va="top")
    _finish(axes)


def _beside(axes: Axes) -> dict[str, Any]:
    return {"transform": axes.get_yaxis_transform(), "fontsize": 7.5, "color": "0.4"}


def _scatter(axes: Axes, models: Sequence[Model], usual: int) -> None:
    for model in models:
        as_usual = model.trained_on == usual
        for seed, run in enumerate(model.runs):
            # The end first, so that early points of the same place lie on it.
            points = checkpoints(run, PAIR)[::-1]
            apart = _APART * (seed - (len(model.runs) - 1) / 2)
            places = [x for x, _ in points], [y + apart for _, y in points]
            sizes = [*_SIZES, *_SIZES[-1:] * (len(points) - 3)][: len(points)]
            axes.plot(*places, color=model.colour, linewidth=0.6, alpha=0.5, zorder=2)
            label = model.words if seed == 0 and as_usual else None
            axes.scatter(*places, s=sizes, label=label, **model.point)
            if points and not as_usual:
                _note(axes, (places[0][0], places[1][0]), model)
    _said(axes, [run for model in models if model.counted for run in model.runs])
    axes.set_xlabel("conditional locality at high noise (small: early in training)", fontsize=9)
    axes.set_ylabel("K_max minus the most objects seen", fontsize=9)
    axes.axhline(0, color="0.85", linewidth=0.8, zorder=0)
    _legend(axes, [model.trained_on for model in models], usual)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    _finish(axes)


def _note(axes: Axes, at: tuple[Number, Number], model: Model) -> None:
    """Write beside a point on how many objects it was trained."""
    style: dict[str, Any] = {"fontsize": 8, "color": model.colour, "ha": "center", "zorder": 5}
    outlined = [withStroke(linewidth=2, foreground="white")]
    place: dict[str, Any] = {"xytext": (0, 6), "textcoords": "offset points"}
    axes.annotate(str(model.trained_on), at, **place, **style, path_effects=outlined)


def _said(axes: Axes, runs: Sequence[Record]) -> None:
    """Put Spearman's coefficient above: over the ends of runs, and over all checkpoints."""
    ends, every = correlation(runs, PAIR, slice(-1, None)), correlation(runs, PAIR)
    said = "too few runs to correlate"
    if ends and every:
        said = f"Spearman {quoted(ends)} ends of runs"
        said += f"; {number(every.value)}, n = {every.n} checkpoints" if every.n > ends.n else ""
    axes.set_title(f"K_max beyond training\n{said}", loc="left", fontsize=10)


def _legend(axes: Axes, trained_on: Sequence[int], usual: int) -> None:
    lines = ["hollow: the same weights again, not counted"]
    if set(trained_on) - {usual}:
        lines.append(f"digits: trained on at most so many objects, else {usual}")
    title: dict[str, Any] = {"title": "\n".join(lines), "title_fontsize": 8, "alignment": "left"}
    legend = axes.legend(frameon=False, fontsize=8, **title)
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set(sizes=[_SIZES[1]])


def _finish(axes: Axes) -> None:
    axes.tick_params(labelsize=8, length=3)
    axes.spines[["top", "right"]].set_visible(False)
