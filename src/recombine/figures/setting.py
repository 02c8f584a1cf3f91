"""Figure: accuracy over training of small and larger networks, trained for long or not.

Reads the records of experiments/setting.py and those that they stand beside.
"""

from collections.abc import Sequence

from matplotlib.figure import Figure

from recombine.figures.objective import beside
from recombine.report.record import Record

BESIDES = ("objective",)
STAND_BESIDE = ("maskgit", "maskgit_small", "dit_vq", "dit_vq_small", "dit_kl", "dit_kl_small")


def draw(records: Sequence[Record]) -> Figure:
    """Draw a panel per variant."""
    return beside(records, "setting", STAND_BESIDE)
