"""Figure: on its way to the new sum of concepts, the answer swings by a training cluster.

Reads the records of experiments/swing_by.py. Each row is a record: the answer to the test point
(cross) over training, with the clusters that were seen (dots) and its stages in colour; the loss
at the test point (line, over the 10-90 % band of all starts) above that of training (dashed); and
the entries of W behind it.
"""

from collections.abc import Sequence
from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recombine.report.record import Record
from recombine.report.table import quoted

STAGES = ("minor entries grow", "suppression", "the next concept grows")
# Okabe and Ito's colours.
_COLOURS = ("#0072B2", "#D55E00", "#00875F")
_MAJOR, _MINOR = "-", (0, (4, 1.5))


def draw(records: Sequence[Record]) -> Figure:
    """Draw a row per record: trajectory, losses, entries."""
    shown = [record for record in records if "stage" in record.curves]
    figure = Figure(figsize=(12, 3.6 * max(len(shown), 1)), layout="constrained")
    panels = figure.subplots(max(len(shown), 1), 3, squeeze=False)
    for row, record in zip(panels, shown, strict=False):
        _path(row[0], record)
        _losses(row[1], record)
        _entries(row[2], record)
    return figure


def _path(axes: Axes, record: Record) -> None:
    """Draw the answers of the first and the last concept against each other."""
    curves, target = record.curves, record.curves["target"]
    across, up = ([point[at] for point in curves["output"]] for at in (0, -1))
    for first, last, stage in _spans(curves["stage"]):
        part = slice(first, last + 1)
        axes.plot(across[part], up[part], color=_COLOURS[stage], linewidth=2)
    for name, colour in zip(STAGES, _COLOURS, strict=True):
        axes.plot([], [], color=colour, linewidth=2, label=name)
    axes.plot([target[0], 0], [0, target[-1]], "o", color="0.5", markersize=6)
    axes.plot(target[0], target[-1], "x", color="black", markersize=8)
    axes.set_xlabel("weakest concept", fontsize=9)
    axes.set_ylabel("strongest concept", fontsize=9)
    axes.legend(loc="center left", frameon=False, fontsize=8)
    _finish(axes, fill(record.question, 52))


def _losses(axes: Axes, record: Record) -> None:
    """Draw the loss at the test point, its spread over starts, and the training loss."""
    curves = record.curves
    low, _, high = zip(*curves["all_loss"], strict=True)
    axes.fill_between(curves["all_time"], low, high, color="0.9", linewidth=0)
    for first, last, stage in _spans(curves["stage"]):
        part = slice(first, last + 1)
        axes.plot(curves["time"][part], curves["loss"][part], color=_COLOURS[stage], linewidth=2)
    axes.plot(curves["time"], curves["training_loss"], "--", color="0.4", linewidth=1)
    axes.set_xscale("symlog", linthresh=1.0)
    axes.set_xlim(0, curves["time"][-1])
    axes.set_xlabel("time", fontsize=9)
    share = quoted(record.measurements["bump_share"])
    _finish(axes, f"loss at the test point (dashed: training)\nrises by 1 %: {share}")


def _entries(axes: Axes, record: Record) -> None:
    """Draw the major entries of W, and the minor ones dashed."""
    curves = record.curves
    for name in curves:
        if name[0] == "w" and name[1:].isdigit():
            style = _MAJOR if name[1] == name[2] else _MINOR
            axes.plot(curves["time"], curves[name], linestyle=style, linewidth=1.3, label=name)
    axes.set_xscale("symlog", linthresh=1.0)
    axes.set_xlim(0, curves["time"][-1])
    axes.set_xlabel("time", fontsize=9)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=8)
    _finish(axes, "entries of W (dashed: minor)")


def _spans(stages: Sequence[float]) -> list[tuple[int, int, int]]:
    """Return the first index, the last and the stage of every stretch of one stage."""
    starts = [at for at in range(len(stages)) if at == 0 or stages[at] != stages[at - 1]]
    ends = [*starts[1:], len(stages) - 1]
    return [(start, end, int(stages[start])) for start, end in zip(starts, ends, strict=True)]


def _finish(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=9)
    axes.tick_params(labelsize=8, length=3)
    axes.spines[["top", "right"]].set_visible(False)
