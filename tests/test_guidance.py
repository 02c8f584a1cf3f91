"""A guided Gaussian is another Gaussian, whose mean is known: so guidance is checked exactly."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from recombine import studies
from recombine.denoiser import Denoiser
from recombine.models.gaussian import GaussianLaw
from recombine.objectives.diffusion import Dropout
from recombine.sample.guidance import Guidance
from recombine.sample.heun import HEUN, Sampler
from recombine.spelling import spelled

CONDITION = torch.linspace(-2, 2, 12, dtype=torch.float64)
X, SIGMA = CONDITION.outer(CONDITION[:3]).reshape(-1, 1, 3), torch.linspace(0.1, 9, 12).double()


def mean(condition: Tensor) -> Tensor:
    return torch.stack([condition, condition.sin(), condition**2], dim=1)[:, None]


def null(condition: Tensor) -> Tensor:
    """Each row has a null of its own: rows that got mixed up are found out."""
    return condition / 2 + 0.3


def law(of: Callable[[Tensor], Tensor]) -> GaussianLaw:
    distance = (torch.arange(3)[:, None] - torch.arange(3)).abs()
    return GaussianLaw(of, 0.25 * 0.6 ** distance.double())


def drawn(denoiser: Denoiser, sampler: Sampler) -> Tensor:
    draw = sampler.generator(denoiser, (1, 3), batch=5)
    return draw.seeded(CONDITION, torch.arange(12) * 1_000_003)


@pytest.mark.parametrize("sampler", [HEUN, Sampler(9)], ids=spelled)
@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0, 3.0])
def test_guided_samples_are_those_of_the_gaussian_whose_mean_is_pushed(weight, sampler):
    def pushed(condition: Tensor) -> Tensor:
        untold = mean(null(condition))
        return untold + weight * (mean(condition) - untold)

    samples = drawn(law(mean), replace(sampler, guidance=Guidance(null, weight)))
    torch.testing.assert_close(samples, drawn(law(pushed), sampler), rtol=0, atol=1e-11)
    assert torch.allclose(samples, drawn(law(mean), sampler)) == (weight == 1)


def test_a_guided_denoiser_is_called_twice_for_each_image_and_any_other_once():
    heard: list[tuple[Tensor, ...]] = []

    def denoiser(*question: Tensor) -> Tensor:
        heard.append(question)
        return law(mean)(*question)

    batches = [batch for batch in CONDITION.split(5) for _ in range(7)]
    drawn(denoiser, Sampler(4))
    assert all(torch.equal(told, of) for (*_, told), of in zip(heard, batches, strict=True))
    heard.clear()
    drawn(denoiser, Sampler(4, guidance=Guidance(null, 3.0)))
    for told, untold, of in zip(heard[::2], heard[1::2], batches, strict=True):
        assert torch.equal(told[2], of)
        expected = told[0], told[1], null(of)
        assert all(map(torch.equal, untold, expected))


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_bad_weights_are_named(weight: float):
    with pytest.raises(ValueError, match=f"^a weight of .* not negative; got {weight}$"):
        Guidance(null, weight)


@pytest.mark.parametrize("bad", [lambda told: told[:1], lambda told: told.float()])
def test_a_null_unlike_the_condition_is_named_as_dropout_names_it(bad, rng):
    with pytest.raises(ValueError, match="a null condition is like") as expected:
        Dropout(bad)(CONDITION, rng)
    with pytest.raises(ValueError, match="a null condition is like") as found:
        Guidance(bad, 3.0)(law(mean))(X, SIGMA, CONDITION)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("key", ["grid_one-local", "list_all-local"])
def test_guidance_changes_samples_and_not_what_is_learned(key: str):
    cells = studies.load("length").cells
    guided, plain = cells[f"{key}-guided"], cells[key]
    assert guided.training.digest == plain.training.digest
    assert guided.sampler.guidance is not None
    assert plain.sampler == replace(guided.sampler, guidance=None)
