"""Figure: accuracy over training of small networks trained for long and of larger ones.

Reads the records of experiments/setting.py; drawn like objective.svg.
"""

from recombine.figures.objective import draw

__all__ = ["draw"]
