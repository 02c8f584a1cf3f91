"""Factors that act on independent parts: what each changes alone adds up to the joint law, exactly.

Each pixel of three belongs to one factor. Given its concept the pixel is normal, else it is a
mixture over the concepts: the joint law is a mixture of 3 x 2 x 2 Gaussians.
"""

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from recombine.condition import Labels
from recombine.models.gaussian import Constant, GaussianLaw
from recombine.models.mixture import MixtureLaw
from recombine.sample.guidance import SummedScores
from recombine.sample.heun import Sampler

COUNTS = (3, 2, 2)
PLACES = ((-2.0, 0.5, 3.0), (-1.0, 1.0), (0.0, 2.0))
CHANCES = ((0.5, 0.2, 0.3), (0.6, 0.4), (0.1, 0.9))
SUMMED = SummedScores(torch.zeros_like)
EVERY = list(product(*map(range, COUNTS)))


def log_weight(condition: Tensor) -> Tensor:
    """Of all compositions, those that have the given concepts; a null row rules none out."""
    found = condition.new_zeros(len(condition), len(EVERY))
    for number, concepts in enumerate(EVERY):
        for factor, concept in enumerate(concepts):
            given = condition[:, factor, -1] != 0
            possible = ~given | (condition[:, factor, concept] == 1)
            found[:, number] += torch.tensor(CHANCES[factor][concept]).double().log()
            found[:, number].masked_fill_(~possible, -torch.inf)
    return found


def law(correlation: float = 0.0) -> MixtureLaw:
    means = [[PLACES[factor][each] for factor, each in enumerate(row)] for row in EVERY]
    mean = torch.tensor(means).double().view(-1, 1, 1, 3)
    covariance = 0.04 * (torch.eye(3) + correlation * (1 - torch.eye(3))).double()
    return MixtureLaw(log_weight, Constant(mean), covariance)


def conditions(rows: list[tuple[int, ...]]) -> Tensor:
    written = torch.zeros(len(rows), 3, Labels(COUNTS).features + 1).double()
    for at, concepts in enumerate(rows):
        for factor, concept in enumerate(concepts):
            written[at, factor, concept] = written[at, factor, -1] = 1
    return written


@pytest.mark.parametrize("sigma", [0.01, 0.5, 2.0, 40.0])
def test_independent_factors_add_up_to_the_joint_law_at_every_noise_level(sigma: float, rng):
    condition = conditions(EVERY)
    x = 3 * torch.randn(len(EVERY), 1, 1, 3, generator=rng).double()
    levels = torch.full((len(EVERY),), sigma).double()
    joint = law()(x, levels, condition)
    torch.testing.assert_close(SUMMED(law())(x, levels, condition), joint, rtol=0, atol=1e-9)
    if sigma == 2.0:
        assert not torch.allclose(law()(x, levels, torch.zeros_like(condition)), joint, atol=0.1)
        # Of factors that act on the same pixels this is no longer so.
        torch.testing.assert_close(law(0.0)(x, levels, condition), joint)
        together, summed = (each(x, levels, condition) for each in (law(0.9), SUMMED(law(0.9))))
        assert not torch.allclose(together, summed, atol=0.01)


def test_samples_are_those_of_the_requested_composition():
    condition = conditions(EVERY)
    seeds = torch.arange(len(EVERY))
    sampler = Sampler(steps=32)
    ways = [
        each.generator(law(), (1, 1, 3)).seeded(condition, seeds)
        for each in (sampler, replace(sampler, guidance=SUMMED))
    ]
    torch.testing.assert_close(*ways, rtol=0, atol=1e-8)
    expected = torch.tensor([[PLACES[f][each] for f, each in enumerate(row)] for row in EVERY])
    # The tokens spread by .2 around the place of their concept.
    assert (ways[1].flatten(1) - expected).abs().max() < 5 * 0.2


@pytest.mark.parametrize("weight", [0.0, 1.0, 2.5])
def test_of_gaussians_the_means_are_summed(weight: float, rng: torch.Generator):
    """Factors that all act on all pixels, by one covariance: what is added is linear."""
    effect = torch.randn(3, 2, 3, generator=rng).double()

    def gaussian(of) -> GaussianLaw:
        distance = (torch.arange(3)[:, None] - torch.arange(3)).abs()
        return GaussianLaw(of, 0.25 * 0.6 ** distance.double())

    def mean(condition: Tensor) -> Tensor:
        each = torch.einsum("bfr,frp->bfp", condition[..., :2], effect)
        # The factors do not just add up: together they differ from their sum.
        return (each.sum(1) + each.prod(1))[:, None, None]

    def summed(condition: Tensor) -> Tensor:
        each = torch.einsum("bfr,frp->bfp", condition[..., :2], effect)
        return weight * each.sum(1)[:, None, None]

    condition = torch.cat([torch.randn(7, 3, 2, generator=rng), torch.ones(7, 3, 1)], 2).double()
    seeds, sampler = torch.arange(7), Sampler(steps=9)
    by = replace(sampler, guidance=SummedScores(torch.zeros_like, weight))
    samples = by.generator(gaussian(mean), (1, 1, 3)).seeded(condition, seeds)
    exact = sampler.generator(gaussian(summed), (1, 1, 3)).seeded(condition, seeds)
    torch.testing.assert_close(samples, exact, rtol=0, atol=1e-10)


def test_the_denoiser_gets_one_factor_at_a_time(rng: torch.Generator):
    calls: list[Tensor] = []

    def denoiser(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        calls.append(condition)
        return x

    condition = torch.randn(2, 3, 4, generator=rng)
    kept = condition.clone()
    null = SummedScores(lambda each: each * 0 - 1)
    null(denoiser)(torch.zeros(2, 1, 2, 2), torch.ones(2), condition)
    assert torch.equal(condition, kept)
    assert torch.equal(calls[0], torch.full_like(condition, -1))
    assert len(calls) == 4
    for factor, given in enumerate(calls[1:]):
        assert torch.equal(given[:, factor], condition[:, factor])
        rest = [other for other in range(3) if other != factor]
        assert (given[:, rest] == -1).all()


def test_wrong_use_is_refused():
    for weight in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"not negative; got {weight}"):
            SummedScores(torch.zeros_like, weight)
    question = torch.zeros(2, 1, 2, 2), torch.ones(2), torch.zeros(2, 4)
    with pytest.raises(ValueError, match=r"of the shape \(batch, factor, row\); got \(2, 4\)"):
        SUMMED(lambda *parts: parts[0])(*question)
