"""Figure: trained networks learn the stronger concept first; few of them swing by.

Reads the records of experiments/swing_by_networks.py. Each panel is a record: the answers of up to
ten seeds to the test point (cross) over training, with the clusters (dots), and above it the share
of seeds whose loss at the test point rises by more than 1 %.
"""

from collections.abc import Sequence
from math import ceil

from matplotlib.figure import Figure

from recombine.report.record import Record

COLUMNS = 6


def draw(records: Sequence[Record]) -> Figure:
    """Draw a panel per record."""
    shown = [record for record in records if "outputs" in record.curves]
    rows = max(ceil(len(shown) / COLUMNS), 1)
    figure = Figure(figsize=(2.1 * COLUMNS, 2.2 * rows), layout="constrained")
    panels = list(figure.subplots(rows, COLUMNS, squeeze=False).flat)
    for axes, record in zip(panels, shown, strict=False):
        curves, target = record.curves, record.curves["target"]
        for outputs in curves["outputs"]:
            axes.plot(*zip(*outputs, strict=True), color="C0", linewidth=0.8, alpha=0.6)
        axes.plot([target[0], 0], [0, target[-1]], "o", color="0.5", markersize=4)
        axes.plot(target[0], target[-1], "x", color="black", markersize=6)
        variant = record.command.split(":", 1)[-1].split()[0]
        share = record.measurements["bump_share"].value
        axes.set_title(f"{variant}: {share:.0%} rise", loc="left", fontsize=8.5)
        axes.tick_params(labelsize=7, length=2)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    return figure
