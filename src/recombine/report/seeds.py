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
    it is then that of the runs, from the lowest end to the highest.
    """
    if not values:
        raise ValueError("a mean over seeds is of 1 run or more; got none")
    mean = math.fsum(values) / len(values)
    own = [each for each in (*lows, *highs) if each is not None and not math.isnan(each)]
    ends: tuple[float, float] | tuple[None, None] = (None, None)
    if len(set(values)) > 1:
        ends = student_t(values)
    elif own:
        ends = float(min(own)), float(max(own))
    return Summary(mean, *ends, tuple(values), tuple(samples))


def summarised(rows: pd.DataFrame) -> Summary:
    """Return the mean over the seeds of rows of one measurement at one step."""
    ordered = rows.sort_values("seed")
    if ordered["seed"].duplicated().any():
        found = ", ".join(map(str, ordered["seed"]))
        raise ValueError(f"a mean over seeds has one row a seed; got the seeds {found}")
    ends = ordered["low"].tolist(), ordered["high"].tolist()
    return over_seeds(ordered["value"].tolist(), *ends, ordered["n"].dropna().tolist())


def by_step(rows: pd.DataFrame) -> dict[float, Summary]:
    """Return the mean over seeds at every step of a curve of one cell, from the first step."""
    return {float(step): summarised(each) for step, each in rows.groupby("step", sort=True)}
