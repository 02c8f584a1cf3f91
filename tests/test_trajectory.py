"""Courses through concept space: rises, times of learning, slow-downs."""

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from recombine.measure import trajectory
from recombine.measurement import exact_binomial

STEPS = torch.tensor([100.0, 200, 400, 800, 1600, 3200]).double()


def curve(*values: float) -> Float[Tensor, " time"]:
    return torch.tensor(values, dtype=torch.float64)


def test_a_rise_is_the_largest_one_above_what_was_before():
    # Falls to 0.2, rises to 0.5, falls to 0.1, rises to 0.3.
    assert trajectory.rise(curve(0.4, 0.2, 0.3, 0.5, 0.1, 0.3)) == pytest.approx((0.3, 1, 3))
    assert trajectory.rise(curve(0.25, 0.45, 0.1)) == pytest.approx((0.2, 0, 1))


def test_a_curve_that_only_falls_does_not_rise():
    assert trajectory.rise(curve(0.5, 0.3, 0.3, 0.1)).height == 0


def test_a_rise_is_what_all_pairs_of_a_random_curve_say(rng: torch.Generator):
    values = torch.rand(40, generator=rng).double()
    pairs = [(float(values[b] - values[a]), a, b) for b in range(40) for a in range(b)]
    assert trajectory.rise(values) == pytest.approx(max(pairs))


def test_a_concept_is_learned_from_the_first_of_three_in_a_row():
    assert trajectory.learned_at(STEPS, curve(0.9, 0.9, 0.1, 0.8, 0.8, 0.9)) == 800
    assert trajectory.learned_at(STEPS, curve(0.9, 0.9, 0.9, 0.1, 0.1, 0.1)) == 100
    assert trajectory.learned_at(STEPS, curve(0.9, 0.9, 0.1, 0.1, 0.9, 0.9)) is None
    assert trajectory.learned_at(STEPS, curve(0, 0, 0, 0, 0.79, 1)) is None
    assert trajectory.learned_at(STEPS[:2], curve(1, 1)) is None


def test_speed_is_per_step_where_milestones_are_uneven():
    """A peak is blurred over milestones, whatever the steps between them."""
    peak = torch.zeros(41, 1).double()
    peak[20] = 1
    even = torch.arange(41.0).double()
    blurred = torch.exp(-((even - 20) ** 2) / (2 * 1.5**2))
    blurred = blurred / blurred.sum()
    for steps in (even, even**2):
        (slope,) = torch.gradient(blurred, spacing=(steps,))
        torch.testing.assert_close(trajectory.speed(steps, peak), slope.abs(), atol=1e-4, rtol=0)


def test_an_exponential_slow_down_has_its_rate_and_fits_better_than_a_power_law():
    steps = torch.linspace(100, 4000, 30).double()
    speed = torch.cat([curve(1e-4, 3e-4), 2e-3 * torch.exp(-0.002 * steps)])
    every = torch.cat([curve(20, 60), steps])
    found = trajectory.slow_down(every, speed)
    assert found is not None
    assert found.rate.value == pytest.approx(0.002)
    assert found.rate.low == pytest.approx(0.002)
    assert found.rate.n == 30
    assert found.explained == pytest.approx(1)
    assert found.explained_by_log < 0.95


def test_a_power_law_fits_a_line_over_the_log_of_steps():
    steps = torch.linspace(100, 4000, 30).double()
    found = trajectory.slow_down(steps, steps**-1.5)
    assert found is not None
    assert found.explained_by_log == pytest.approx(1)
    assert found.explained < 0.95


def test_a_slow_down_ends_where_nothing_moves_any_more():
    steps = torch.linspace(100, 1000, 10).double()
    speed = torch.exp(-0.01 * steps)
    speed[6:] = 0
    found = trajectory.slow_down(steps, speed)
    assert found is not None
    assert found.rate.n == 6
    assert found.rate.value == pytest.approx(0.01)
    assert trajectory.slow_down(steps[:3], speed[:3]) is None
    assert trajectory.slow_down(steps[:1], speed[:1]) is None
    # A step of 100 at the speed exp(-5) is a move of 0.67.
    moves = trajectory.slow_down(steps, torch.exp(-0.01 * steps), least=0.68)
    assert moves is not None
    assert moves.rate.n == 4
    assert trajectory.slow_down(steps, torch.zeros(10).double()) is None


def test_the_interval_of_a_rate_is_that_of_a_straight_line(rng: torch.Generator):
    steps = torch.linspace(100, 1000, 12).double()
    log = -0.003 * steps + 0.1 * torch.randn(12, generator=rng).double()
    log[0] += 1.0
    found = trajectory.slow_down(steps, log.exp())
    design = torch.stack([torch.ones(12).double(), steps], dim=1)
    coefficients = torch.linalg.lstsq(design, log[:, None]).solution[:, 0]
    left = log - design @ coefficients
    variance = left.square().sum() / 10 / (steps - steps.mean()).square().sum()
    reach = 2.2281 * float(variance.sqrt())  # Student's t of 10 degrees of freedom
    assert found is not None
    assert found.rate.value == pytest.approx(-float(coefficients[1]))
    assert found.rate.high - found.rate.value == pytest.approx(reach, rel=1e-4)
    assert found.rate.value - found.rate.low == pytest.approx(reach, rel=1e-4)


def test_the_distance_to_the_corner_is_the_mean_of_squares_and_its_interval_covers_both():
    found = trajectory.corner_distance((64, 192), 256)
    assert found.value == pytest.approx((0.75**2 + 0.25**2) / 2)
    ends = [exact_binomial(count, 256, 0.975) for count in (64, 192)]
    assert found.low == pytest.approx(sum((high - 1) ** 2 for _, high in ends) / 2)
    assert found.high == pytest.approx(sum((low - 1) ** 2 for low, _ in ends) / 2)
    assert found.n == 256
    assert trajectory.corner_distance((256, 256), 256).value == 0
