"""JEPA beside denoising: the same call serves both losses, and the denoiser stays what it was."""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F

from recombine.denoiser import Preconditioned
from recombine.models.dit import DiT
from recombine.models.entry import Vector
from recombine.objectives.diffusion import Diffusion
from recombine.objectives.jepa import LOWEST, Jepa
from subjects import perturbed

SMALL = DiT(2, 4, entry=Vector(3), width=16, layers=3, heads=2)
JEPA = Jepa(layers=(0, 2), weight=0.6)
OBJECTIVE = JEPA(Diffusion(sigma_data=1.0))


@pytest.fixture
def parts(rng: torch.Generator):
    """A model, its average, and a batch."""
    model = perturbed(OBJECTIVE.wrap(SMALL.build()))
    average = perturbed(deepcopy(model)).eval()
    image, told = (torch.randn(5, *shape, generator=rng) for shape in ((2, 4, 4), (3,)))
    return model, average, image, told


def noise() -> torch.Generator:
    return torch.Generator().manual_seed(7)


def test_it_answers_as_the_denoiser_does(parts):
    model, _, image, told = parts
    plain = Preconditioned(model.denoiser.network, 1.0)
    sigma = torch.rand(5) + 0.1
    assert torch.equal(model(image, sigma, told), plain(image, sigma, told))


def test_the_loss_is_the_sum_of_both(parts):
    model, average, image, told = parts
    loss = OBJECTIVE(model, image, told, generator=noise(), average=average)
    kept = []

    def spy(x, sigma, condition):
        kept.append((x, sigma))
        return model(x, sigma, condition)

    denoising = OBJECTIVE.objective(spy, image, told, generator=noise())
    ((x, sigma),) = kept
    _, guesses = model(x, sigma, told, True)
    _, clean = average(image, torch.full_like(sigma, LOWEST), told, True)
    errors = [F.mse_loss(guess, true) for guess, true in zip(guesses, clean, strict=True)]
    assert loss.item() == pytest.approx((denoising + 0.6 * sum(errors) / 2).item(), rel=1e-6)


def test_the_average_says_its_states_and_gets_no_gradient(parts):
    model, average, image, told = parts
    sigma, states = torch.ones(5), []
    average.denoiser(image, sigma, told, states)
    _, said = average(image, sigma, told, True)
    assert all(map(torch.equal, said, (states[0], states[2])))
    OBJECTIVE(model, image, told, generator=noise(), average=average).backward()
    assert all(parameter.grad is None for parameter in average.parameters())
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_layers_are_counted():
    with pytest.raises(ValueError, match="the network has the layers 0..2; got 3"):
        Jepa(layers=(3,))(Diffusion()).wrap(SMALL.build())
