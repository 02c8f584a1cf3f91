"""Distances between sets of features: laws with known values, twins, and what is refused."""

from math import exp, lgamma, sqrt

import jaxtyping
import numpy as np
import pytest
import torch
from scipy import linalg, stats
from torch import Tensor

from recombine.measure import distance
from recombine.measure.distance import distances, frechet, kernel_distance

A = torch.tensor([[2.0, 0.6], [0.6, 0.5]], dtype=torch.float64)
B = torch.tensor([[1.0, -0.3], [-0.3, 3.0]], dtype=torch.float64)


def normal(*shape: int, rng: torch.Generator) -> Tensor:
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def with_moments(n: int, mean: Tensor, covariance: Tensor, rng: torch.Generator) -> Tensor:
    """Return n rows that have exactly this mean and this unbiased covariance."""
    rows = normal(n, len(mean), rng=rng)
    white = torch.linalg.qr(rows - rows.mean(dim=0)).Q * sqrt(n - 1)
    return mean + white @ torch.linalg.cholesky(covariance).mT


def moments(mean: Tensor, covariance: Tensor) -> list[Tensor]:
    """Return the first three moments of a normal law."""
    outer = [
        torch.einsum(f"{pair},{one}->ijk", covariance, mean)
        for pair, one in (("ij", "k"), ("ik", "j"), ("jk", "i"))
    ]
    third = torch.einsum("i,j,k->ijk", mean, mean, mean) + sum(outer)
    return [mean, covariance + mean.outer(mean), third]


def known(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> float:
    """Return the distance of two normal laws: E (x.y / d + 1)^3 is a sum over their moments."""
    width, pairs = len(a[0]), zip(moments(*a), moments(*b), strict=True)
    terms = [
        (one - other).square().sum() / width ** (k + 1) for k, (one, other) in enumerate(pairs)
    ]
    return float(3 * terms[0] + 3 * terms[1] + terms[2])


def lifted(rows: Tensor) -> Tensor:
    """Return features whose inner products are the kernel, written out."""
    n, width = rows.shape
    pairs = torch.einsum("ni,nj->nij", rows, rows)
    triples = torch.einsum("nij,nk->nijk", pairs, rows)
    parts = [torch.ones(n, 1).to(rows), sqrt(3 / width) * rows]
    parts += [sqrt(3) / width * pairs.flatten(1), triples.flatten(1) / width**1.5]
    return torch.cat(parts, dim=1)


def test_a_shift_counts_by_its_squared_length(rng):
    rows = normal(30, 4, rng=rng)
    assert frechet(rows, rows + torch.tensor([1.0, -2.0, 0.0, 2.0])) == pytest.approx(9)


def test_a_stretch_by_s_counts_the_variance_times_s_less_one_squared(rng):
    rows = with_moments(25, torch.zeros(2).double(), A, rng)
    assert frechet(rows, 3 * rows) == pytest.approx(4 * 2.5)
    assert frechet(rows, -rows) == pytest.approx(0, abs=1e-12)


def test_the_distance_of_two_known_normal_laws(rng):
    """In two dimensions tr sqrt(AB) is sqrt(tr AB + 2 sqrt(det AB)); A and B do not commute."""
    m, n = torch.tensor([[1.0, 2.0], [0.0, 4.0]]).double()
    root = sqrt((A @ B).trace() + 2 * sqrt(torch.linalg.det(A @ B)))
    exact = 1 + 4 + 2.5 + 4 - 2 * root
    found = frechet(with_moments(12, m, A, rng), with_moments(40, n, B, rng))
    assert found == pytest.approx(exact, rel=1e-10)


def test_it_is_the_textbook_formula_with_a_matrix_root(rng):
    a, b = normal(50, 6, rng=rng), 1 + normal(70, 6, rng=rng) @ normal(6, 6, rng=rng)
    product = linalg.sqrtm(np.cov(a.numpy().T) @ np.cov(b.numpy().T)).real
    spread = np.trace(np.cov(a.numpy().T) + np.cov(b.numpy().T) - 2 * product)
    mean = (a.mean(dim=0) - b.mean(dim=0)).square().sum()
    assert frechet(a, b) == pytest.approx(float(mean + spread), rel=1e-8)


@pytest.mark.parametrize("n", [2, 5, 20, 200])
def test_a_set_is_at_no_distance_from_itself_however_few_its_images(n, rng):
    """Matrix roots lose half the digits where the covariance lacks directions: this does not."""
    rows = 100 * normal(n, 20, rng=rng)
    assert 0 <= frechet(rows, rows.flip(0)) < 1e-13 * rows.square().sum()


def test_few_images_make_it_too_large_by_the_known_excess(rng):
    """One feature, equal laws: E (m - n)^2 + E (s - t)^2, with E s = c4 sigma."""

    def c4(n: int) -> float:
        return sqrt(2 / (n - 1)) * exp(lgamma(n / 2) - lgamma((n - 1) / 2))

    found = [frechet(normal(4, 1, rng=rng), normal(7, 1, rng=rng)) for _ in range(1500)]
    exact = 1 / 4 + 1 / 7 + 2 * (1 - c4(4) * c4(7))
    assert abs(np.mean(found) - exact) < 3 * stats.sem(found)
    assert np.mean(found) > 20 * stats.sem(found)


def test_the_kernel_distance_equals_two_loops(rng):
    a, b = normal(5, 3, rng=rng), 1 + 2 * normal(7, 3, rng=rng)

    def mean(pairs) -> float:
        return np.mean([(float(x @ y) / 3 + 1) ** 3 for x, y in pairs])

    within = [
        mean((x, y) for i, x in enumerate(s) for j, y in enumerate(s) if i != j) for s in (a, b)
    ]
    exact = sum(within) - 2 * mean((x, y) for x in a for y in b)
    found = kernel_distance(a, b)
    assert found.value == pytest.approx(exact, rel=1e-12)
    assert found.n == 12


@pytest.mark.parametrize("place", [0, 100])
def test_the_interval_is_students_for_the_length_between_the_lifted_means(place, rng):
    a, b = place + normal(9, 3, rng=rng), place + 1 + 2 * normal(14, 3, rng=rng)
    one, other = lifted(a), lifted(b)
    assert torch.allclose(one @ other.mT, (a @ b.mT / 3 + 1) ** 3)
    apart = one.mean(dim=0) - other.mean(dim=0)
    length = float(apart.norm())
    shares = [(rows @ apart / length).var() / len(rows) for rows in (one, other)]
    reach = stats.t.ppf(0.975, 8) * sqrt(sum(shares))
    noise = float(one.var(dim=0).sum() / 9 + other.var(dim=0).sum() / 14)
    found = kernel_distance(a, b)
    assert found.value == pytest.approx(length**2 - noise)
    assert found.low == pytest.approx(max(length - reach, 0) ** 2 - noise)
    assert found.high == pytest.approx((length + reach) ** 2 - noise)


def test_a_far_set_has_an_interval_above_zero(rng):
    a, b = normal(9, 3, rng=rng), 5 + normal(14, 3, rng=rng)
    found = kernel_distance(a, b)
    assert 0 < found.low < found.value < found.high


def test_one_feature_shifted_by_one_is_at_twenty_two():
    """The moments 0, 1, 0 and 1, 2, 4 by hand: 3 + 3 + 16."""
    zero, one = torch.zeros(1), torch.ones(1)
    assert known((zero, one[None]), (one, one[None])) == pytest.approx(22)


IDENTITY, ZERO = torch.eye(3).double(), torch.zeros(3).double()
LAWS = {
    "apart": ((ZERO + 2, 0.1 * IDENTITY), (ZERO + 2.5, 0.2 * IDENTITY), 0.925, 0.975),
    "near": ((ZERO, IDENTITY), (ZERO + 0.4, IDENTITY), 0.925, 0.99),
    "equal": ((ZERO + 2, IDENTITY), (ZERO + 2, IDENTITY), 0.96, 1.0),
}


@pytest.mark.parametrize("name", LAWS)
def test_the_value_is_unbiased_and_the_interval_covers_it(name, rng):
    """The bounds are about three standard errors of the share around 95 %; equal laws get more."""
    a, b, fewest, most = LAWS[name]
    true, found = known(a, b), []
    for _ in range(800):
        drawn = [
            mean + normal(n, 3, rng=rng) @ torch.linalg.cholesky(covariance).mT
            for n, (mean, covariance) in ((60, a), (40, b))
        ]
        found.append(kernel_distance(*drawn))
    values = [each.value for each in found]
    assert abs(np.mean(values) - true) < 3 * stats.sem(values)
    covered = np.mean([each.low <= true <= each.high for each in found])
    assert fewest <= covered <= most
    assert (name == "equal") == (true == 0)
    assert name != "equal" or min(values) < 0


@pytest.mark.parametrize("place", [-7, 0, 100])
def test_where_the_means_coincide_the_reach_is_all_of_the_noise(place, rng):
    """Prouhet's sets have the same first three moments, so the kernel cannot tell them apart.

    What is left of their squared distance is rounding, up or down: it must not give a direction.
    """
    one = place + torch.tensor([[0], [3], [5], [6], [9], [10], [12], [15]]).double()
    other = place + torch.tensor([[1], [2], [4], [7], [8], [11], [13], [14]]).double()
    for factor in torch.rand(20, generator=rng, dtype=torch.float64):
        a, b = factor * one, factor * other
        noise = float((lifted(a).var(dim=0) + lifted(b).var(dim=0)).sum() / 8)
        reach = float(stats.t.ppf(0.975, 7)) ** 2 * noise
        found = kernel_distance(a, b)
        assert (found.value, found.low) == pytest.approx((-noise, -noise))
        assert found.high == pytest.approx(reach - noise, rel=1e-5)


def test_sets_of_one_and_the_same_image_are_at_no_distance(rng):
    for image in normal(20, 1, 3, rng=rng):
        found = kernel_distance(image.expand(7, 3), image.expand(4, 3))
        assert (found.value, found.low, found.high) == pytest.approx((0, 0, 0), abs=1e-11)


def test_sets_without_spread_have_no_noise():
    found = kernel_distance(torch.zeros(3, 2), torch.ones(4, 2))
    assert (found.value, found.low, found.high) == pytest.approx((7, 7, 7))


def test_large_sets_are_compared_in_blocks(rng, monkeypatch):
    a, b = normal(50, 4, rng=rng), 1 + normal(30, 4, rng=rng)
    whole = kernel_distance(a, b)
    monkeypatch.setattr(distance, "BLOCK", 7)
    assert kernel_distance(a, b).printed == pytest.approx(whole.printed)


def test_neither_the_order_of_images_nor_of_sets_matters(rng):
    a, b = normal(20, 4, rng=rng), 0.5 + normal(13, 4, rng=rng)
    first = distances(a, b)
    shuffled = a[torch.randperm(20, generator=rng)], b[torch.randperm(13, generator=rng)]
    for other in (distances(*shuffled), distances(b, a)):
        for name, found in first.items():
            assert other[name].printed == pytest.approx(found.printed)


def test_both_distances_are_given_by_name(rng):
    a, b = normal(20, 4, rng=rng), 0.5 + normal(13, 4, rng=rng)
    found = distances(a, b)
    assert set(found) == {"kernel_distance", "frechet_distance"}
    assert found["kernel_distance"] == kernel_distance(a, b)
    far = found["frechet_distance"].printed
    assert far == {"value": frechet(a, b), "low": None, "high": None, "n": 33}


def test_features_straight_from_a_network_are_compared_in_double_precision(rng):
    """Far from the origin single precision keeps no digit of the distance."""
    a, b = (1000 + normal(20, 4, rng=rng)).float(), (1001 + normal(20, 4, rng=rng)).float()
    exact = distances(a.double(), b.double())
    assert distances(a.requires_grad_(), b) == exact


def test_torchmetrics_agrees(rng):
    fid = pytest.importorskip("torchmetrics.image.fid")
    kid = pytest.importorskip("torchmetrics.image.kid")
    a, b = normal(60, 5, rng=rng), 0.5 + 2 * normal(60, 5, rng=rng)
    fitted = [part for rows in (a, b) for part in (rows.mean(dim=0), rows.mT.cov())]
    assert frechet(a, b) == pytest.approx(float(fid._compute_fid(*fitted)), rel=1e-8)
    assert kernel_distance(a, b).value == pytest.approx(float(kid.poly_mmd(a, b)), rel=1e-10)


@pytest.mark.parametrize("measured", [frechet, kernel_distance, distances])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("bad", "line"),
    [
        (torch.zeros(1, 3), r"2 rows or more of 1 number or more; got \(1, 3\)"),
        (torch.zeros(4, 0), r"2 rows or more of 1 number or more; got \(4, 0\)"),
        (torch.tensor([[0.0, 1.0, 2.0], [0.0, float("nan"), 2.0]]), "finite numbers; got nan"),
        (torch.tensor([[0.0, float("-inf"), 2.0], [0.0, 1.0, 2.0]]), "finite numbers; got -inf"),
        (torch.zeros(4, 2), "same features; got [23] and [23] per image"),
    ],
)
def test_what_cannot_be_compared_is_refused(measured, swapped, bad, line):
    pair = (torch.rand(4, 3), bad)
    with pytest.raises(ValueError, match=line):
        measured(*(reversed(pair) if swapped else pair))


def test_images_are_not_features(monkeypatch):
    """Outside the tests shapes in signatures are not checked: the function has to say it."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(ValueError, match=r"features are 2 rows or more .*; got \(4, 3, 8, 8\)"):
        kernel_distance(torch.rand(4, 3, 8, 8), torch.rand(4, 3, 8, 8))
