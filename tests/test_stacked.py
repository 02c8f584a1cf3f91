"""Stacked runs are the runs they would be alone, whatever is trained."""

import pytest
import torch

from recombine.run.state import packed
from recombine.stacked import StackedStep
from recombine.train import train
from stacked_runs import FAMILIES, alone, losses_of, rates, started, together

STEPS = 20


@pytest.mark.parametrize("name", FAMILIES)
def test_a_stacked_run_is_the_run_alone(name: str):
    """Losses, weights, averages, moments of the optimizer and random numbers, after 20 steps."""
    family = FAMILIES[name]
    expected, by_itself = alone(family, STEPS)
    steps = started(family)
    stack = StackedStep(steps)
    losses = losses_of(train(stack, together(family), rates, range(1, STEPS + 1)))
    torch.testing.assert_close(losses, expected, atol=1e-5, rtol=1e-5)
    for ours, theirs in zip(steps, by_itself, strict=True):
        left, right = (packed(each.weights, {"noise": each.generator}) for each in (ours, theirs))
        assert left.keys() == right.keys()
        for key, value in right.items():
            torch.testing.assert_close(left[key], value, atol=1e-5, rtol=1e-5, msg=lambda m, key=key: f"{key}: {m}")
