"""Greedy, tempered and expected decoding of tokens whose laws are known: what comes out is, too."""

from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
import torch
from scipy.stats import chi2, kstest, norm
from torch import Tensor

from recombine.models.heads import GaussianMixture
from recombine.models.masked import Predicted
from recombine.sample.heun import Sampler
from recombine.sample.unmask import Unmask, unmasking
from recombine.spelling import spelled

ANY_ORDER = 1e9
"""So much noise that confidence has no say."""
SIDE = 7
STEPS = [
    *(Unmask(steps=steps, noise=1.0) for steps in (1, 12, 18)),
    Unmask(steps=12, noise=0.0),
    Unmask(steps=18, noise=ANY_ORDER),
    Unmask(steps=49, even=True),
]
each_schedule = pytest.mark.parametrize("sampler", STEPS, ids=spelled)


class Independent:
    """Codes that do not depend on each other: the same logits at every call."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    def __call__(self, tokens: Tensor, hidden: Tensor, condition: Tensor) -> Predicted:
        return Predicted(self.logits.expand(len(tokens), *self.logits.shape), ())


@dataclass(frozen=True)
class Line:
    """Codes on a line; the third is between the others and at no place likely."""

    def vectors(self) -> Tensor:
        return torch.tensor([[-2.0], [2.0], [0.1]])


def drawn(predictor, shape: tuple[int, ...], sampler: Unmask, count: int = 40) -> Tensor:
    draw = sampler.generator(predictor, shape, batch=1000)
    return draw(torch.zeros(count, 1, 2), torch.Generator().manual_seed(0))


def logits(codes: int = 3) -> Tensor:
    rng = torch.Generator().manual_seed(3)
    return torch.randn(SIDE, SIDE, codes, generator=rng).double()


def fits(outcome: Tensor, law: Tensor) -> bool:
    """The chi-square test at 1 in 1000."""
    seen, expected = outcome.bincount(minlength=len(law)).double(), law * len(outcome)
    return ((seen - expected) ** 2 / expected).sum().item() < chi2.ppf(0.999, len(law) - 1)


@each_schedule
def test_at_temperature_zero_every_code_is_the_likeliest(sampler: Unmask):
    law = logits(5)
    samples = drawn(Independent(law), (SIDE, SIDE), replace(sampler, temperature=0.0))
    assert torch.equal(samples, law.argmax(-1).expand_as(samples))


@each_schedule
@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_codes_follow_a_power_of_their_law(sampler: Unmask, temperature: float):
    """In random order, or all in one step; all places have the same law."""
    sampler = replace(sampler, noise=ANY_ORDER, temperature=temperature)
    one = torch.tensor([0.6, 0.3, 0.1]).double()
    law = one.log().expand(SIDE, SIDE, 3) + 2.0
    power = one ** (1 / temperature)
    samples = drawn(Independent(law), (SIDE, SIDE), sampler, count=200)
    assert fits(samples.flatten(), power / power.sum())


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_temperature_zero_is_the_limit_of_small_ones(noise: float):
    """In codes and in the order in which they are revealed, step by step."""
    condition, seeds = torch.zeros(30, 1, 2), torch.arange(30)
    ways = [
        list(
            unmasking(
                Independent(logits()),
                (SIDE, SIDE),
                condition,
                Unmask(noise=noise, temperature=temperature),
                seeds=seeds,
            )
        )
        for temperature in (0.0, 1e-6, 1.0)
    ]
    for none, little, usual in zip(*ways, strict=True):
        shown = ~none.hidden
        assert torch.equal(none.hidden, little.hidden)
        assert torch.equal(none.tokens[shown], little.tokens[shown])
        if usual.step == 6:
            assert not torch.equal(none.hidden, usual.hidden)


def test_greedy_codes_are_revealed_from_the_surest():
    """Each is as sure as the model's own law has it: at temperature 0 all are certain otherwise."""
    law = logits()
    best = law.log_softmax(-1).amax(-1).flatten()
    sampler = Unmask(steps=49, even=True, noise=0.0, temperature=0.0)
    steps = unmasking(
        Independent(law), (SIDE, SIDE), torch.zeros(1, 1, 2), sampler, seeds=torch.arange(1)
    )
    for revealed in steps:
        exact = best.topk(revealed.step).indices
        assert set((~revealed.hidden).flatten().nonzero()[:, 0].tolist()) == set(exact.tolist())


def test_as_many_even_steps_as_tokens_reveal_one_each():
    assert [Unmask(steps=49, even=True).left(step, 49) for step in range(50)] == [
        *range(49, -1, -1)
    ]
    assert [Unmask(steps=3, even=True).left(step, 10) for step in range(4)] == [10, 6, 3, 0]
    for steps in (12, 18, 60):
        left = [Unmask(steps=steps, even=True).left(step, 49) for step in range(steps + 1)]
        shown = [before - after for before, after in pairwise(left)]
        assert max(shown) - min(shown) <= 1
        assert (left[0], left[-1]) == (49, 0)


@each_schedule
def test_an_expected_vector_is_the_code_nearest_to_the_mean(sampler: Unmask):
    """Of two likely codes that lie apart, the mean is near the one that is never drawn."""
    law = torch.tensor([0.49, 0.50, 0.01]).double().log().repeat(SIDE, SIDE, 1)
    law[0, 0] = torch.tensor([0.9, 0.1, 0.0]).double().log()
    sampler = replace(sampler, expected=True, book=Line())
    samples = drawn(Independent(law), (SIDE, SIDE), sampler)
    expected = torch.full((SIDE, SIDE), 2)
    expected[0, 0] = 0
    assert torch.equal(samples, expected.expand_as(samples))


def test_a_book_of_another_size_is_refused():
    sampler = Unmask(expected=True, book=Line())
    with pytest.raises(ValueError, match="a book of 3 codes does not fit 5 logits"):
        drawn(Independent(logits(5)), (SIDE, SIDE), sampler)


class Clouds:
    """Each latent is 1 or -1 (chances 0.7 and 0.3), plus noise of 0.1 and 0.4."""

    def __call__(self, tokens: Tensor, hidden: Tensor, condition: Tensor) -> Predicted:
        weights = torch.tensor([0.7, 0.3]).log().expand(*hidden.shape, 2)
        means = torch.tensor([1.0, -1.0])[:, None].expand(*hidden.shape, 2, 3)
        scales = torch.tensor([0.1, 0.4]).log()[:, None].expand(*hidden.shape, 2, 3)
        return Predicted(GaussianMixture(weights, means, scales), ())


class Spots:
    """A head whose tokens are normal around a mean each, 0.5 wide: the exact denoiser."""

    means = torch.arange(8.0).div(8).reshape(2, 2, 2)

    def __call__(self, tokens: Tensor, hidden: Tensor, condition: Tensor) -> Predicted:
        return Predicted(self.means.expand(len(tokens), 2, 2, 2), ())

    def head(self, x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        return condition + (x - condition) * 0.25 / (0.25 + sigma[:, None] ** 2)


@pytest.mark.parametrize("temperature", [0.25, 0.5, 2.0])
def test_of_a_mixture_component_and_gaussian_are_tempered_each(temperature: float):
    samples = drawn(Clouds(), (3, 2, 2), Unmask(steps=2, temperature=temperature), count=2000)
    likely, rest = 0.7 ** (1 / temperature), 0.3 ** (1 / temperature)
    share = likely / (likely + rest)
    narrow = temperature**0.5

    def distribution(x):
        first = norm.cdf((x - 1) / (0.1 * narrow))
        return share * first + (1 - share) * norm.cdf((x + 1) / (0.4 * narrow))

    for place in ((0, 0, 0), (1, 0, 1), (2, 1, 1)):
        assert kstest(samples[:, *place].numpy(), distribution).pvalue > 0.001


def test_of_a_mixture_zero_is_the_likeliest_mean_and_the_expected_vector_the_mean_of_all():
    greedy = drawn(Clouds(), (3, 2, 2), Unmask(steps=3, temperature=0.0))
    assert torch.equal(greedy, torch.ones(40, 3, 2, 2))
    expected = drawn(Clouds(), (3, 2, 2), Unmask(steps=3, expected=True))
    torch.testing.assert_close(expected, torch.full((40, 3, 2, 2), 0.7 - 0.3))


@pytest.mark.parametrize("temperature", [0.25, 1.0])
def test_a_tempered_head_draws_the_power_of_a_normal_law(temperature: float):
    sampler = Unmask(steps=3, temperature=temperature, descent=Sampler(steps=64))
    samples = drawn(Spots(), (2, 2, 2), sampler, count=2000)
    unit = (samples - Spots.means.permute(2, 0, 1)) / (0.5 * temperature**0.5)
    for place in ((0, 0, 0), (1, 0, 1), (0, 1, 1)):
        assert kstest(unit[:, *place].numpy(), norm.cdf).pvalue > 0.001


@pytest.mark.parametrize("choice", [{"temperature": 0.0}, {"expected": True}])
def test_of_a_normal_head_both_the_likeliest_and_the_expected_are_the_mean(choice):
    sampler = Unmask(steps=3, descent=Sampler(steps=64), **choice)
    samples = drawn(Spots(), (2, 2, 2), sampler)
    means = Spots.means.permute(2, 0, 1).expand_as(samples)
    # Of the noise of 80, a share of .25 / 6400 is left in the expected vector.
    torch.testing.assert_close(samples, means, rtol=0, atol=0.02)
