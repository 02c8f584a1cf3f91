"""Whether a score takes an image apart: hand-made scores whose every number is known, and laws."""

from functools import partial

import pytest
import torch
from torch import Tensor

from recombine.denoiser import score
from recombine.measure.factorization import (
    Blocks,
    composed,
    condition_leak,
    cosines,
    coupling,
    denoised_jacobian,
    factorization,
    local_gap,
    score_jacobian,
    score_of_features,
)
from recombine.models import laws

PAIRS = Blocks(torch.tensor([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0]]).bool())


def linear(pixels: Tensor, given: Tensor):
    """A score that hears other pixels and conditions by known amounts."""

    def score(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        return (x.flatten(1) @ pixels.mT + condition @ given.mT).reshape(x.shape)

    return score


def test_parts_are_the_conditioned_blocks_and_all_the_rest():
    given = torch.tensor([[1.0, 0], [0, 2], [1, 1], [0, 0]])
    assert PAIRS.part(given).tolist() == [
        [1, 1, 0, 0, 0],
        [0, 0, 2, 2, 0],
        [1, 1, 2, 2, 0],
        [0, 0, 0, 0, 0],
    ]
    near = PAIRS.near(given)
    assert near[0, 0].tolist() == [True, True, False, False, False]
    assert near[0, 2].tolist() == [False, False, True, True, True]
    assert near[2, 4].tolist() == [False, False, False, False, True]
    assert near[3].all()


def test_a_block_is_conditioned_by_any_number_that_is_not_0():
    given = torch.zeros(3, 2, 4)
    given[0, 1, 2] = -1
    given[2, 0, 0] = 0.5
    assert PAIRS.conditioned(given).tolist() == [[False, True], [False, False], [True, False]]


def test_blocks_that_cannot_be_are_named():
    with pytest.raises(ValueError, match=r"blocks share no pixel; these are in several: \[1\]"):
        Blocks(torch.tensor([[1, 1, 0], [0, 1, 1]]).bool())
    with pytest.raises(ValueError, match=r"every block has a pixel; these have none: \[1\]"):
        Blocks(torch.tensor([[1, 1, 0], [0, 0, 0]]).bool())


def test_own_influence_and_leak_are_measured_apart():
    """Block 0 moves its own pixels by 3 and others by 5; block 1 moves 2 and 7."""
    given = torch.tensor([[3.0, 0], [0, 7], [0, -2], [1, 0], [5, 0]])
    score = linear(torch.zeros(5, 5), given)
    x, sigma = torch.zeros(4, 5), torch.tensor([1.0, 1, 1, 2])
    condition = torch.tensor([[1.0, 0], [0, 1], [1, 1], [0.5, 0]])
    leak, own = condition_leak(score, PAIRS, x, sigma, condition)
    # In pixels: sigma^2 times the change of the score.
    assert leak.tolist() == [5, 7, 7, 10]
    assert own.tolist() == [3, 2, 3, 6]
    leak, own = condition_leak(score, PAIRS, x, sigma, condition, 3 * condition)
    assert leak.tolist() == [10, 14, 14, 20]
    assert own.tolist() == [6, 4, 6, 12]
    # A block without a condition stays without one.
    leak, own = condition_leak(score, PAIRS, x[:2], sigma[:2], condition[:2], 2 + condition[:2])
    assert leak.tolist() == [10, 14]
    assert own.tolist() == [6, 4]


def test_the_composed_score_conditions_each_block_on_itself_alone():
    given = torch.tensor([[3.0, 0], [0, 7], [0, -2], [1, 0], [5, 0]])
    score = linear(torch.zeros(5, 5), given)
    condition = torch.tensor([[1.0, 10], [1, 0], [0, 10], [0, 0]])
    x, sigma = torch.zeros(4, 5), torch.full((4,), 2.0)
    together = composed(score, PAIRS, x, sigma, condition)
    assert together.tolist() == [
        [3, 0, -20, 0, 0],
        [3, 0, 0, 0, 0],
        [0, 0, -20, 0, 0],
        [0, 0, 0, 0, 0],
    ]
    gap = local_gap(score, partial(composed, score, PAIRS), x, sigma, condition)
    # Given (1, 10) pixels 1, 3 and 4 depend on the other block; given (1, 0) 3 and 4 do on nothing.
    assert gap[0].tolist() == [0, 280, 0, 4, 20]
    assert gap[1].tolist() == [0, 0, 0, 4, 20]
    found = factorization(score, PAIRS, x.requires_grad_(), sigma, condition)
    assert found.gap.tolist() == [280, 20, 280, 0]


def test_coupling_is_the_share_of_the_jacobian_between_parts():
    jacobian = torch.zeros(2, 5, 5)
    jacobian[:, 0, 1] = 3.0
    jacobian[:, 0, 4] = 4.0
    near = PAIRS.near(torch.tensor([[1.0, 0], [0, 1]]))
    # Without a condition on block 0 its pixels and the last one are all background.
    assert coupling(jacobian, near).tolist() == pytest.approx([0.8, 0.0])
    assert coupling(torch.zeros(1, 5, 5), near[:1]).item() == 0


def test_the_jacobian_has_outputs_first_and_keeps_images_apart(rng):
    pixels = torch.randn(5, 5, generator=rng)
    score = linear(pixels, torch.zeros(5, 2))
    x, sigma = torch.randn(3, 5, 1, generator=rng), torch.tensor([0.5, 1.0, 3.0])
    with torch.no_grad():
        found = score_jacobian(score, x, sigma, torch.zeros(3, 2))
        denoised = denoised_jacobian(score, x, sigma, torch.zeros(3, 2))
    torch.testing.assert_close(found, pixels.expand(3, 5, 5))
    for row, level in zip(denoised, sigma, strict=True):
        torch.testing.assert_close(row, torch.eye(5) + level**2 * pixels)
    assert x.grad is None


def test_scores_without_a_gradient_are_refused():
    x, sigma, given = torch.zeros(2, 5), torch.ones(2), torch.zeros(2, 2)
    with pytest.raises(ValueError, match="the score has no gradient"):
        score_jacobian(lambda x, sigma, given: torch.ones(2, 5), x, sigma, given)
    with pytest.raises(ValueError, match=r"shape of x, \(2, 5\); got \(2, 4\)"):
        score_jacobian(lambda x, sigma, given: x[:, :4], x, sigma, given)
    with pytest.raises(ValueError, match="sigma is positive and finite; got nan"):
        factorization(lambda x, sigma, given: x, PAIRS, x, sigma * torch.nan, given)


def test_a_denoiser_is_measured_by_its_score():
    """A network on images: each half has its own condition, and one channel depends on all."""
    left = torch.zeros(1, 2, 2, 4).bool()
    left[..., :2] = True
    halves = Blocks(torch.stack([left.flatten(), ~left.flatten()]))

    def denoiser(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        given = torch.where(left, condition[:, :1, None, None], condition[:, 1:, None, None])
        leaked = torch.zeros_like(x)
        leaked[:, 1] = 0.125 * condition.sum(dim=1)[:, None, None]
        return 0.5 * x + given + leaked

    def by_score(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        return score(denoiser(x, sigma, condition), x, sigma)

    x = torch.randn(2, 2, 2, 4, generator=torch.Generator().manual_seed(0)).double()
    sigma, given = torch.tensor([0.5, 2.0]).double(), torch.tensor([[1.0, 3], [2, 0]]).double()
    found = factorization(by_score, halves, x, sigma, given)
    torch.testing.assert_close(found.gap, torch.tensor([0.375, 0.25]).double())
    torch.testing.assert_close(found.leak, torch.tensor([0.375, 0.25]).double())
    torch.testing.assert_close(found.own, torch.tensor([3.375, 2.25]).double())
    assert found.coupling.abs().max() < 1e-12


@pytest.mark.parametrize("turn", [laws.rotation(), laws.shear()], ids=["rotation", "shear"])
def test_the_score_of_features_is_that_of_their_own_law(turn: Tensor, rng):
    known = laws.feature_gaussian(turn)
    given = torch.tensor([[1.0, -1.0]]).double()
    z = torch.randn(1, 4, generator=rng, dtype=torch.float64)
    score = partial(score_of_features, known.score, turn)
    near = Blocks(known.blocks).near(given)
    shares = []
    for sigma in (0.3, 1.0, 3.0):
        level = torch.tensor([sigma]).double()
        noisy = turn @ (known.law.covariance + sigma**2 * torch.eye(4).double()) @ turn.mT
        mean = known.law.mean(given) @ turn.mT
        torch.testing.assert_close(score(z, level, given), -(z - mean) @ torch.linalg.inv(noisy))
        shares.append(coupling(score_jacobian(score, z, level, given), near).item())
    if torch.equal(turn, laws.rotation()):
        assert max(shares) < 1e-10
    else:
        assert 0.01 < shares[0] < shares[1] < shares[2]


def test_cosines_are_of_what_is_added_to_the_mean():
    given = torch.tensor([[4.0, 1], [1, 3], [3, 3]])
    found = cosines(given, torch.ones(2))
    half = 0.5**0.5
    expected = torch.tensor([[1, 0, half], [0, 1, half], [half, half, 1]])
    torch.testing.assert_close(found, expected)
