"""Several seeds become one number by one function, with values that were worked out by hand."""

import pandas as pd
import pytest

from recombine.report.seeds import over_seeds, summarised

T_2 = 4.302652730
"""Student's t, 2 degrees of freedom, 97.5 %."""


def test_three_seeds_have_students_interval():
    # Mean 2, standard deviation 1: 2 +- t / sqrt(3).
    found = over_seeds([1.0, 3.0, 2.0], [0, 2, 1], [2, 4, 3], [256, 256, 64])
    assert found.value == 2
    assert (found.low, found.high) == pytest.approx((2 - T_2 / 3**0.5, 2 + T_2 / 3**0.5))
    assert (found.values, found.samples, found.seeds) == ((1.0, 3.0, 2.0), (256, 256, 64), 3)


def test_one_seed_keeps_its_own_interval_or_has_none():
    alone = over_seeds([7], [6], [9], [256])
    assert (alone.value, alone.low, alone.high, alone.seeds) == (7, 6, 9, 1)
    timing = over_seeds([7], [float("nan")], [None])
    assert (timing.low, timing.high) == (None, None)


def test_seeds_that_agree_have_the_interval_of_their_samples():
    """Three times 256 of 256 is no proof that nothing ever fails."""
    found = over_seeds([1.0, 1.0], [0.98, 0.97], [1.0, 1.0])
    assert (found.low, found.high) == (0.97, 1.0)
    assert over_seeds([3, 3]).low is None


def test_the_interval_of_a_share_stays_between_0_and_1():
    rare = over_seeds([0.0, 0.03, 0.01], [0.0, 0.01, 0.0], [0.01, 0.06, 0.03])
    assert rare.low == 0
    assert rare.high == pytest.approx(0.0133333 + T_2 * 0.0152753 / 3**0.5, rel=1e-4)
    often = over_seeds([1.0, 0.97], [0.98, 0.95], [1.0, 0.99])
    assert often.high == 1
    # Of what may be below 0, and of what has no intervals of its own, nothing is known.
    assert over_seeds([0.0, 0.03], [-0.1, 0.0], [0.1, 0.1]).low < 0
    assert over_seeds([0.0, 0.03]).low < 0


def test_no_seed_has_no_mean():
    with pytest.raises(ValueError, match="1 run or more"):
        over_seeds([])


def frame(**columns) -> pd.DataFrame:
    rows = pd.DataFrame({"low": None, "high": None, "n": 9, **columns})
    return rows.astype({"low": float, "high": float, "n": "Int64"})


def test_rows_are_summed_up_in_the_order_of_their_seeds():
    found = summarised(frame(seed=[2, 0, 1], value=[3.0, 1.0, 5.0]))
    assert (found.values, found.value, found.samples) == ((1.0, 5.0, 3.0), 3.0, (9, 9, 9))


def test_a_seed_is_not_counted_twice():
    with pytest.raises(ValueError, match="one row a seed; got the seeds 0, 0"):
        summarised(frame(seed=[0, 0], value=[3.0, 1.0]))
