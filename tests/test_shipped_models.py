"""The shipped models do on a CPU what the results say."""

from math import comb

import pytest
import torch

from recombine import load, records, zoo
from recombine.measurement import Measurement
from recombine.run import plan_of

SAMPLES = 6
PLACES = ["grid_all", "grid_one", "grid_one_local"]
COMPOSITIONS = ["dit", "maskgit", "maskgit_squared", "maskgit_jepa"]


def recorded(name: str, measurement: str) -> Measurement:
    """Return what the table of results says of the run that shipped weights are from."""
    plan = plan_of(zoo.path(name))
    table = records(plan.study)
    mine = table[(table.cell == plan.cell) & (table.seed == plan.seed)]
    (row,) = mine[(mine.measurement == measurement) & mine.step.isna()].itertuples()
    return Measurement(row.value, row.low, row.high, int(row.n))


@pytest.mark.parametrize(("name", "count"), [("grid_one", 1), *((name, 4) for name in PLACES)])
def test_they_succeed_as_often_as_the_results_say(name: str, count: int):
    with torch.inference_mode():
        found = load(f"zoo:{name}").measure("length", samples=SAMPLES, objects=(count,))
    good = round(found[f"success@{count}"].value * SAMPLES)
    assert likely(good, recorded(name, f"success@{count}"))


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_they_compose_as_well_as_the_results_say(name: str):
    with torch.inference_mode():
        found = load(f"zoo:{name}").measure("composition", samples=SAMPLES, most=1, kept=0)
    single = [each for each in found if each.startswith("accuracy@") and "-" in each]
    assert len(single) >= 3
    for which in single:
        assert likely(round(found[which].value * SAMPLES), recorded(name, which))


def likely(good: int, recorded: Measurement) -> bool:
    """Tell whether so few, and so many, are likelier than 1 % somewhere in the interval."""
    assert recorded.low is not None
    assert recorded.high is not None
    few, many = chances(recorded.low)[: good + 1], chances(recorded.high)[good:]
    return min(sum(few), sum(many)) > 0.01


def chances(rate: float) -> list[float]:
    """Return the chance of each number of successes."""
    return [comb(SAMPLES, k) * rate**k * (1 - rate) ** (SAMPLES - k) for k in range(SAMPLES + 1)]


def test_a_broken_model_would_be_noticed():
    fails, works = Measurement.rate(0, 256), Measurement.rate(240, 256)
    assert likely(0, fails)
    assert likely(6, works)
    assert not likely(2, fails)
    assert not likely(2, works)
