"""Figure: models that hear each place where it is go on beyond training; the others do not.

Reads the records of experiments/length_generalization.py, and of experiments/locality.py, which
asks the same. Left: the share of samples that succeed,
over the number of told places; lines are means over seeds, bars the exact interval of each seed,
dots the K_max of each seed; grey are true renders (ceiling) and shuffled conditions (chance).
Right: the objects found in a sample; bars are Student's intervals. One row per training set.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, TypeAlias

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recombine.figures import DASHES, TOLD_COLOURS
from recombine.measurement import Measurement, Number
from recombine.report.record import Record

BESIDES = ("locality",)
_THIN: dict[str, Any] = {"color": "0.6", "linewidth": 0.8}
_WORDS = {"grid_all": "grid, all told", "grid_one": "grid, one told", "list_all": "list, all told"}

Points: TypeAlias = list[tuple[int, float]]


@dataclass(frozen=True)
class Line:
    """The runs of one variant, which differ in their seed only."""

    variant: str
    runs: Sequence[Record]

    @property
    def told(self) -> str:
        """Which of the three ways of telling this is, or none of them."""
        return next((name for name in TOLD_COLOURS if self.variant.startswith(name)), "")

    @property
    def look(self) -> dict[str, Any]:
        """How the line is drawn."""
        dashes = [each for name, each in DASHES.items() if name in self.variant]
        style = (0, dashes[0]) if dashes else "solid"
        colour = TOLD_COLOURS.get(self.told, "black")
        # The same weights drawn from in another way: beside the point, hence faint.
        faint = {"alpha": 0.4} if "guided" in self.variant else {}
        return {"color": colour, "linestyle": style, "linewidth": 1.8, **faint}

    @property
    def words(self) -> str:
        """What stands beside the line."""
        rest = self.variant.removeprefix(self.told).replace("_", " ").strip()
        told = _WORDS.get(self.told, "")
        # The row already says on how many objects it was trained.
        rest = rest.removesuffix(" 1").removesuffix(" 5") if not rest.isdigit() else ""
        return ", ".join(word for word in (told, rest) if word)

    def each(self, name: str) -> dict[int, list[Measurement]]:
        """Return the measurement of every seed, by the number of told places."""
        found: dict[int, list[Measurement]] = {}
        told = {k for run in self.runs for k in run.curves.get("length_objects", [])}
        # To draw nothing when told of nothing is another question.
        for k in sorted(told - {0} if name.startswith("success") else told):
            seeds = [run.measurements.get(f"{name}@{k}") for run in self.runs]
            if measured := [seed for seed in seeds if seed is not None]:
                found[k] = measured
        return found

    def mean(self, name: str) -> Points:
        """Return the mean over seeds, by the number of told places."""
        return [(k, fmean(run.value for run in runs)) for k, runs in self.each(name).items()]


@dataclass(frozen=True)
class Label:
    """Words to be written beside the end of a line."""

    words: str
    y: Number
    look: dict[str, Any]


def draw(records: Sequence[Record]) -> Figure:
    """Draw a row per training set: success at the left, the objects found at the right."""
    rows: dict[int, list[Record]] = {}
    for record in records:
        rows.setdefault(record.curves.get("length_trained_on", [0])[0], []).append(record)
    figure = Figure(figsize=(11, 3.9 * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), 2, squeeze=False)
    for (left, right), (objects, runs) in zip(panels, sorted(rows.items()), strict=True):
        lines = _lines(runs)
        _success(left, lines)
        _count(right, lines)
        for axes in (left, right):
            _finish(axes, objects, lines)
    return figure


def _lines(records: Sequence[Record]) -> list[Line]:
    variants: dict[str, list[Record]] = {}
    for record in records:
        # What was overridden stays in the name: a longer run is another line.
        variant = record.command.split(":", 1)[-1].rsplit(" --seed", 1)[0]
        variants.setdefault(variant, []).append(record)
    known = list(TOLD_COLOURS)
    lines = [Line(variant, runs) for variant, runs in variants.items()]
    return sorted(lines, key=lambda line: known.index(line.told) if line.told else len(known))


def _success(axes: Axes, lines: Sequence[Line]) -> None:
    labels = _curves(axes, lines, "success")
    for name in ("ceiling", "chance"):
        greys = [points for line in lines if (points := line.mean(f"success_{name}"))]
        for points in greys:
            axes.plot(*_split(points), zorder=1, **_THIN)
        labels += [Label(name, points[-1][1], _THIN) for points in greys[:1]]
    for line in lines:
        for run in line.runs:
            _mark(axes, run, line.look)
    _write(axes, _last(lines), labels, top=1.0)
    axes.set_title(
        "share of samples that succeed (dots: K_max of each seed)", loc="left", fontsize=10
    )


def _count(axes: Axes, lines: Sequence[Line]) -> None:
    most = _last(lines)
    axes.plot([0, most], [0, most], zorder=1, **_THIN)
    labels = _curves(axes, lines, "count")
    _write(axes, most, labels, top=max([most, *(label.y for label in labels)]))
    axes.set_title("objects found (grey: as many as told)", loc="left", fontsize=10)


def _last(lines: Sequence[Line]) -> int:
    return max((k for line in lines for k in line.each("count")), default=1)


def _curves(axes: Axes, lines: Sequence[Line], name: str) -> list[Label]:
    """Draw every line and return what is to be written beside it."""
    middle = (len(lines) - 1) / 2
    for number, line in enumerate(lines):
        _curve(axes, line, name, 0.07 * (number - middle))
    drawn = [(line, points[-1][1]) for line in lines if (points := line.mean(name))]
    return [Label(line.words, end, line.look) for line, end in drawn]


def _curve(axes: Axes, line: Line, name: str, shift: float) -> None:
    """Draw the mean over seeds and, a little aside, the interval of each seed."""
    axes.plot(*_split(line.mean(name)), zorder=3, **line.look)
    for k, seeds in line.each(name).items():
        for seed in seeds:
            if seed.low is not None and seed.high is not None:
                at = [k + shift, k + shift], [seed.low, seed.high]
                axes.plot(*at, color=line.look["color"], linewidth=0.9, alpha=0.6, zorder=2)


def _mark(axes: Axes, run: Record, look: dict[str, Any]) -> None:
    """Put a dot at K_max; no line reaches one of 0."""
    reached = run.measurements.get("k_max")
    if reached and reached.value > 0:
        at = [reached.value], [run.measurements[f"success@{reached.value}"].value]
        dot: dict[str, Any] = {"markersize": 6.5, "markeredgecolor": "white", "zorder": 4}
        axes.plot(*at, "o", color=look["color"], alpha=look.get("alpha"), **dot)


def _write(axes: Axes, last: int, labels: Sequence[Label], top: Number) -> None:
    """Write beside the right end of each line, one above the other where words would meet."""
    gap = 0.07 * top
    labels = sorted(labels, key=lambda label: label.y)
    heights = [label.y for label in labels]
    for index in range(1, len(heights)):
        heights[index] = max(heights[index], heights[index - 1] + gap)
    ceiling = top + gap
    for index in reversed(range(len(heights))):
        heights[index] = ceiling = min(heights[index], ceiling - gap)
    for label, height in zip(labels, heights, strict=True):
        swatch = [last + 0.5, last + 1.5], [height, height]
        axes.plot(*swatch, clip_on=False, **label.look)
        style: dict[str, Any] = {"color": label.look["color"], "fontsize": 8.5, "va": "center"}
        axes.annotate(label.words, (last + 1.75, height), annotation_clip=False, **style)
    axes.set_xlim(-0.3, last + 0.4)
    axes.set_ylim(-0.03 * top, 1.04 * top)


def _finish(axes: Axes, objects: int, lines: Sequence[Line]) -> None:
    if objects:
        axes.axvspan(0.5, objects + 0.5, color="0.94", linewidth=0, zorder=0)
        seen = "1 object" if objects == 1 else f"1-{objects} objects"
        axes.set_xlabel(f"places told (shaded: seen in training, {seen})", fontsize=9)
    ticks = sorted({k for line in lines for k in line.each("count")})
    axes.set_xticks(ticks)
    axes.tick_params(labelsize=8, length=3)
    axes.spines[["top", "right"]].set_visible(False)


def _split(points: Points) -> tuple[list[int], list[float]]:
    return [k for k, _ in points], [value for _, value in points]
