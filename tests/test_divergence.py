"""Divergences of known laws: closed forms, naive twins and one law that is not normal."""

from functools import partial
from itertools import product
from math import cos, exp, log, sin, sinh

import pytest
import torch
from torch.distributions import MultivariateNormal, kl_divergence

from recombine.measure.divergence import (
    FLOOR,
    DiscreteLaw,
    Normal,
    Pair,
    characteristic,
    divergence_split,
    local_loss,
    over_noise,
    plane,
    ratio_bound,
    violations,
)
from recombine.models import laws
from recombine.models.projection import marginal

EYE = torch.eye(3, dtype=torch.bool)


def random_normal(rng: torch.Generator, pixels: int = 3) -> Normal:
    root = torch.randn(pixels, pixels + 1, generator=rng, dtype=torch.float64)
    return Normal(root[:, -1], root @ root.mT + torch.eye(pixels))


def random_table(rng: torch.Generator) -> DiscreteLaw:
    chance = torch.rand(3, 3, 3, generator=rng, dtype=torch.float64) + 0.05
    return DiscreteLaw(chance / chance.sum())


def test_the_divergence_of_normal_laws_is_that_of_torch(rng):
    p, q = random_normal(rng), random_normal(rng)
    theirs = (MultivariateNormal(law.mean, law.covariance) for law in (p, q))
    assert p.divergence(q) == pytest.approx(kl_divergence(*theirs).item(), abs=1e-12)
    assert p.divergence(p) == pytest.approx(0, abs=1e-12)


def test_parts_go_where_their_pixels_are(rng):
    law = random_normal(rng, 4)
    ends, middle = torch.tensor([1, 0, 0, 1]).bool(), torch.tensor([0, 1, 1, 0]).bool()
    parts = [(middle, law.marginal(middle)), (ends, law.marginal(ends))]
    joined = law.product(parts)
    assert (joined.mean == law.mean).all()
    same = (ends[:, None] & ends) | (middle[:, None] & middle)
    torch.testing.assert_close(joined.covariance, law.covariance * same)
    table = random_table(rng)
    outer, inner = torch.tensor([True, False, True]), torch.tensor([False, True, False])
    both = table.product([(outer, table.marginal(outer)), (inner, table.marginal(inner))])
    for i, j, k in product(range(3), repeat=3):
        expected = table.probability[i, :, k].sum() * table.probability[:, j].sum()
        assert both.probability[i, j, k].item() == pytest.approx(expected.item(), abs=1e-15)


def test_the_split_of_a_table_is_that_of_counting(rng):
    """A naive twin: every choice of three pixels of three values."""
    law, first, second, rest = (random_table(rng) for _ in range(4))
    parts = [
        (mask, each.marginal(mask)) for mask, each in zip(EYE, (first, second, rest), strict=True)
    ]
    split = divergence_split(law, parts[:2], parts[2])
    p = law.probability
    singles = [p.sum(dim=(1, 2)), p.sum(dim=(0, 2)), p.sum(dim=(0, 1))]
    own = [
        first.probability.sum(dim=(1, 2)),
        second.probability.sum(dim=(0, 2)),
        rest.probability.sum(dim=(0, 1)),
    ]
    whole = dependence = 0.0
    for choice in product(range(3), repeat=3):
        chance = p[choice].item()
        for_own = [part[value].item() for part, value in zip(own, choice, strict=True)]
        for_mine = [part[value].item() for part, value in zip(singles, choice, strict=True)]
        whole += chance * (log(chance) - sum(map(log, for_own)))
        dependence += chance * (log(chance) - sum(map(log, for_mine)))
    leaks = [
        sum(a * log(a / b) for a, b in zip(mine.tolist(), theirs.tolist(), strict=True))
        for mine, theirs in zip(singles, own, strict=True)
    ]
    assert split.whole == pytest.approx(whole, abs=1e-12)
    assert split.dependence == pytest.approx(dependence, abs=1e-12)
    assert split.conditional_leak == pytest.approx(leaks[0] + leaks[1], abs=1e-12)
    assert split.background_leak == pytest.approx(leaks[2], abs=1e-12)
    assert min(split.dependence, split.conditional_leak, split.background_leak) > 1e-3
    assert split.residual < 1e-12


def test_what_never_happens_adds_nothing():
    p = DiscreteLaw(torch.tensor([0.5, 0.5, 0.0]).double())
    q = DiscreteLaw(torch.tensor([0.25, 0.5, 0.25]).double())
    assert p.divergence(q) == pytest.approx(0.5 * log(2))
    assert q.divergence(p) == float("inf")


def test_parts_cover_every_pixel_once(rng):
    law = random_normal(rng)
    parts = [(mask, law.marginal(mask)) for mask in EYE]
    with pytest.raises(ValueError, match=r"every pixel is in one part; they are in \[1, 1, 0\]"):
        divergence_split(law, parts[:2])
    with pytest.raises(ValueError, match=r"they are in \[2, 1, 1\]"):
        divergence_split(law, parts, parts[0])


@pytest.mark.parametrize(("rho", "printed"), laws.COUPLED_DIVERGENCE.items())
def test_t3_is_all_dependence_and_its_integral_over_noise(rho: float, printed: float):
    known = laws.coupled_gaussian(rho)
    law = Normal(torch.zeros(4).double(), known.law.covariance)
    parts = [(block, law.marginal(block)) for block in known.blocks]
    split = divergence_split(law, parts)
    assert split.whole == pytest.approx(printed, abs=1e-9)
    assert split.dependence == pytest.approx(split.whole, abs=1e-12)
    assert split.conditional_leak == pytest.approx(0, abs=1e-12)
    other = law.product(parts)
    integral = over_noise(lambda v: law.noisy(v).fisher(other.noisy(v)))
    assert integral == pytest.approx(split.whole, abs=1e-8)


def test_the_integral_of_random_laws_is_their_divergence(rng):
    p, q = random_normal(rng), random_normal(rng)
    integral = over_noise(lambda v: p.noisy(v).fisher(q.noisy(v)))
    assert integral == pytest.approx(p.divergence(q), abs=1e-8)


def test_the_integral_of_a_law_that_is_not_normal_is_its_divergence():
    eta = 0.5
    law, other = laws.sign_pair(eta)
    divergence = ((1 + eta) * log(1 + eta) + (1 - eta) * log(1 - eta)) / 2
    integral = over_noise(partial(Pair(law).fisher, other), span=(0.02, 1e4), step=0.5)
    assert integral == pytest.approx(divergence, abs=1e-7)


def test_sums_over_the_plane_are_expectations():
    law, _ = laws.sign_pair(0.5)
    for variance in (0.1, 1.0, 9.0):
        weight, (x, *_) = Pair(law).points(variance)
        assert weight.sum().item() == pytest.approx(1, abs=1e-12)
        assert (weight @ x.prod(dim=1)).item() == pytest.approx(0.5, abs=1e-10)
        assert (weight @ x[:, 0] ** 2).item() == pytest.approx(1 + variance, abs=1e-10)
    assert len(plane(0.01)[0]) < 90_000


@pytest.mark.parametrize(("sigma", "printed"), laws.MMSE_GAP.items())
def test_what_a_local_denoiser_loses_is_how_far_scores_are_apart(sigma: float, printed: float):
    known = laws.paired_gaussian()
    law = Normal(torch.zeros(4).double(), known.law.covariance)
    apart, lost = local_loss(law, 0, known.blocks[0], sigma)
    assert apart == pytest.approx(printed, abs=1e-9)
    assert lost == pytest.approx(apart, abs=1e-12)
    # The second pixel has no partner outside its block.
    assert local_loss(law, 1, known.blocks[0], sigma) == pytest.approx((0, 0), abs=1e-12)


def test_it_is_so_for_random_laws_and_for_signs(rng):
    law, near = random_normal(rng), torch.tensor([True, True, False])
    for pixel in (0, 1):
        apart, lost = local_loss(law, pixel, near, 0.8)
        assert apart == pytest.approx(lost, abs=1e-12)
        assert apart > 1e-4
    signs, _ = laws.sign_pair(0.7)
    apart, lost = Pair(signs).local_loss(marginal(signs, torch.tensor([True, False])), 0.8)
    assert apart == pytest.approx(lost, abs=1e-10)
    assert apart > 1e-3


def test_the_bound_is_sinh_for_a_symmetric_ratio():
    spread = torch.tensor([0.5, 2.0])
    bound = ratio_bound(spread, 2.0, exp(-0.3), exp(0.3))
    torch.testing.assert_close(bound, spread / 4 * sinh(0.3))
    eta = 0.6
    bound = ratio_bound(spread, 1.0, 1 - eta, 1 + eta)
    torch.testing.assert_close(bound, spread * eta / (1 - eta**2) ** 0.5)
    with pytest.raises(ValueError, match="0 < low <= 1 <= high; got 1.1 and 2"):
        ratio_bound(spread, 1.0, 1.1, 2.0)


def test_a_violation_is_more_than_rounding():
    bound = torch.tensor([0.0, 1.0, 1.0]).double()
    assert violations(bound + FLOOR / 2, bound) == 0
    assert violations(bound + torch.tensor([0, 0, 1e-9]), bound) == 1
    assert violations(bound - 0.5, bound) == 0


@pytest.mark.parametrize("sigma", [0.05, 0.3, 1.0, 5.0])
def test_t8_keeps_its_bound_and_comes_near_it(sigma: float, rng):
    eta = 0.5
    p, q = laws.signs(eta).law, laws.signs(0.0).law
    # Signs that the image does not show in the first block, certain in the second.
    x = torch.rand(2000, 6, generator=rng, dtype=torch.float64) * 4 - 2
    call = x, torch.full((2000,), sigma).double(), torch.zeros(2000, 2)
    spread = (sigma**2 * q.jacobian(*call).diagonal(dim1=1, dim2=2)).clamp(min=0).sqrt()
    gap = (p.score(*call) - q.score(*call)).abs()
    bound = ratio_bound(spread, sigma, 1 - eta, 1 + eta)
    assert violations(gap, bound) == 0
    # Without the root of low times high, or with the variance for its root, it would not hold.
    assert sigma != 1.0 or (gap / bound)[bound > 1e-6].max() > 0.8


def test_noise_only_damps_the_characteristic_function():
    law, _ = laws.sign_pair(0.5)
    weight, (x, *_) = Pair(law).points(0.25)
    for a, b in ((0.7, 1.9), (-2.0, 0.3)):
        found = characteristic(x, weight, torch.tensor([[a, b]], dtype=torch.float64))[0]
        clean = cos(a) * cos(b) - 0.5 * sin(a) * sin(b)
        assert found.real.item() == pytest.approx(exp(-0.125 * (a**2 + b**2)) * clean, abs=1e-12)
        assert found.imag.item() == pytest.approx(0, abs=1e-12)
    one = characteristic(torch.ones(1, 1), torch.ones(1), torch.tensor([[0.5]]))
    assert one[0].imag.item() == pytest.approx(sin(0.5))
