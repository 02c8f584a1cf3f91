"""Figure: accuracy over training where shapes stand still, beside the paper's curves.

Reads the records of experiments/still.py.
"""

from collections.abc import Sequence

from matplotlib.figure import Figure

from recombine.figures.objective import beside
from recombine.report.record import Record


def draw(records: Sequence[Record]) -> Figure:
    """Draw a panel per variant."""
    return beside(records, "still", ())
