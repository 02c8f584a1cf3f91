"""Figure: accuracy over training of a DiT that is told in several ways.

Reads the records of experiments/conditioning.py and those that they stand beside.
"""

from collections.abc import Sequence

from matplotlib.figure import Figure

from recombine.figures.objective import beside
from recombine.report.record import Record

BESIDES = ("objective", "still")
STAND_BESIDE = ("dit_vq_small", "vq_seen")


def draw(records: Sequence[Record]) -> Figure:
    """Draw a panel per variant."""
    return beside(records, "conditioning", STAND_BESIDE)
