"""Figure: accuracy over training of a DiT that is told in several ways.

Reads the records of experiments/conditioning.py; drawn like objective.svg.
"""

from recombine.figures.objective import draw

__all__ = ["draw"]
