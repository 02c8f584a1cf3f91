"""Statements of a theory: each has a name, a number, and whether the number agrees with it."""

from collections.abc import Iterable
from dataclasses import dataclass

from recombine.measurement import Measurement, Number

NONZERO = 1e-6
"""Least that a number is where theory says that it is not 0."""


@dataclass(frozen=True)
class Statement:
    """What is measured, and whether it agrees with the theory; None where theory says nothing."""

    name: str
    measurement: Measurement
    holds: bool | None = None


def zero(name: str, value: Number, n: int, tolerance: float) -> Statement:
    """Return a number that theory says is 0: it holds up to a declared tolerance."""
    return Statement(name, Measurement(value, None, None, n=n), value <= tolerance)


def nonzero(name: str, value: Number, n: int) -> Statement:
    """Return a number that theory says is not 0."""
    return Statement(name, Measurement(value, None, None, n=n), value > NONZERO)


def exactly(name: str, value: int, expected: int, n: int) -> Statement:
    """Return a count out of n that theory knows."""
    return Statement(name, Measurement(value, None, None, n=n), value == expected)


def violated(statements: Iterable[Statement]) -> Measurement:
    """Return how many statements do not hold, of those that theory says something about."""
    known = [each for each in statements if each.holds is not None]
    return Measurement(sum(not each.holds for each in known), None, None, n=len(known))
