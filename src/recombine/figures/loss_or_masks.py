"""Figure: small networks on codes of what is seen, all told by adaLN: who composes, by which loss?

Reads the records of experiments/loss_or_masks.py, points.py and jitter.py; rows and marks are as in
masking.svg.
"""

from collections.abc import Sequence

from matplotlib.figure import Figure

from recombine.figures.masking import Panels, drawn
from recombine.report.record import Record

BESIDES = ("points", "jitter")
PANELS: Panels = {
    "shapes stand still": {
        "DiT, by squared error": "jitter:vq_still_seen_small",
        "DiT that names codes, by squared error": "loss_or_masks:squared",
        "DiT that names codes, by squared error, levels alike": "loss_or_masks:squared_even",
        "DiT that names codes, by cross-entropy": "loss_or_masks:named",
        "MaskGIT, by cross-entropy": "jitter:steered_still_seen_small",
        "MaskGIT of points, by cross-entropy": "points:steered_small",
        "MaskGIT of points, by squared error": "points:squared_small",
    }
}


def draw(records: Sequence[Record]) -> Figure:
    """Draw one panel."""
    return drawn(records, PANELS)
