"""Figure: accuracy over training on tokenizers that were learned from every composition.

Reads the records of experiments/tokenizer.py; drawn like objective.svg.
"""

from recombine.figures.objective import draw

__all__ = ["draw"]
