"""Readings are inverted, wrappers are compared with laws whose best answer is known."""

from math import inf, nan

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import MultivariateNormal

from recombine.denoiser import (
    LinearBeta,
    Preconditioned,
    Predicting,
    denoised_from_noise,
    denoised_from_velocity,
    noise,
    per_image,
    quarter_log,
    score,
    unit_noise,
    variance_preserving,
    velocity,
)
from recombine.models.gaussian import Constant, GaussianLaw

SIGMA = torch.tensor([0.002, 0.5, 3.0, 80.0], dtype=torch.float64)


class Recorder(nn.Module):
    """A network that answers with a constant and remembers what it was asked."""

    def __init__(self, answer: float, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.answer = nn.Parameter(torch.tensor(answer, dtype=dtype))

    def forward(self, x: Tensor, clock: Tensor, condition: Tensor) -> Tensor:
        self.asked = x, clock, condition
        return self.answer.expand(x.shape)


@pytest.mark.parametrize(
    ("convert", "inverse"), [(noise, denoised_from_noise), (velocity, denoised_from_velocity)]
)
def test_every_conversion_can_be_undone(convert, inverse, rng: torch.Generator):
    denoised, x = torch.randn(2, 4, 3, 2, 5, generator=rng, dtype=torch.float64)
    back = inverse(convert(denoised, x, SIGMA), x, SIGMA)
    torch.testing.assert_close(back, denoised, rtol=1e-9, atol=1e-9)


def test_score_is_the_gradient_of_the_log_density(rng: torch.Generator):
    covariance = torch.tensor([[1.0, 0.6], [0.6, 2.0]], dtype=torch.float64)
    law = MultivariateNormal(torch.zeros(2).double(), covariance + 0.25 * torch.eye(2))
    x = torch.randn(1, 2, generator=rng, dtype=torch.float64, requires_grad=True)
    (exact,) = torch.autograd.grad(law.log_prob(x).sum(), x)
    denoised = x @ torch.linalg.solve(covariance + 0.25 * torch.eye(2), covariance)
    torch.testing.assert_close(score(denoised, x, torch.tensor([0.5]).double()), exact)


def test_noise_velocity_and_the_variance_preserving_view_are_those_of_ddpm(rng: torch.Generator):
    image, added = torch.randn(2, 4, 1, 3, 3, generator=rng, dtype=torch.float64)
    x = image + per_image(SIGMA, image) * added
    alpha_bar = per_image(1 / (1 + SIGMA**2), image)
    signal, spread = alpha_bar.sqrt(), (1 - alpha_bar).sqrt()
    for found, expected in (
        (noise(image, x, SIGMA), added),
        (velocity(image, x, SIGMA), signal * added - spread * image),
        (variance_preserving(x, SIGMA), signal * image + spread * added),
    ):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_linear_beta_agrees_with_a_loop():
    schedule, alpha_bar, expected = LinearBeta(steps=500, first=1e-4, last=0.02), 1.0, []
    for step in range(500):
        alpha_bar *= 1 - (1e-4 + step * (0.02 - 1e-4) / 499)
        expected.append(((1 - alpha_bar) / alpha_bar) ** 0.5)
    torch.testing.assert_close(
        schedule.levels(SIGMA), torch.tensor(expected).double(), rtol=1e-6, atol=0
    )
    assert schedule.levels(torch.zeros(0)).dtype == torch.float32


def test_the_clock_of_ddpm_shows_the_step_and_moves_evenly_between_steps():
    schedule = LinearBeta(steps=10, first=0.01, last=0.3)
    levels = schedule.levels(SIGMA)
    torch.testing.assert_close(schedule.time(levels), torch.arange(1, 11).double() / 10)
    between = (levels[3] * levels[4]).sqrt()[None]
    torch.testing.assert_close(schedule.time(between), torch.tensor([0.45]).double())
    beyond = torch.stack([levels[0] / 9, levels[-1] * 9])
    torch.testing.assert_close(schedule.time(beyond), torch.tensor([0.1, 1.0]).double())


def test_a_silent_network_leaves_the_exact_denoiser_of_a_normal_law(rng: torch.Generator):
    x = torch.randn(4, 6, generator=rng, dtype=torch.float64)
    law = GaussianLaw(Constant(torch.zeros(6).double()), 0.09 * torch.eye(6).double())
    silent = Preconditioned(Recorder(0.0), sigma_data=0.3)
    torch.testing.assert_close(silent(x, SIGMA, x), law(x, SIGMA, x))


def test_the_network_is_scaled_by_the_best_error_and_sees_unit_variance(rng: torch.Generator):
    x, told = torch.randn(2, 4, 3, 2, 2, generator=rng, dtype=torch.float64)
    silent, loud = (Preconditioned(Recorder(answer), sigma_data=0.3) for answer in (0.0, 1.0))
    best_error = 0.09 * SIGMA**2 / (0.09 + SIGMA**2)
    scale = (loud(x, SIGMA, told) - silent(x, SIGMA, told)).square().mean(dim=(1, 2, 3))
    torch.testing.assert_close(scale, best_error, rtol=1e-9, atol=0)
    seen, clock, condition = loud.network.asked
    torch.testing.assert_close(seen, x / per_image(0.09 + SIGMA**2, x).sqrt())
    torch.testing.assert_close(clock, SIGMA.log() / 4)
    assert condition is told


def test_a_network_that_knows_the_noise_or_the_velocity_is_the_exact_denoiser(rng):
    class Noise(nn.Module):
        """The noise in images of unit variance, of which the velocity is always zero."""

        def forward(self, x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
            level = per_image(sigma, x)
            return level / (1 + level**2).sqrt() * x

    x = torch.randn(4, 6, generator=rng, dtype=torch.float64)
    law = GaussianLaw(Constant(torch.zeros(6).double()), torch.eye(6).double())
    for network, inverse in (
        (Noise(), denoised_from_noise),
        (Recorder(0.0), denoised_from_velocity),
    ):
        predicting = Predicting(network, inverse, clock=lambda sigma: sigma)
        torch.testing.assert_close(predicting(x, SIGMA, x), law(x, SIGMA, x))


def test_a_predicting_network_sees_the_clock_it_was_given():
    schedule, network = LinearBeta(), Recorder(0.0)
    sigma = schedule.levels(SIGMA)[[0, 249]]
    Predicting(network, denoised_from_noise, schedule.time)(torch.ones(2, 3).double(), sigma, sigma)
    torch.testing.assert_close(network.asked[1], torch.tensor([1 / 500, 0.5]).double())
    Predicting(network, denoised_from_noise)(torch.ones(2, 3).double(), sigma, sigma)
    torch.testing.assert_close(network.asked[1], quarter_log(sigma))


@pytest.mark.parametrize(
    "wrap", [Preconditioned, lambda network: Predicting(network, denoised_from_velocity)]
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_the_precision_is_that_of_x_and_the_weights_learn(wrap, dtype: torch.dtype):
    wrapped = wrap(Recorder(1.0, dtype))
    denoised = wrapped(torch.ones(4, 2, 3), SIGMA, torch.ones(4, 1))
    assert denoised.dtype == torch.float32
    denoised.sum().backward()
    assert wrapped.network.answer.grad != 0
    assert list(wrapped.state_dict()) == ["network.answer"]


def test_readings_have_the_precision_of_x():
    x = torch.ones(4, 2, 3)
    for read in (score, noise, velocity, denoised_from_noise):
        assert read(x, x, SIGMA).dtype == torch.float32


def test_noise_is_normal_and_repeats_with_its_generator():
    first, second = (
        unit_noise(torch.empty(100_000), torch.Generator().manual_seed(3)) for _ in range(2)
    )
    assert torch.equal(first, second)
    assert first.mean().abs() < 0.015
    assert first.std().item() == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("bad", [0.0, -1.0, nan, inf])
def test_a_noise_level_is_positive_and_finite(bad: float):
    x, sigma = torch.ones(2, 3), torch.tensor([1.0, bad])
    for convert in (score, noise, velocity):
        with pytest.raises(ValueError, match=f"sigma is positive and finite; got {bad:g}$"):
            convert(x, x, sigma)
    for denoiser in (
        Preconditioned(Recorder(0.0)),
        Predicting(Recorder(0.0), denoised_from_noise),
        GaussianLaw(Constant(torch.zeros(3)), torch.eye(3)),
    ):
        with pytest.raises(ValueError, match="sigma is positive and finite"):
            denoiser(x, sigma, x)


@pytest.mark.usefixtures("unhooked")
def test_wrong_shapes_are_named():
    x, sigma = torch.ones(2, 3), torch.ones(2)
    for wrap in (Preconditioned, lambda network: Predicting(network, denoised_from_noise)):
        denoiser = wrap(Wider())
        with pytest.raises(ValueError, match=r"2 images, so sigma has the shape \(2,\); got \(\)"):
            denoiser(x, torch.ones(()), x)
        with pytest.raises(ValueError, match=r"condition has 2 rows; got the shape \(5, 3\)"):
            denoiser(x, sigma, torch.ones(5, 3))
        with pytest.raises(ValueError, match=r"shape of x, \(2, 3\); got \(2, 4\)"):
            denoiser(x, sigma, x)


class Wider(nn.Module):
    """A network with one output too many."""

    def forward(self, x: Tensor, clock: Tensor, condition: Tensor) -> Tensor:
        return torch.cat([x, x[:, :1]], dim=1)


def test_a_long_batch_of_bad_levels_is_shortened():
    with pytest.raises(ValueError, match=r"got 0, 0, 0, 0, 0, 0, 0, 0, \.\.\.$"):
        noise(torch.ones(9, 1), torch.ones(9, 1), torch.zeros(9))


def test_impossible_schedules_are_named():
    with pytest.raises(ValueError, match="at least 2 steps; got 1"):
        LinearBeta(steps=1)
    with pytest.raises(ValueError, match="got 0.02, 0.0001"):
        LinearBeta(first=0.02, last=1e-4)
    with pytest.raises(ValueError, match="got 0.0001, 1"):
        LinearBeta(last=1.0)
    with pytest.raises(ValueError, match="sigma_data is a positive number; got 0"):
        Preconditioned(Recorder(0.0), sigma_data=0.0)
