"""How well the order of one number tells the order of another, over the checkpoints of runs."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from recombine.measurement import Measurement, Number

RESAMPLED = 1000
"""How often runs are drawn anew."""

Pairs: TypeAlias = Sequence[tuple[Number, Number]]


def rank_correlation(runs: Sequence[Pairs]) -> Measurement | None:
    """Return Spearman's coefficient of all pairs, or None where either number never differs.

    The interval is the bootstrap's, over runs and not over checkpoints: those of one run are
    alike. Ties share their ranks.
    """
    runs = [run for run in runs if run]
    value = _spearman([pair for run in runs for pair in run])
    if value is None:
        return None
    n = sum(map(len, runs))
    if len(runs) < 2:
        return Measurement(value, None, None, n=n)
    # A seed of its own: the same records give the same figure.
    draws = np.random.default_rng(0).integers(len(runs), size=(RESAMPLED, len(runs)))
    again = [_spearman([pair for run in draw for pair in runs[run]]) for draw in draws]
    # Where all drawn runs are alike there is no order to tell.
    low, high = np.quantile([each for each in again if each is not None], [0.025, 0.975])
    return Measurement(value, float(low), float(high), n=n)


def _spearman(pairs: Pairs) -> float | None:
    from scipy.stats import rankdata  # here, as it takes a second to import

    if len(pairs) < 2:
        return None
    one, other = (rankdata(values) for values in zip(*pairs, strict=True))
    if one.std() == 0 or other.std() == 0:
        return None
    return float(np.corrcoef(one, other)[0, 1])
