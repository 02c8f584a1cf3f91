"""The shipped models do on a CPU what their records say."""

from math import comb

import pytest
import torch

from recombine import run as runner
from recombine import zoo
from recombine.commands.measure import plan_of
from recombine.commands.tour import drawn, requests, shipped_model
from recombine.experiments.objective import means
from recombine.measurement import Measurement
from recombine.models.probe import Probe
from recombine.scene import concept_rows
from recombine.split import BINARY

CPU, SAMPLES = torch.device("cpu"), 6
ASKED_TO_COMPOSE = [
    *("dit", "maskgit", "maskgit_jepa", "maskgit_squares", "mar_jepa"),
    *("maskgit_moving", "maskgit_small", "maskgit_steered"),
]
MODELS = ["grid_all", "grid_one", "grid_one_local", "list_all", "list_all_local"]


@pytest.mark.parametrize(("name", "told"), [("grid_one", 1), *((name, 4) for name in MODELS)])
def test_they_succeed_as_often_as_their_records_say(name: str, told: int):
    record = zoo.record(name)
    with torch.inference_mode():
        trained = shipped_model(name, CPU)
        placed = requests(trained.experiment, (told,), SAMPLES, seed=0, device=CPU)
        (answer,) = drawn(trained, placed, zoo.detector(), 0)
    strict = "grid_one" not in name
    good = round(answer.outcome.success(strict).value * SAMPLES)
    assert likely(good, record.measurements[f"success@{told}"])


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("name", ASKED_TO_COMPOSE)
def test_they_compose_as_well_as_their_records_say(name: str, level: int):
    path = zoo.path(name)
    plan, record = plan_of(path), zoo.record(name)
    world, (which, *_) = plan.experiment.world, BINARY.at(level)
    with torch.inference_mode():
        told = plan.experiment.conditioner.encode(means(world, which, SAMPLES, CPU))
        trained = runner.loaded(plan, path, runner.machine(CPU))
        images = trained.images(told, torch.Generator().manual_seed(0))
        read = zoo.probe("probe", Probe(), CPU)(images)
    good = int((read == concept_rows(world.factors, (which,))).all(dim=1).sum())
    assert likely(good, record.measurements[f"accuracy@{'-'.join(which)}"])


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
