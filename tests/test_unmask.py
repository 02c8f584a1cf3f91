"""Unmasking by predictors that know their law: what comes out can be counted."""

from dataclasses import replace
from itertools import pairwise
from math import cos, pi

import pytest
import torch
from scipy.stats import chi2, kstest, norm
from torch import Tensor

from recombine.models.heads import DiffusionHead, GaussianMixture, LogitHead, MixtureHead
from recombine.models.masked import Masked, Predicted
from recombine.sample.guidance import Guidance
from recombine.sample.heun import HEUN, Sampler, seeded_noise
from recombine.sample.unmask import Unmask, gumbel, unmasking

ANY_ORDER = 1e9
"""So much noise that confidence has no say."""
SEEDS = torch.arange(12) * 1_000_003
CONDITION = torch.zeros(12, 1, 2)


class Product:
    """The law of independent codes, one row of chances per token; it counts its calls."""

    def __init__(self, chances: Tensor) -> None:
        self.chances, self.asked = chances, []

    def __call__(self, tokens: Tensor, hidden: Tensor, condition: Tensor) -> Predicted:
        self.asked.append(hidden)
        logits = self.chances.log() + 3.0
        return Predicted(logits.expand(len(tokens), *logits.shape), ())


def chances(side: int = 2, codes: int = 3) -> Tensor:
    rng = torch.Generator().manual_seed(3)
    return torch.rand(side, side, codes, generator=rng).softmax(-1).square().double()


def drawn(predictor, shape: tuple[int, ...], sampler: Unmask, count: int = 4000) -> Tensor:
    draw = sampler.generator(predictor, shape, batch=1000)
    return draw(torch.zeros(count, 1, 2), torch.Generator().manual_seed(0))


def check_law(outcome: Tensor, law: Tensor) -> None:
    """Compare counts with a law over whole numbers by the chi-square test, at 1 in 1000."""
    seen = outcome.bincount(minlength=len(law)).double()
    expected = law / law.sum() * len(outcome)
    assert len(seen) == len(law)
    statistic = ((seen - expected) ** 2 / expected).sum().item()
    assert statistic < chi2.ppf(0.999, len(law) - 1)


@pytest.mark.parametrize(
    "sampler", [Unmask(steps=1), Unmask(noise=ANY_ORDER), Unmask(steps=3, noise=ANY_ORDER)]
)
def test_in_any_order_samples_follow_a_product_law(sampler: Unmask):
    law = chances()
    samples = drawn(Product(law), (2, 2), sampler).flatten(1)
    for place, alone in enumerate(law.flatten(0, 1)):
        check_law(samples[:, place], alone)
    # All four at once: 81 outcomes.
    number = (samples * 3 ** torch.arange(4)).sum(1)
    first, second, third, fourth = law.flatten(0, 1)
    joint = torch.einsum("a,b,c,d->dcba", first, second, third, fourth).flatten()
    check_law(number, joint)


def test_temperature_is_a_power_of_the_law():
    law = chances()
    samples = drawn(Product(law), (2, 2), Unmask(steps=1, temperature=0.5)).flatten(1)
    for place, alone in enumerate(law.flatten(0, 1)):
        check_law(samples[:, place], alone**2)


class Pair:
    """The law of 2 x 2 codes that are all equal, told apart from all else by what is seen."""

    def __call__(self, tokens: Tensor, hidden: Tensor, condition: Tensor) -> Predicted:
        seen = torch.where(hidden, -1, tokens).flatten(1).amax(1)
        known = torch.nn.functional.one_hot(seen.clamp(min=0), 3).double()
        law = torch.where(seen[:, None] < 0, torch.tensor([0.5, 0.3, 0.2]).double(), known)
        return Predicted(law.log()[:, None, None].expand(-1, *hidden.shape[1:], -1), ())


def test_the_next_step_depends_on_what_is_revealed():
    # Four tokens in eight steps: 3, 3, 3, 2, 2, 1, 0, 0 are left, never two revealed at once.
    sampler = Unmask(steps=8, noise=ANY_ORDER)
    assert [sampler.left(step, 4) for step in range(9)] == [4, 3, 3, 3, 2, 2, 1, 0, 0]
    samples = drawn(Pair(), (2, 2), sampler).flatten(1)
    assert (samples == samples[:, :1]).all()
    check_law(samples[:, 0], torch.tensor([0.5, 0.3, 0.2]).double())


@pytest.mark.parametrize("noise", [0.4, 1.0, 3.0])
def test_confidence_favours_likely_codes_by_as_much_as_noise_allows(noise: float):
    likely = 0.7
    law = torch.tensor([likely, 1 - likely]).double().expand(2, 2, 2)
    # Four tokens in two steps: two are kept, by half of the noise, and two are drawn anew.
    exact = kept(likely, noise / 2) / 4 + likely / 2
    samples = drawn(Product(law), (2, 2), Unmask(steps=2, noise=noise), count=20_000)
    share = (samples == 0).double().mean(dim=(1, 2))
    error = 4 * (share.std() / len(share) ** 0.5).item()
    assert share.mean().item() == pytest.approx(exact, abs=error)
    assert exact > likely + 3 * error


def kept(likely: float, noise: float) -> float:
    """How many of the two of four codes that are kept are the likely one, on average.

    Gumbel noise of a scale picks without replacement, by weights p^(1 / scale).
    """
    weights = likely ** (1 / noise), (1 - likely) ** (1 / noise)
    total = 0.0
    for number in range(16):
        codes = [number >> place & 1 for place in range(4)]
        chance = likely ** codes.count(0) * (1 - likely) ** codes.count(1)
        each = [weights[code] for code in codes]
        for first in range(4):
            for second in set(range(4)) - {first}:
                order = each[first] / sum(each) * each[second] / (sum(each) - each[first])
                total += chance * order * [codes[first], codes[second]].count(0)
    return total


def test_without_noise_the_surest_are_kept():
    law = torch.tensor([[[0.9, 0.1], [0.6, 0.4]], [[0.99, 0.01], [0.7, 0.3]]]).double()
    sampler = Unmask(steps=2, noise=0.0)
    condition, seeds = torch.zeros(500, 1, 2), torch.arange(500)
    first, _ = unmasking(Product(law), (2, 2), condition, sampler, seeds=seeds)
    whole = next(unmasking(Product(law), (2, 2), condition, Unmask(steps=1), seeds=seeds)).tokens
    sure = law.expand(500, 2, 2, 2).gather(-1, whole[..., None])[..., 0]
    kept = sure.masked_fill(first.hidden, 2).flatten(1).amin(1)
    left = sure.masked_fill(~first.hidden, -1).flatten(1).amax(1)
    assert (kept >= left).all()
    assert torch.equal(first.tokens[~first.hidden], whole[~first.hidden])


MODELS = [
    Masked(7, 1, 1, LogitHead(16), width=16, layers=1, heads=2),
    Masked(7, 1, 1, MixtureHead(2, 3), width=16, layers=1, heads=2),
    Masked(7, 1, 1, DiffusionHead(2, 1, 16), width=16, layers=1, heads=2),
]
QUICK = Unmask(descent=Sampler(steps=3))
each_model = pytest.mark.parametrize("declared", MODELS, ids=lambda of: type(of.head).__name__)


@each_model
@pytest.mark.parametrize("steps", [1, 5, 12, 60])
def test_as_many_are_hidden_as_the_schedule_says(declared: Masked, steps: int):
    sampler, model = replace(QUICK, steps=steps), declared.build().eval()
    seen = list(unmasking(model, declared.shape, CONDITION, sampler, seeds=SEEDS))
    assert [each.step for each in seen] == list(range(1, steps + 1))
    for each in seen:
        left = int(49 * cos(pi / 2 * each.step / steps))
        assert (each.hidden.flatten(1).sum(1) == left).all()
    assert not seen[-1].hidden.any()


@each_model
def test_what_is_revealed_stays(declared: Masked):
    model = declared.build().eval()
    seen = list(unmasking(model, declared.shape, CONDITION, QUICK, seeds=SEEDS))
    for before, after in pairwise(seen):
        shown = ~before.hidden
        assert not (shown & after.hidden).any()
        if before.tokens.dim() == 4:
            shown = shown[:, None].expand_as(before.tokens)
        assert torch.equal(before.tokens[shown], after.tokens[shown])


@each_model
def test_the_predictor_sees_what_was_revealed(declared: Masked):
    model, asked = declared.build().eval(), []
    model.register_forward_pre_hook(lambda _module, question: asked.append(question))
    seen = list(unmasking(model, declared.shape, CONDITION, QUICK, seeds=SEEDS))
    assert asked[0][1].all()
    for after, (tokens, hidden, condition) in zip(seen, asked[1:], strict=False):
        assert torch.equal(tokens, after.tokens)
        assert torch.equal(hidden, after.hidden)
        assert condition is CONDITION


class Pointwise:
    """Answers that are the same bits in any batch: each place by itself, from what is told."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        rng = torch.Generator().manual_seed(1)
        self.table = torch.randn(3, 3, 8, generator=rng)

    def __call__(self, tokens: Tensor, hidden: Tensor, condition: Tensor) -> Predicted:
        seen = hidden.flatten(1).sum(1)[:, None, None, None]
        answer = self.table * condition[:, 0, 0, None, None, None] + seen / 9
        if self.kind == "mixture":
            parts = answer[..., :2], answer[..., 2:6], answer[..., 4:]
            weights, means, scales = parts
            return Predicted(
                GaussianMixture(weights, means.unflatten(-1, (2, 2)), scales.unflatten(-1, (2, 2))),
                (),
            )
        return Predicted(answer, ())

    def head(self, x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        return condition[:, :2] + (x - condition[:, :2]) / (1 + sigma[:, None] ** 2)


@pytest.mark.parametrize(
    ("kind", "shape"), [("codes", (3, 3)), ("mixture", (2, 3, 3)), ("head", (2, 3, 3))]
)
def test_a_sample_does_not_depend_on_its_batch(kind: str, shape: tuple[int, ...]):
    condition = torch.rand(12, 1, 2, generator=torch.Generator().manual_seed(4))
    sampler = replace(QUICK, steps=4)
    draw = sampler.generator(Pointwise(kind), shape)
    whole = draw.seeded(condition, SEEDS)
    assert whole.shape == (12, *shape)
    assert torch.equal(whole, replace(draw, batch=5).seeded(condition, SEEDS))
    assert torch.equal(whole, draw.seeded(condition.flip(0), SEEDS.flip(0)).flip(0))
    assert torch.equal(whole[3:4], draw.seeded(condition[3:4], SEEDS[3:4]))
    assert len(draw.seeded(condition, SEEDS + 1).flatten(1).unique(dim=0)) > 6
    assert not torch.equal(whole, draw.seeded(condition, SEEDS + 1))


class Clouds:
    """Each latent is 1 or -1 (chances 0.7 and 0.3), plus noise of 0.1 and 0.4."""

    def __call__(self, tokens: Tensor, hidden: Tensor, condition: Tensor) -> Predicted:
        weights = torch.tensor([0.7, 0.3]).log().expand(*hidden.shape, 2)
        means = torch.tensor([1.0, -1.0])[:, None].expand(*hidden.shape, 2, 3)
        scales = torch.tensor([0.1, 0.4]).log()[:, None].expand(*hidden.shape, 2, 3)
        return Predicted(GaussianMixture(weights, means, scales), ())


@pytest.mark.parametrize("steps", [1, 6])
def test_latents_follow_their_mixture(steps: int):
    samples = drawn(Clouds(), (3, 2, 2), Unmask(steps=steps), count=2000)
    # All numbers of a token come from one component.
    assert (samples.sign() == samples[:, :1].sign()).float().mean() > 0.98

    def distribution(x):
        return 0.7 * norm.cdf((x - 1) / 0.1) + 0.3 * norm.cdf((x + 1) / 0.4)

    for place in ((0, 0, 0), (1, 0, 1), (2, 1, 1)):
        assert kstest(samples[:, *place].numpy(), distribution).pvalue > 0.001
    apart = torch.corrcoef(samples[:, 0].flatten(1).T) - torch.eye(4)
    assert apart.abs().max() < 0.08


class Spots:
    """A head whose tokens are normal around what they are told, 0.5 wide: the exact denoiser."""

    def __call__(self, tokens: Tensor, hidden: Tensor, condition: Tensor) -> Predicted:
        vector = torch.arange(8.0).div(8).reshape(2, 2, 2).expand(len(tokens), 2, 2, 2)
        return Predicted(vector, ())

    def head(self, x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        return condition + (x - condition) * 0.25 / (0.25 + sigma[:, None] ** 2)


def test_latents_of_a_head_follow_its_law():
    samples = drawn(Spots(), (2, 2, 2), Unmask(steps=3, descent=Sampler(steps=64)), count=2000)
    for row in range(2):
        for column in range(2):
            for latent in range(2):
                middle = (4 * row + 2 * column + latent) / 8
                unit = (samples[:, latent, row, column] - middle) / 0.5
                assert kstest(unit.numpy(), norm.cdf).pvalue > 0.001


@pytest.mark.parametrize("kind", ["mixture", "head"])
def test_latents_are_revealed_in_random_order(kind: str):
    sampler = replace(QUICK, steps=4)
    condition, seeds = torch.ones(3000, 1, 2), torch.arange(3000)
    steps = unmasking(Pointwise(kind), (2, 3, 3), condition, sampler, seeds=seeds)
    for revealed in steps:
        share = revealed.hidden.double().mean(0)
        expected = sampler.left(revealed.step, 9) / 9
        assert (share - expected).abs().max() < 0.04


def test_gumbel_noise_is_gumbels():
    noise = seeded_noise(torch.arange(50), (100,), dtype=torch.float64)
    assert kstest(gumbel(noise).flatten().numpy(), "gumbel_r").pvalue > 0.001


def test_noise_of_different_steps_is_not_the_same():
    law = torch.full((2, 2, 50), 0.02).double()
    first, second = unmasking(
        Product(law), (2, 2), torch.zeros(400, 1, 2), Unmask(steps=2), seeds=torch.arange(400)
    )
    whole = next(
        unmasking(
            Product(law), (2, 2), torch.zeros(400, 1, 2), Unmask(steps=1), seeds=torch.arange(400)
        )
    ).tokens
    later = first.hidden
    assert (second.tokens[later] == whole[later]).double().mean() < 0.1


def test_gradients_stay_on_for_the_reader():
    for _ in unmasking(Product(chances()), (2, 2), CONDITION, seeds=SEEDS):
        assert torch.is_grad_enabled()


@each_model
def test_samples_have_no_history(declared: Masked):
    model, asked = declared.build(), []
    model.register_forward_hook(lambda _module, _question, answer: asked.append(answer.states[0]))
    sample = QUICK.generator(model, declared.shape).seeded(CONDITION, SEEDS)
    assert not sample.requires_grad
    assert not any(state.requires_grad for state in asked)


def test_no_condition_draws_no_sample():
    draw = Unmask().generator(Product(chances()), (2, 2))
    assert draw(CONDITION[:0], torch.Generator()).shape == (0, 2, 2)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"steps": 0}, "at least 1 step; got 0"),
        ({"noise": -0.1}, "noise is finite and not negative; got -0.1"),
        ({"temperature": -0.1}, "temperature is finite and not negative; got -0.1"),
        ({"temperature": float("nan")}, "temperature is finite and not negative; got nan"),
        ({"temperature": 0.5, "expected": True}, "that of a temperature of 1; got 0.5"),
        ({"descent": replace(HEUN, guidance=Guidance(torch.zeros_like, 2.0))}, "without guidance"),
    ],
)
def test_a_bad_sampler_is_refused(wrong, said: str):
    with pytest.raises(ValueError, match=said):
        Unmask(**wrong)


@pytest.mark.usefixtures("unhooked")
def test_bad_questions_are_refused():
    law = Product(chances())
    with pytest.raises(ValueError, match=r"\(side, side\) ids or .*got \(2, 3\)"):
        Unmask().generator(law, (2, 3))
    with pytest.raises(ValueError, match="the model has neither"):
        Unmask().generator(law, (3, 2, 2)).seeded(CONDITION, SEEDS)
    with pytest.raises(ValueError, match="expected vectors of codes need their book"):
        Unmask(expected=True).generator(law, (2, 2)).seeded(CONDITION, SEEDS)
