"""The shipped models of the length study do on a CPU what their records say."""

from math import comb

import pytest
import torch

from recombine import run as runner
from recombine import zoo
from recombine.commands.measure import plan_of
from recombine.commands.tour import Stop, requests, visit
from recombine.measurement import Measurement

CPU, SAMPLES = torch.device("cpu"), 6
MODELS = ["grid_all", "grid_one", "grid_one_local", "list_all", "list_all_local"]


@pytest.mark.parametrize(("name", "told"), [("grid_one", 1), *((name, 4) for name in MODELS)])
def test_they_succeed_as_often_as_their_records_say(name: str, told: int):
    path = zoo.path(name)
    plan, record = plan_of(path), zoo.record(name)
    with torch.inference_mode():
        asked = requests(plan.experiment, (told,), SAMPLES, seed=0, device=CPU)
        trained = runner.loaded(plan, path, runner.machine(CPU))
        (answer,) = visit(Stop(name, "", ""), record, trained, asked, zoo.detector(), 0).answers
    strict = "grid_one" not in name
    good = round(answer.outcome.success(strict).value * SAMPLES)
    assert likely(good, record.measurements[f"success@{told}"])


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
