"""What a measurement or a computation has found, as rows."""

from dataclasses import replace
from typing import Any

from recombine.measure.subject import Findings
from recombine.measurement import Number
from recombine.results.rows import Row

DIGITS = 6
"""How many digits of a number on a curve are kept; final numbers are kept whole."""


def rows(findings: Findings, reader: str = "", step: Number | None = None) -> tuple[Row, ...]:
    """Return findings as rows; those of a milestone are given its `step`."""
    found = []
    for name, each in findings.measurements.items():
        row = Row(name, each.value, each.low, each.high, each.n, step, reader)
        found.append(row if step is None else _shortened(row))
    for name, points in findings.curves.items():
        for x, *numbers in points:
            known: dict[str, Any] = dict(zip(("value", "low", "high", "n"), numbers, strict=False))
            found.append(_shortened(Row(name, **known, step=x, reader=reader)))
    return tuple(found)


def _shortened(row: Row) -> Row:
    numbers = {name: getattr(row, name) for name in ("value", "low", "high")}
    short: dict[str, Any] = {
        n: float(f"{v:.{DIGITS}g}") for n, v in numbers.items() if isinstance(v, float)
    }
    return replace(row, **short)


def notes(findings: Findings) -> tuple[str, ...]:
    """Return in words what the numbers do not say: alarms, and what is undefined."""
    undefined = [f"{name} is undefined: {why}" for name, why in findings.undefined.items()]
    return (*findings.alarms, *undefined)
