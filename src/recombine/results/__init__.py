"""Results are rows: one number of one run each, kept as text and read as one table (`query`)."""

from recombine.results.rows import Origin, Results, Row
from recombine.results.store import keep, read, write

__all__ = ["Origin", "Results", "Row", "keep", "read", "write"]
