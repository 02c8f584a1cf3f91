"""Effects of a study's levels: paired contrasts over replicates, declared before they are read.

A contrast compares two levels of an axis where everything else is equal, replicate by replicate.
Its interval is Student's over replicates. Its p is that of the mean under exchanging the two levels
of each pair, and is corrected for the number of contrasts by Holm's rule.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pandas as pd

from recombine.measurement import Measurement
from recombine.report.queries import Shown, chosen, finals
from recombine.report.table import interval, number

HEAD = ("contrast", "effect", "replicates", "pairs", "p", "p (Holm)")
EXACT = 14
"""Up to so many pairs every exchange is counted; beyond, DRAWS of them at random."""
DRAWS = 20_000


@dataclass(frozen=True)
class Contrast:
    """Level `high` of an axis against level `low`, among cells with the levels in `where`.

    With `by` it is an interaction: this effect at the second level of another axis less the same at
    its first level.
    """

    axis: str
    high: str
    low: str
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by: tuple[str, str, str] | None = None

    @property
    def title(self) -> str:
        """What is compared, in words."""
        words = f"{self.axis}: {self.high} - {self.low}"
        only = "; ".join(f"{axis} {' or '.join(levels)}" for axis, levels in self.where.items())
        if self.by:
            axis, first, second = self.by
            words += f", {axis} {second} - {first}"
        return words + (f" ({only})" if only else "")

    def pairs(self, table: pd.DataFrame, axes: Sequence[str]) -> pd.DataFrame:
        """Return a row for each pair of equal cells: the replicate `seed` and the `difference`."""
        for axis, levels in self.where.items():
            table = table[table[axis].isin(levels)]
        others = [axis for axis in axes if axis != self.axis]
        wide = table.pivot_table(index=["seed", *others], columns=self.axis, values="value")
        wide = wide.reindex(columns=[self.high, self.low]).dropna()
        found = (wide[self.high] - wide[self.low]).rename("difference").reset_index()
        if self.by is None:
            return found
        axis, first, second = self.by
        rest = ["seed", *[other for other in others if other != axis]]
        again = found.pivot_table(index=rest, columns=axis, values="difference")
        again = again.reindex(columns=[first, second]).dropna()
        return (again[second] - again[first]).rename("difference").reset_index()


@dataclass(frozen=True)
class Effect:
    """A contrast as it came out: its mean over replicates, with an interval, and p before Holm."""

    contrast: Contrast
    measured: Measurement
    pairs: int
    p: float


def effect(contrast: Contrast, table: pd.DataFrame, axes: Sequence[str]) -> Effect | None:
    """Return the effect of a contrast in final numbers of one measurement, if a pair is there."""
    found = contrast.pairs(table, axes)
    if found.empty:
        return None
    replicates = found.groupby("seed")["difference"].mean().tolist()
    p = exchange_p(found["difference"].to_numpy())
    return Effect(contrast, Measurement.mean(replicates), len(found), p)


def exchange_p(differences: np.ndarray) -> float:
    """Return how often the mean is at least as far from 0 if each sign were a coin's."""
    n = len(differences)
    if n <= EXACT:
        signs = np.array(list(product((-1, 1), repeat=n)))
        extra = 0
    else:
        signs = np.random.default_rng(0).choice((-1, 1), size=(DRAWS, n))
        extra = 1  # the signs as they are belong to the draws
    far = np.abs(signs @ differences) >= np.abs(differences.sum()) - 1e-12 * n
    return float((far.sum() + extra) / (len(signs) + extra))


def holm(p: Sequence[float]) -> list[float]:
    """Return p corrected for how many there are (Holm 1979): never above 1, in the same order."""
    order = np.argsort(p, kind="stable")
    corrected, most = [0.0] * len(p), 0.0
    for rank, at in enumerate(order):
        most = max(most, min(1.0, (len(p) - rank) * p[at]))
        corrected[at] = most
    return corrected


@dataclass(frozen=True)
class Effects:
    """A row a declared contrast of a measurement, those without results left out."""

    of: tuple[str, ...]
    measurement: str
    axes: tuple[str, ...]
    contrasts: tuple[Contrast, ...]
    trained: tuple[str, float] | None = None
    """A measurement and the least value it has in trained cells; others are left out."""

    def __call__(self, table: pd.DataFrame) -> Shown:
        """Return the effects with their intervals."""
        mine = finals(chosen(table, self.of))
        rows = mine[mine["measurement"] == self.measurement]
        if rows.empty:
            return Shown(HEAD, ())
        left_out = 0
        if self.trained is not None:
            name, least = self.trained
            seen = mine[mine["measurement"] == name].groupby("cell")["value"].mean()
            rows = rows[rows["cell"].isin(seen[seen >= least].index)]
            left_out = int((seen < least).sum())
        found = [each for one in self.contrasts if (each := effect(one, rows, self.axes))]
        words = []
        for each, p in zip(found, holm([each.p for each in found]), strict=True):
            m = each.measured
            written = interval(m.value, m.low, m.high)
            words.append(
                (each.contrast.title, written, str(m.n), str(each.pairs), number(each.p), number(p))
            )
        note = "Intervals are 95 %, Student's over replicates."
        if left_out:
            note += f" Cells that are undertrained and left out: {left_out}."
        return Shown(HEAD, tuple(words), note)
