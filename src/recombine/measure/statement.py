"""Numbers that a theory speaks about, each with the verdict on what it says."""

from collections.abc import Iterable

from recombine.measurement import Measurement, Number

HEARD = 1e-6
"""Least that a number is where theory says that it is not 0."""


def residual(value: Number, n: int, tolerance: float) -> Measurement:
    """Return a number that theory says is 0: the statement holds up to a declared tolerance."""
    holds = value <= tolerance
    verdict = f"proved, <= {tolerance:g}" if holds else f"broken: not <= {tolerance:g}"
    return Measurement(value, None, None, n=n, verdict=verdict)


def nonzero(value: Number, n: int) -> Measurement:
    """Return a number that theory says is not 0."""
    verdict = f"not 0, as proved (> {HEARD:g})" if value > HEARD else f"broken: not > {HEARD:g}"
    return Measurement(value, None, None, n=n, verdict=verdict)


def exactly(value: int, expected: int, n: int) -> Measurement:
    """Return a count out of n that theory knows."""
    words = f"{expected} of {n}"
    verdict = f"proved, {words}" if value == expected else f"broken: not {words}"
    return Measurement(value, None, None, n=n, verdict=verdict)


def broken(found: Iterable[Measurement]) -> Measurement:
    """Return how many statements are broken, of those that have a verdict."""
    verdicts = [each.verdict for each in found if each.verdict]
    return exactly(sum(each.startswith("broken") for each in verdicts), 0, len(verdicts))
