"""Figure: the learned score points where the exact one does, wherever the law has mass.

Reads the records of experiments/denoise_toy.py. Arrows are scores at one noise level.
"""

from collections.abc import Sequence

from matplotlib.figure import Figure

from recombine.report.record import Record
from recombine.report.table import quoted


def draw(records: Sequence[Record]) -> Figure:
    """Draw one panel per record, the learned arrows over the exact ones."""
    figure = Figure(figsize=(4.5 * len(records), 4.5), layout="constrained")
    panels = figure.subplots(1, len(records), squeeze=False)[0]
    for axes, record in zip(panels, records, strict=True):
        across, up = zip(*record.curves["place"], strict=True)
        for name, colour, width in (("exact", "0.7", 0.012), ("learned", "C0", 0.004)):
            right, above = zip(*record.curves[f"{name}_score"], strict=True)
            axes.quiver(across, up, right, above, color=colour, width=width, scale=250, label=name)
        error = quoted(record.measurements["relative_error"])
        axes.set_title(f"{record.question}\nrelative error {error}", fontsize=8, wrap=True)
        axes.set_aspect("equal")
    panels[0].legend(loc="lower left", frameon=False, fontsize=8)
    return figure
