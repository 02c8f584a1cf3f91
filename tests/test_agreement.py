"""Agreement of two readers beyond chance."""

import pytest
import torch

from recombine.measure.agreement import kappa, verdicts
from recombine.models.probe import ProbeReading

CHANCE = torch.Generator().manual_seed(0)


def test_equal_raters_agree_and_independent_ones_do_not():
    ratings = torch.randint(5, (20_000,), generator=CHANCE)
    others = torch.randint(5, (20_000,), generator=CHANCE)
    assert kappa(ratings, ratings).value == 1
    assert kappa(ratings[:1], ratings[:1]).value == 1
    found = kappa(ratings, others)
    assert found.low < 0 < found.high
    assert found.high - found.low < 0.02


def test_it_is_cohens_kappa():
    """Of 50 images both say yes 20 times, no 15 times; agreement is .7, by chance .5: .4."""
    first = torch.tensor([1] * 25 + [0] * 25)
    second = torch.tensor([1] * 20 + [0] * 5 + [1] * 10 + [0] * 15)
    found = kappa(first, second)
    assert found.value == pytest.approx(0.4)
    assert kappa(second, first) == found
    assert kappa(first, 1 - first).value == pytest.approx(-1)


def test_its_interval_holds_the_truth_19_times_of_20():
    """Raters share an answer with chance .6, else both draw: kappa is .6."""
    inside = 0
    for _ in range(300):
        first, other = torch.randint(3, (2, 200), generator=CHANCE)
        same = torch.rand(200, generator=CHANCE) < 0.6
        found = kappa(first, torch.where(same, first, other))
        inside += found.low < 0.6 < found.high
    assert 0.91 < inside / 300 < 0.98


def test_a_verdict_is_a_composition_or_nothing_valid():
    rows = torch.tensor([[1, 0, 2], [1, 0, 3], [0, 1, 2], [1, 0, 2]])
    found = verdicts(ProbeReading(rows, torch.tensor([-1.0, -1.0, -1.0, 1.0])))
    assert len(found.unique()) == 4
    assert found[3] == -1


def test_raters_rate_the_same_images():
    with pytest.raises(ValueError, match="the same images; got 3 and 2"):
        kappa(torch.zeros(3).long(), torch.zeros(2).long())
