"""Figure: trained networks learn the stronger concept first; few of them swing by.

Reads the records of experiments/swing_by_networks.py. Each row is a record: left, the answers of
up to ten seeds to the test point (cross) over training, with the clusters (dots); right, the loss
there, its median over seeds and the band of 10-90 %.
"""

from collections.abc import Sequence
from textwrap import fill

from matplotlib.figure import Figure

from recombine.report.record import Record
from recombine.report.table import quoted


def draw(records: Sequence[Record]) -> Figure:
    """Draw a row per record."""
    shown = [record for record in records if "outputs" in record.curves]
    rows = max(len(shown), 1)
    figure = Figure(figsize=(9, 3.2 * rows), layout="constrained")
    panels = figure.subplots(rows, 2, squeeze=False)
    for (left, right), record in zip(panels, shown, strict=False):
        curves, target = record.curves, record.curves["target"]
        for outputs in curves["outputs"]:
            left.plot(*zip(*outputs, strict=True), color="C0", linewidth=1, alpha=0.6)
        left.plot([target[0], 0], [0, target[-1]], "o", color="0.5", markersize=6)
        left.plot(target[0], target[-1], "x", color="black", markersize=8)
        left.set_xlabel("first concept", fontsize=9)
        left.set_ylabel("last concept", fontsize=9)
        left.set_title(fill(record.question, 60), loc="left", fontsize=9)
        low, middle, high = zip(*curves["all_loss"], strict=True)
        right.fill_between(curves["epoch"], low, high, color="0.88", linewidth=0)
        right.plot(curves["epoch"], middle, color="C0")
        right.set_xlabel("epoch", fontsize=9)
        share = quoted(record.measurements["bump_share"])
        right.set_title(f"loss at the test point; rises by 1 %: {share}", loc="left", fontsize=9)
    for axes in panels.flat:
        axes.tick_params(labelsize=8, length=3)
        axes.spines[["top", "right"]].set_visible(False)
    return figure
