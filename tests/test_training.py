"""A training: what its weights depend on, and nothing else."""

from dataclasses import field, fields, make_dataclass, replace

import pytest
import torch

from recombine.condition import Conditioner
from recombine.denoiser import Preconditioned, Predicting, noise, velocity
from recombine.models.mlp import MLP
from recombine.objectives.diffusion import Diffusion, Dropout, StepDiffusion
from recombine.spelling import LATER, spelled
from recombine.study import Cell
from recombine.train import cosine
from recombine.training import Budget, Training
from recombine.views import Unchanged
from recombine.worlds.circles import Circles
from recombine.worlds.shapes2d import Shapes2D

TRAINING = Training(Shapes2D(), MLP(2, 4), Budget(100, 4))
CELL = Cell(TRAINING, milestones=(50, 100))


def test_every_field_of_a_training_is_in_its_fingerprint():
    changes = {
        "world": Circles(),
        "network": MLP(2, 4, width=9),
        "budget": Budget(1, 1),
        "conditioner": Conditioner(encode=torch.zeros_like),
        "objective": Diffusion(sigma_data=0.1),
        "view": Unchanged(),
    }
    assert set(changes) == {each.name for each in fields(Training)}
    digests = [replace(TRAINING, **{name: value}).digest for name, value in changes.items()]
    assert len({TRAINING.digest, *digests}) == 1 + len(changes)


def test_a_field_that_came_later_is_spelled_once_it_is_used():
    later = field(default=0, metadata={LATER: True})
    kind = make_dataclass("Kind", [("old", int), ("new", int, later)])
    assert (spelled(kind(1)), spelled(kind(1, 2))) == ("Kind(old=1)", "Kind(old=1, new=2)")


def test_what_cannot_be_spelled_is_refused():
    assert spelled(Dropout(torch.zeros_like)) == "Dropout(null=zeros_like, share=0.1)"
    assert spelled((1,)) == "(1,)"
    with pytest.raises(ValueError, match="values that can be spelled; got <object object at"):
        spelled((object(),))
    with pytest.raises(ValueError, match="can be spelled; got <function"):
        spelled(lambda: None)


def test_the_learning_rate_rises_then_falls():
    budget = Budget(100, 1, learning_rate=0.5, warm_up=10, decay=cosine)
    assert budget.rate(5) == pytest.approx(0.25 * cosine(5, 100))
    assert budget.rate(50) == pytest.approx(0.25)
    assert budget.rate(100) == pytest.approx(0)
    assert Budget(10, 1, learning_rate=0.5).rate(1) == 0.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "at least 1; got 0 and 4"),
        ({"batch": 0}, "at least 1; got 9 and 0"),
        ({"learning_rate": 0.0}, "above 0; got 0.0"),
        ({"clip": -1.0}, "above 0; got 0.001 and -1.0"),
        ({"ema": 1.0}, r"ema lies in \[0, 1\)"),
        ({"warm_up": -1}, "warm_up is not negative"),
        ({"weight_decay": -1.0}, "all of a weight in a step; got -1.0 at a .* of 0.001"),
        ({"weight_decay": 1e3}, "all of a weight in a step; got 1000.0"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(changes: dict[str, object], message: str):
    with pytest.raises(ValueError, match=message):
        replace(Budget(steps=9, batch=4), **changes)


def test_milestones_are_steps_and_keep_their_share_of_training():
    with pytest.raises(ValueError, match=r"steps of 1 to 100; got \(3, 101\)"):
        replace(CELL, milestones=(3, 101))
    assert CELL.of_steps(10).milestones == (5, 10)
    assert CELL.tiny().milestones == (5, 10)
    assert CELL.tiny().training.budget == Budget(10, 4, ema=0.9)
    assert Budget(5, 2).tiny() == replace(Budget(5, 2), ema=0.9)


def test_a_model_is_wrapped_as_its_objective_needs():
    wrapped = TRAINING.untrained(0, torch.device("cpu"))
    assert isinstance(wrapped, Preconditioned)
    assert wrapped.sigma_data == Diffusion().sigma_data
    x, sigma, none = torch.randn(3, 2, 1, 1), torch.tensor([0.1, 1.0, 5.0]), torch.zeros(3, 4)
    for target in (noise, velocity):
        objective = StepDiffusion(target=target)
        wrapped = replace(TRAINING, objective=objective).untrained(0, torch.device("cpu"))
        assert isinstance(wrapped, Predicting)
        answer = wrapped.network(
            x / (1 + sigma**2).sqrt().reshape(-1, 1, 1, 1), objective.schedule.time(sigma), none
        )
        torch.testing.assert_close(target(wrapped(x, sigma, none), x, sigma), answer)


def test_a_seed_fixes_the_first_weights_and_leaves_other_random_numbers_alone():
    cpu = torch.device("cpu")
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    one, same, other = (TRAINING.untrained(seed, cpu).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.rand(1), expected)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)
