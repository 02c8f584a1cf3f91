"""Several seeds of one cell as one number."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from recombine.measurement import Number, student_t


@dataclass(frozen=True)
class Summary:
    """The mean over seeds with its 95 % interval; `values` and `samples` have one entry a seed."""

    value: float
    low: float | None
    high: float | None
    values: tuple[Number, ...]
    samples: tuple[int, ...]

    @property
    def seeds(self) -> int:
        """How many runs this is the mean of."""
        return len(self.values)


def over_seeds(
    values: Sequence[Number],
    lows: Sequence[Number | None] = (),
    highs: Sequence[Number | None] = (),
    samples: Sequence[int] = (),
) -> Summary:
    """Return the mean of runs that differ in their seed only, with Student's interval.

    One run keeps its own interval. Where all seeds agree Student's interval would have no width;
    it is then that of the runs, from the lowest end to the highest. Where the intervals of all runs
    lie in [0, 1], as those of shares do, that of their mean is clipped to it.
    """
    if not values:
        raise ValueError("a mean over seeds is of 1 run or more; got none")
    mean = math.fsum(values) / len(values)
    own = [each for each in (*lows, *highs) if each is not None and not math.isnan(each)]
    low, high = (float(min(own)), float(max(own))) if own else (None, None)
    if len(set(values)) > 1:
        is_share = len(own) == 2 * len(values) and all(0 <= each <= 1 for each in own)
        low, high = student_t(values)
        low, high = (max(low, 0.0), min(high, 1.0)) if is_share else (low, high)
    return Summary(mean, low, high, tuple(values), tuple(samples))


def summarised(rows: pd.DataFrame) -> Summary:
    """Return the mean over the seeds of rows of one measurement at one step."""
    columns = (rows[name].tolist() for name in ("seed", "value", "low", "high", "n"))
    ordered = sorted(zip(*columns, strict=True), key=lambda row: row[0])
    seeds, values, lows, highs, samples = zip(*ordered, strict=True) if ordered else ([],) * 5
    if len(set(seeds)) < len(seeds):
        found = ", ".join(map(str, seeds))
        raise ValueError(f"a mean over seeds has one row a seed; got the seeds {found}")
    return over_seeds(values, lows, highs, [n for n in samples if not pd.isna(n)])
