"""Figure: accuracy over training on tokenizers of every composition, or of what is seen.

Reads the records of experiments/tokenizer.py and those that they stand beside.
"""

from collections.abc import Sequence

from matplotlib.figure import Figure

from recombine.figures.objective import beside
from recombine.report.record import Record

BESIDES = ("objective", "setting")
STAND_BESIDE = ("dit_kl_small", "dit_vq_small", "maskgit_small", "dit_vq_short", "maskgit_short")


def draw(records: Sequence[Record]) -> Figure:
    """Draw a panel per variant."""
    return beside(records, "tokenizer", STAND_BESIDE)
