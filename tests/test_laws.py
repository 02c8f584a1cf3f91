"""The test laws are what their names say: naive twins, closed forms, numbers of the fact sheet."""

from itertools import product

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

from recombine.models import laws
from recombine.models.mixture import subsets
from recombine.models.projection import KnownLaw, alone, marginal, mean_image

EVERY = laws.known_laws()
LEVELS = (0.1, 1.0, 10.0)


def points(known: KnownLaw, sigma: float, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    condition = known.conditions
    x = torch.randn(len(condition), known.blocks.shape[1], generator=rng, dtype=torch.float64)
    return x, torch.full((len(condition),), sigma, dtype=torch.float64), condition


def autograd_score(log_density, x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(log_density(x).sum(), x)[0]


def noisy(covariance: Tensor, sigma: float) -> Tensor:
    return covariance + sigma**2 * torch.eye(len(covariance), dtype=torch.float64)


@pytest.mark.parametrize("known", EVERY, ids=lambda known: known.name)
def test_a_law_has_a_name_blocks_and_conditions_of_its_own(known: KnownLaw):
    assert known.blocks.sum(dim=0).max() == 1
    assert known.conditions.shape[1] == len(known.blocks)
    assert (known.conditions != 0).any(dim=1).all()
    assert len({each.name for each in EVERY}) == len(EVERY)
    assert known.law.sample(known.conditions, torch.Generator()).dtype == torch.float64


@pytest.mark.parametrize("sigma", LEVELS)
def test_t1_is_a_product_of_gaussians_set_by_their_own_condition(sigma: float, rng):
    known = laws.block_gaussian()
    x, level, condition = points(known, sigma, rng)
    sizes = [(1.0, 0.5), (0.5, -0.3), (2.0, 0.8), (1.0, 0.4)]
    for row in range(len(condition)):
        expected = torch.zeros(()).double()
        for block, (variance, correlation) in enumerate(sizes):
            c = condition[row, block].item() if block < 3 else 0.0
            pixel = torch.arange(2 * block, 2 * block + 2).double()
            mean = c * (1 + 0.25 * pixel) * (-1) ** pixel
            off = variance * correlation
            covariance = torch.tensor([[variance, off], [off, variance]]).double()
            scale = torch.tensor(c / 2).double().exp()
            part = MultivariateNormal(mean, noisy(covariance * scale, sigma))
            expected = expected + part.log_prob(x[row, 2 * block : 2 * block + 2])
        found = known.law.log_density(x[row : row + 1], level[:1], condition[row : row + 1])
        torch.testing.assert_close(found[0], expected)


@pytest.mark.parametrize("sigma", LEVELS)
def test_t2_is_a_product_of_mixtures_of_two(sigma: float, rng):
    known = laws.block_mixture()
    x, level, condition = points(known, sigma, rng)
    pixel = torch.arange(9).double()
    direction = (1 + 0.25 * pixel) * (-1) ** pixel
    eye = torch.eye(3).double()
    kinds = torch.stack([0.3 * (0.6 * eye + 0.4), 0.15 * (1.3 * eye - 0.3)])

    def log_density(x: Tensor) -> Tensor:
        total = torch.zeros(len(x)).double()
        for block in range(3):
            mine = slice(3 * block, 3 * block + 3)
            first = 0.55 + 0.25 * condition[:, block]
            mean = torch.stack([direction[mine], -direction[mine]]).expand(len(x), 2, 3)
            parts = MultivariateNormal(mean, kinds + sigma**2 * eye)
            weight = Categorical(torch.stack([first, 1 - first], dim=1))
            total = total + MixtureSameFamily(weight, parts).log_prob(x[:, mine])
        return total

    torch.testing.assert_close(known.law.log_density(x, level, condition), log_density(x))
    exact = autograd_score(log_density, x)
    torch.testing.assert_close(known.score(x, level, condition), exact)
    torch.testing.assert_close(known.projection(x, level, condition), exact)


def test_t3_has_the_covariance_it_says_and_the_divergence_that_is_printed():
    covariance = laws.coupled_gaussian(0.5).law.covariance
    expected = torch.eye(4).double()
    expected[0, 2] = expected[2, 0] = 0.5
    expected[1, 3] = expected[3, 1] = 0.25
    assert (covariance == expected).all()
    for rho, value in laws.COUPLED_DIVERGENCE.items():
        assert laws.coupled_divergence(rho) == pytest.approx(value, abs=1e-9)
        known = laws.coupled_gaussian(rho)
        assert not known.pixel_local
        assert not known.composes
    assert laws.coupled_gaussian(0.0).composes


def test_t4_moves_a_block_for_the_condition_of_another():
    known = laws.shifted_gaussian(0.7)
    condition = torch.tensor([[1.0, 0, 0], [1.0, 1, 0], [0.0, 0, 1]]).double()
    mean = known.law.mean(condition)
    own = laws.shifted_gaussian(0.0).law.mean(torch.eye(3).double())
    torch.testing.assert_close(mean[0], own[0] + 0.7 * (own[1] + own[2]))
    torch.testing.assert_close(mean[1], 1.7 * (own[0] + own[1]) + 1.4 * own[2])
    torch.testing.assert_close(mean[2], own[2] + 0.7 * (own[0] + own[1]))


@pytest.mark.parametrize("sigma", LEVELS)
def test_the_score_of_t4_changes_by_the_formula(sigma: float, rng):
    known = laws.shifted_gaussian(0.7)
    x, level, condition = points(known, sigma, rng)
    more = torch.tensor([0, 2.0, 0]).double()
    change = known.score(x, level, condition + more) - known.score(x, level, condition)
    delta = laws.shifted_gaussian(0.0).law.mean(torch.eye(3).double())
    for block, covariance in enumerate(known.law.covariance[::2, ::2].diagonal()):
        assert covariance in (1.0, 0.5, 2.0)
        mine = slice(2 * block, 2 * block + 2)
        inner = torch.linalg.inv(noisy(known.law.covariance[mine, mine], sigma))
        factor = 2.0 if block == 1 else 1.4
        expected = factor * inner @ delta[block, mine]
        torch.testing.assert_close(
            change[:, mine], expected.expand(len(x), 2), rtol=1e-10, atol=1e-12
        )
    formula = 2 * laws.shifted_change(sigma, 1)
    torch.testing.assert_close(change, formula.expand_as(change), rtol=1e-10, atol=1e-12)


def test_t4n_counts_the_others_and_does_not_read_them():
    mean = laws.counted_gaussian(0.5).law.mean
    condition = torch.tensor([[1.0, 0, 0], [1, 1, 0], [1, -1, 0], [1, 1, 1], [-1, 1, 1]]).double()
    block = mean(condition)[:, :2]
    # -1 of its own, and half a step for each of the two others.
    assert (block[4] == 0).all()
    torch.testing.assert_close(block[1], 1.5 * block[0])
    torch.testing.assert_close(block[2], 1.5 * block[0])
    torch.testing.assert_close(block[3], 2 * block[0])
    assert (mean(condition)[0, 2:] == 0).all()


def test_t5_without_a_condition_has_no_objects_or_any():
    unmarked = torch.zeros(1, 6).double()
    x, sigma = torch.ones(1, 6).double(), torch.ones(1).double()
    empty = laws.scene_all_marked().score(x, sigma, unmarked)
    torch.testing.assert_close(empty, torch.full((1, 6), -2 / (1 + 0.25**2)).double())
    silent = laws.scene_all_marked(uninformative=True).score(x, sigma, unmarked)
    assert (silent - empty).abs().min() > 0.1
    torch.testing.assert_close(silent, laws.scene_one_marked().score(x, sigma, unmarked))


def test_scores_of_a_batch_are_those_of_its_rows():
    known = laws.scene_all_marked()
    condition = torch.tensor([[1.0, 0, 0, 0, 0, 0], [0] * 6, [0, 1, 1, 0, 0, 0]]).double()
    x = torch.linspace(-1, 1, 18).double().reshape(3, 6)
    sigma = torch.tensor([0.3, 1.0, 2.0]).double()
    for call in (known.score, known.projection):
        rows = [call(x[i : i + 1], sigma[i : i + 1], condition[i : i + 1]) for i in range(3)]
        torch.testing.assert_close(call(x, sigma, condition), torch.cat(rows))


def test_the_projection_gives_each_block_its_own_condition_and_the_rest_none(rng):
    """A naive twin on the law that depends on the others."""
    known = laws.shifted_gaussian(0.7)
    condition = torch.tensor([[1.0, 0, -2]]).double()
    x = torch.randn(1, 6, generator=rng, dtype=torch.float64)
    sigma = torch.tensor([0.8]).double()
    own = laws.shifted_gaussian(0.0)
    expected = own.score(x, sigma, condition)
    torch.testing.assert_close(known.projection(x, sigma, condition), expected)
    # Its first block, conditioned on block 2 as well, is elsewhere.
    assert (known.score(x, sigma, condition) - expected).abs().min() > 1e-3


def test_t5_tables_are_those_of_the_scenes():
    condition = torch.eye(6).double()[2]
    table, unmarked = laws.scene_table(condition), laws.scene_table(0 * condition)
    assert table.sum().item() == pytest.approx(1, abs=1e-12)
    for scene in product((0, 1), repeat=6):
        count = sum(scene)
        ways = {1: 6, 2: 15, 3: 20}
        prior = 1 / 3 / ways[count] if count in ways else 0
        assert unmarked[scene].item() == pytest.approx(prior, abs=1e-12)
        # A scene of n objects has its third cell marked with the chance 1 / n; cells are alike.
        posterior = 6 * prior / count if scene[2] else 0
        assert table[scene].item() == pytest.approx(posterior, abs=1e-12)


@pytest.mark.parametrize("cells", [6, 16])
def test_one_marked_cell_empties_the_others(cells: int):
    condition = torch.eye(cells).double()[0]
    table, unmarked = laws.scene_table(condition), laws.scene_table(0 * condition)
    change = [(table - unmarked).select(cell, 1).sum().item() for cell in range(cells)]
    for other in change[1:]:
        assert other / change[0] == pytest.approx(laws.leak_limit(cells), abs=1e-9)


def test_labelled_scenes_mark_their_first_object(rng):
    x, first, present = laws.labelled_scenes(4000, 0.1, rng)
    assert (first.sum(dim=1) == 1).all()
    assert (first.argmax(dim=1) == present.argmax(dim=1)).all()
    kinds, counts = present.unique(dim=0, return_counts=True)
    assert len(kinds) == len(subsets(6))
    assert counts.min() > 50
    torch.testing.assert_close(x.mean(dim=0), (2 * present - 1).mean(dim=0), atol=0.02, rtol=0)
    spread = (x - 2 * present + 1).std().item()
    assert spread == pytest.approx((0.25**2 + 0.1**2) ** 0.5, rel=0.02)


def test_t6_composes_in_features():
    for turn in (laws.rotation(), laws.shear()):
        assert not torch.allclose(turn, turn.mT)
        law = laws.feature_gaussian(turn).law
        covariance = turn @ law.covariance @ turn.mT
        assert covariance[:2, 2:].abs().max() < 1e-12
        moved = law.mean(torch.eye(2).double()) @ turn.mT
        assert moved[0, 2:].abs().max() < 1e-12
        assert moved[1, :2].abs().max() < 1e-12
        assert moved[0, :2].abs().min() > 0.5
    torch.testing.assert_close(laws.rotation() @ laws.rotation().mT, torch.eye(4).double())
    assert (laws.rotation()[:2, 2:].abs() > 0.1).any()
    stripe = torch.tensor([1.0, -1, 1, -1]).double()
    back = torch.eye(4).double() + 5 * stripe[:, None] * torch.tensor([1.0, -1, 0.5, -0.5]).double()
    torch.testing.assert_close(laws.shear() @ back, torch.eye(4).double())


def test_t8_weighs_signs():
    table = laws.sign_table(0.5)
    assert table.sum().item() == pytest.approx(1, abs=1e-12)
    # Axis values are +1 and -1, in this order.
    assert table[0, 0, 0, 0, 0, 0].item() == pytest.approx(1.5 / 64)
    assert table[1, 0, 0, 0, 0, 0].item() == pytest.approx(0.5 / 64)
    assert table[0, 1, 1, 0, 1, 1].item() == pytest.approx(1.5 / 64)
    law, even = laws.sign_pair(0.5)
    whole = marginal(laws.signs(0.5).law, torch.tensor([1, 0, 0, 1, 0, 0]).bool())
    x = torch.linspace(-2, 2, 10).double().reshape(5, 2)
    at = x, torch.full((5,), 0.7).double(), torch.zeros(5, 1)
    torch.testing.assert_close(law.log_density(*at), whole.log_density(*at))
    apart = marginal(law, torch.tensor([True, False])), marginal(law, torch.tensor([False, True]))
    halves = [each.log_density(x[:, i : i + 1], *at[1:]) for i, each in enumerate(apart)]
    torch.testing.assert_close(even.log_density(*at), sum(halves))
    for eta in (1.0, -1.0, 2.0):
        with pytest.raises(ValueError, match="eta lies strictly between -1 and 1; got"):
            laws.signs(eta)


def test_a_marginal_is_the_integral_over_the_other_pixels(rng):
    law = laws.orthogonal_but_coupled(0.5).law
    pixels = torch.tensor([False, True, False, True])
    condition = torch.tensor([[1.0, -1.0]]).double()
    x = torch.randn(1, 4, generator=rng, dtype=torch.float64)
    line = torch.arange(-12, 12, 0.1, dtype=torch.float64)
    grid = torch.cartesian_prod(line, line)
    every = x.repeat(len(grid), 1)
    every[:, ~pixels] = grid
    sigma = torch.full((len(grid),), 0.5).double()
    density = law.log_density(every, sigma, condition.expand(len(grid), 2)).exp().sum() * 0.1**2
    found = marginal(law, pixels).log_density(x[:, pixels], sigma[:1], condition)
    assert found.exp().item() == pytest.approx(density.item(), rel=1e-9)


def test_a_marginal_keeps_a_covariance_that_depends_on_its_condition(rng):
    known = laws.block_gaussian()
    pixels = known.blocks[2]
    condition = torch.tensor([[0.0, 0, 1]]).double()
    part = marginal(known.law, pixels)
    x = torch.zeros(1, 2).double()
    found = part.jacobian(x, torch.ones(1).double(), condition)
    whole = known.law.jacobian(torch.zeros(1, 8).double(), torch.ones(1).double(), condition)
    torch.testing.assert_close(found, whole[:, pixels][:, :, pixels])


def test_the_mean_image_of_a_mixture_weighs_its_components():
    known = laws.block_mixture()
    condition = torch.tensor([1.0, 0, -1]).double()
    pixel = torch.arange(9).double()
    direction = (1 + 0.25 * pixel) * (-1) ** pixel
    weight = torch.tensor([0.6, 0.1, -0.4]).double().repeat_interleave(3)
    torch.testing.assert_close(mean_image(known.law, condition), weight * direction)
    gaussian = laws.shifted_gaussian().law
    assert mean_image(gaussian, condition).shape == (6,)


def test_alone_keeps_the_condition_of_one_block():
    condition = torch.tensor([[1.0, 2, 3]])
    assert alone(condition, 1).tolist() == [[0, 2, 0]]
    assert condition.tolist() == [[1, 2, 3]]
