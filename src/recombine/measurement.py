"""A number with its interval."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

Number: TypeAlias = float | int
"""For mypy a float may be an int; beartype needs both."""

Interval: TypeAlias = tuple[float, float]


def exact_binomial(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Return the interval of Clopper and Pearson (1934) for a rate."""
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"a rate needs 0 <= successes <= n and n >= 1; got {successes} of {n}")
    from scipy.special import betaincinv  # here and below, as scipy takes a second to import

    # Quantiles of beta laws; scipy's binomtest searches for the same ends, and takes far longer.
    tail, failures = (1 - confidence) / 2, n - successes
    low = betaincinv(successes, failures + 1, tail) if successes else 0.0
    high = betaincinv(successes + 1, failures, 1 - tail) if failures else 1.0
    return float(low), float(high)


def student_t(values: Sequence[Number], confidence: float = 0.95) -> Interval:
    """Return Student's interval for the mean of values that differ by chance, such as seeds."""
    from scipy import stats

    n = len(values)
    if n < 2:
        raise ValueError(f"the spread of a mean needs 2 values or more; got {n}")
    mean = math.fsum(values) / n
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    reach = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * math.sqrt(variance / n)
    return mean - reach, mean + reach


def is_number(value: object) -> TypeGuard[Number]:
    """Return whether this is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


@dataclass(frozen=True)
class Measurement:
    """A number with its 95 % interval and n.

    An interval is left out (both ends None) only where there is none, as for a single timing.
    """

    value: Number
    low: Number | None
    high: Number | None
    n: int

    def __post_init__(self) -> None:
        if not is_number(self.value) or self.n < 1:
            raise ValueError(
                f"a measurement is a finite number of n >= 1; got {self.value} of {self.n}"
            )
        low, high = self.low, self.high
        if low is None and high is None:
            return
        if not (is_number(low) and is_number(high) and low <= high):
            raise ValueError(f"an interval has two finite ends, low <= high; got {low}, {high}")

    def __repr__(self) -> str:
        ends = "" if self.low is None else f" [{self.low:.3g}, {self.high:.3g}]"
        return f"Measurement({self.value:.3g}{ends}, n = {self.n:,})"

    @property
    def printed(self) -> dict[str, Number | None]:
        """What the command line prints of it: value, low, high and n."""
        return {name: getattr(self, name) for name in ("value", "low", "high", "n")}

    def mapped(self, change: Callable[[Number], Number]) -> "Measurement":
        """Return value and ends after an increasing change, such as of the unit."""
        low, high = (None if end is None else change(end) for end in (self.low, self.high))
        return Measurement(change(self.value), low, high, self.n)

    def clipped(self, least: Number = 0.0, most: Number = math.inf) -> "Measurement":
        """Return the same value, its interval clipped to what is possible."""
        if self.low is None or self.high is None:
            return self
        return Measurement(self.value, max(self.low, least), min(self.high, most), self.n)

    @classmethod
    def rate(cls, successes: int, n: int) -> "Measurement":
        """Return a share of n trials with its exact interval."""
        return cls(successes / max(n, 1), *exact_binomial(successes, n), n=n)

    @classmethod
    def mean(cls, values: Sequence[Number]) -> "Measurement":
        """Return the mean of values that differ by chance, with Student's interval if 2 or more."""
        if len(values) == 1:
            return cls(values[0], None, None, n=1)
        return cls(math.fsum(values) / max(len(values), 1), *student_t(values), n=len(values))

    @classmethod
    def median(cls, values: Sequence[Number]) -> "Measurement":
        """Return the median of values that differ by chance, with the interval of the sign test."""
        from scipy import stats

        ordered, n = sorted(values), len(values)
        if n < 1:
            raise ValueError("a median needs a value; got none")
        # At most 2.5 % of samples have fewer than `below` values under their law's median.
        below = int(stats.binom.ppf(0.025, n, 0.5))
        middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
        return cls(middle, ordered[max(below - 1, 0)], ordered[min(n - below, n - 1)], n=n)
