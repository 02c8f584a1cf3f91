"""The rank correlation over checkpoints, and its interval over runs."""

import numpy as np
import pytest
import torch

from recombine.report import correlation
from recombine.report.correlation import rank_correlation


def test_the_rank_correlation_is_that_of_scipy_and_its_interval_is_over_runs():
    from scipy.stats import spearmanr

    generator = torch.Generator().manual_seed(0)
    runs = []
    for _ in range(8):
        x = torch.rand(3, generator=generator, dtype=torch.float64)
        noise = torch.rand(3, generator=generator, dtype=torch.float64)
        runs.append(list(zip(x.tolist(), (4 * (x + noise)).round().tolist(), strict=True)))
    found = rank_correlation(runs)
    pairs = [pair for run in runs for pair in run]
    assert found.value == pytest.approx(spearmanr(*zip(*pairs, strict=True)).statistic)
    assert found.n == 24
    assert -1 <= found.low < found.value < found.high <= 1
    # The same points, ten times each in the same run: no narrower.
    repeated = rank_correlation([run * 10 for run in runs])
    assert repeated.high - repeated.low == pytest.approx(found.high - found.low, rel=1e-6)
    assert rank_correlation(runs) == found
    falling = rank_correlation([[(x, -x)] for x in range(5)])
    assert falling.value == pytest.approx(-1)


def test_the_interval_holds_95_percent_of_the_runs_drawn_anew(monkeypatch: pytest.MonkeyPatch):
    from scipy.stats import spearmanr

    monkeypatch.setattr(correlation, "RESAMPLED", 40)
    runs = [[(0.1, 1), (0.2, 3)], [(0.4, 2), (0.9, 4)], [(0.3, 0), (0.8, 5)]]
    draws = np.random.default_rng(0).integers(3, size=(40, 3))
    again = [
        spearmanr(*zip(*(pair for run in draw for pair in runs[run]), strict=True)).statistic
        for draw in draws
    ]
    found = rank_correlation(runs)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(again, [0.025, 0.975])))


def test_a_number_that_never_differs_has_no_rank_correlation():
    assert rank_correlation([]) is None
    assert rank_correlation([[(1.0, 2.0)]]) is None
    assert rank_correlation([[(1.0, 2.0)], [(2.0, 2.0)]]) is None
    alone = rank_correlation([[(1.0, 2.0), (2.0, 3.0)]])
    assert (alone.value, alone.low) == (pytest.approx(1), None)
