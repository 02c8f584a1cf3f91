"""The loss of an exact denoiser is known: the best error, weighted."""

import pytest
import torch
from torch import Tensor, nn

from recombine.denoiser import (
    LinearBeta,
    Preconditioned,
    Predicting,
    denoised_from_noise,
    denoised_from_velocity,
    noise,
    velocity,
)
from recombine.models.gaussian import Constant, GaussianLaw
from recombine.objectives.diffusion import Diffusion, Dropout, StepDiffusion

SCHEDULE = LinearBeta(steps=20, first=0.01, last=0.4)
OBJECTIVES = [Diffusion(), StepDiffusion(), StepDiffusion(SCHEDULE, velocity)]
each_objective = pytest.mark.parametrize("objective", OBJECTIVES)


class Missing:
    """A denoiser that knows the clean images, misses them by `by`, and remembers its question."""

    def __init__(self, image: Tensor, by: float) -> None:
        self.image, self.by = image, by

    def __call__(self, x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        self.x, self.sigma, self.condition = x, sigma, condition
        return self.image + self.by


def asked(objective, rng: torch.Generator, count: int = 512, by: float = 0.3):
    image = torch.randn(count, 2, 3, 3, generator=rng, dtype=torch.float64)
    denoiser = Missing(image, by)
    told = torch.arange(count)[:, None] + 1
    return denoiser, objective(denoiser, image, told, generator=rng)


def correlated(variance: float = 1.0) -> GaussianLaw:
    distance = (torch.arange(4)[:, None] - torch.arange(4)).abs()
    return GaussianLaw(Constant(torch.zeros(1, 2, 2).double()), variance * 0.6 ** distance.double())


@pytest.mark.parametrize(
    ("objective", "weight"),
    [
        (Diffusion(sigma_data=0.4), lambda sigma: (sigma**2 + 0.16) / (0.4 * sigma) ** 2),
        (StepDiffusion(SCHEDULE), lambda sigma: sigma**-2),
        (StepDiffusion(SCHEDULE, velocity), lambda sigma: 1 + sigma**-2),
    ],
)
def test_each_error_is_weighted_by_its_noise_level(objective, weight, rng: torch.Generator):
    denoiser, loss = asked(objective, rng)
    torch.testing.assert_close(loss, (weight(denoiser.sigma) * 0.09).mean())


@pytest.mark.parametrize("log_sigma", [-2.0, 0.0, 1.0])
def test_the_loss_of_the_exact_denoiser_is_the_best_error(log_sigma: float, rng: torch.Generator):
    law, told = correlated(), torch.zeros(20_000, dtype=torch.float64)
    sigma = torch.full((1,), log_sigma).double().exp()
    # The covariance of what remains unknown is sigma^2 times the Jacobian.
    jacobian = law.jacobian(torch.zeros(1, 1, 2, 2).double(), sigma, told[:1])[0]
    expected = (1 / sigma**2 + 4) * sigma**2 * jacobian.trace() / 4
    loss = Diffusion(log_sigma, 0.0)(law, law.sample(told, rng), told, generator=rng)
    assert loss.item() == pytest.approx(expected.item(), rel=0.03)


def test_noise_levels_are_log_normal(rng: torch.Generator):
    log_sigma = Diffusion(-0.8, 1.6).levels(torch.empty(100_000, 1), rng).log()
    assert log_sigma.mean().item() == pytest.approx(-0.8, abs=0.02)
    assert log_sigma.std().item() == pytest.approx(1.6, rel=0.01)
    assert (log_sigma < -0.8 - 1.6).float().mean().item() == pytest.approx(0.1587, abs=0.005)


def test_steps_are_uniform_and_each_is_a_level_of_the_schedule(rng: torch.Generator):
    sigma = StepDiffusion(SCHEDULE).levels(torch.empty(20_000, 1).double(), rng)
    levels, count = sigma.unique(return_counts=True)
    torch.testing.assert_close(levels, SCHEDULE.levels(sigma))
    assert ((count - 1000).abs() < 150).all()


@each_objective
def test_x_is_the_image_under_unit_noise_of_its_level(objective, rng: torch.Generator):
    denoiser, _ = asked(objective, rng, count=4096)
    added = noise(denoiser.image, denoiser.x, denoiser.sigma)
    assert added.mean().abs() < 0.02
    assert added.std().item() == pytest.approx(1, rel=0.02)
    coarse = added[denoiser.sigma > denoiser.sigma.median()]
    assert coarse.std().item() == pytest.approx(1, rel=0.02)


@each_objective
def test_the_generator_decides_the_loss(objective):
    first, again, other = (
        asked(objective, torch.Generator().manual_seed(seed))[1] for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@each_objective
def test_the_loss_has_the_precision_of_the_images(objective, rng: torch.Generator):
    for dtype in (torch.float32, torch.float64):
        image = torch.zeros(4, 2, dtype=dtype)
        loss = objective(lambda x, sigma, told: x, image, torch.zeros(4), generator=rng)
        assert loss.dtype == dtype


@each_objective
def test_a_network_learns_by_it(objective, rng: torch.Generator):
    class Linear(nn.Linear):
        def forward(self, x: Tensor, clock: Tensor, condition: Tensor) -> Tensor:
            return super().forward(x)

    denoiser = Preconditioned(Linear(3, 3))
    image = torch.randn(16, 3, generator=rng)
    objective(denoiser, image, torch.zeros(16), generator=rng).backward()
    assert denoiser.network.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("kind", [Diffusion, StepDiffusion])
def test_a_dropped_condition_becomes_the_null_and_no_other_changes(kind, rng: torch.Generator):
    def null(condition: Tensor) -> Tensor:
        return torch.full_like(condition, -7)

    denoiser, _ = asked(kind(dropout=Dropout(null, share=0.25)), rng, count=4096)
    told, heard = torch.arange(4096)[:, None] + 1, denoiser.condition
    dropped = heard == -7
    assert torch.equal(heard[~dropped], told[~dropped])
    assert dropped.double().mean().item() == pytest.approx(0.25, abs=0.03)


@each_objective
def test_without_dropout_every_condition_arrives(objective, rng: torch.Generator):
    denoiser, _ = asked(objective, rng)
    assert torch.equal(denoiser.condition, torch.arange(512)[:, None] + 1)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_none_or_all_can_be_dropped(share: float, rng: torch.Generator):
    told = torch.ones(64, 3, 2)
    heard = Dropout(torch.zeros_like, share)(told, rng)
    assert torch.equal(heard, (1 - share) * told)


def test_objectives_are_values():
    assert Diffusion() == Diffusion()
    assert hash(StepDiffusion()) == hash(StepDiffusion(LinearBeta(), noise))
    assert Diffusion(dropout=Dropout(torch.zeros_like)) != Diffusion()


def test_bad_objectives_are_named(rng: torch.Generator):
    with pytest.raises(ValueError, match=r"lies in \[0, 1\]; got 1.5"):
        Dropout(torch.zeros_like, share=1.5)
    with pytest.raises(ValueError, match="log_sigma_std is not negative; got -1"):
        Diffusion(log_sigma_std=-1.0)
    with pytest.raises(ValueError, match="sigma_data is positive; got 0"):
        Diffusion(sigma_data=0.0)
    with pytest.raises(ValueError, match=r"of the shape \(4, 2\); got torch.int64 of \(4, 1\)"):
        Dropout(lambda told: torch.zeros(4, 1, dtype=torch.int64))(torch.ones(4, 2), rng)
    with pytest.raises(ValueError, match=r"shape of x, \(4, 2\); got \(4, 1\)"):
        Diffusion()(lambda x, *_: x[:, :1], torch.ones(4, 2), torch.ones(4), generator=rng)


def test_an_objective_makes_its_denoiser_of_a_network():
    network = torch.nn.Identity()
    made = Diffusion(sigma_data=0.3).wrap(network)
    assert isinstance(made, Preconditioned)
    assert (made.network, made.sigma_data) == (network, 0.3)
    for target, inverse in ((noise, denoised_from_noise), (velocity, denoised_from_velocity)):
        made = StepDiffusion(LinearBeta(7), target).wrap(network)
        assert isinstance(made, Predicting)
        assert (made.network, made.inverse) == (network, inverse)
        sigma = torch.tensor([0.5, 3.0])
        assert torch.equal(made.clock(sigma), LinearBeta(7).time(sigma))
