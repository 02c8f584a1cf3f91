"""Results are rows: one number of one run each, kept as text and read as one table."""

from typing import Any

from recombine.results.rows import Origin, Results, Row, notes, rows
from recombine.results.store import keep, read, write

__all__ = [
    "Origin",
    "Results",
    "Row",
    "arrays",
    "keep",
    "notes",
    "read",
    "records",
    "rows",
    "runs",
    "table",
    "write",
]


def __getattr__(name: str) -> Any:
    """Find the functions that return tables; only they import pandas."""
    if name not in ("arrays", "records", "runs", "table"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from recombine.results import query

    return getattr(query, name)
