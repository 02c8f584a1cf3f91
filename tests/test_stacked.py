"""Stacked runs are the runs they would be alone, whatever is trained."""

import pytest
import torch
from torch import Tensor

from recombine.run.state import packed
from recombine.stacked import StackedStep
from recombine.train import Step, train
from stacked_runs import FAMILIES, alone, losses_of, rates, started, together

STEPS = 20


def left(step: Step) -> dict[str, Tensor]:
    """Return all that a run leaves: weights, average, moments of the optimizer, random numbers."""
    return packed(step.weights, {"noise": step.generator})


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize("name", FAMILIES)
def test_a_stacked_run_is_the_run_alone(name: str):
    """After 20 steps in single precision.

    Adam makes a large step of a gradient that is all rounding, so single weights may be further
    off; each tensor as a whole is not.
    """
    family = FAMILIES[name]
    expected, by_itself = alone(family, STEPS)
    steps = started(family)
    taken = train(StackedStep(steps), together(family), rates, range(1, STEPS + 1))
    torch.testing.assert_close(losses_of(taken), expected, atol=1e-5, rtol=1e-5)
    for ours, theirs in zip(map(left, steps), map(left, by_itself), strict=True):
        assert ours.keys() == theirs.keys()
        for key, value in theirs.items():
            away = (ours[key].double() - value.double()).norm()
            assert away <= 1e-5 * value.double().norm() + 1e-6, key


@pytest.mark.parametrize("name", ["dit_jepa", "squared_adaln", "mar_jepa", "givt", "codes"])
def test_nothing_but_rounding_is_different(name: str):
    """In double precision every number is the same to 1e-9."""
    family = FAMILIES[name]
    expected, by_itself = alone(family, 4, dtype=torch.float64)
    steps = started(family, dtype=torch.float64)
    given = together(family, dtype=torch.float64)
    taken = train(StackedStep(steps), given, rates, range(1, 5))
    torch.testing.assert_close(losses_of(taken), expected, atol=1e-9, rtol=1e-9)
    for ours, theirs in zip(map(left, steps), map(left, by_itself), strict=True):
        for key, value in theirs.items():
            torch.testing.assert_close(ours[key], value, atol=1e-9, rtol=1e-8)
