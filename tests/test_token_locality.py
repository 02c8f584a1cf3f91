"""Hand-made predictors of which it is known what they depend on."""

from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from recombine.measure.token_locality import (
    even_influence,
    factor_interaction,
    over_images,
    token_influence,
    token_locality,
)
from recombine.models.heads import DiffusionHead, GaussianMixture, LogitHead, MixtureHead
from recombine.models.masked import Masked

SIDE = 4
CELLS = SIDE**2


class Predicted(NamedTuple):
    output: object


def cells() -> list[tuple[int, int]]:
    return [(row, column) for row in range(SIDE) for column in range(SIDE)]


def away(a: tuple[int, int], b: tuple[int, int]) -> int:
    return max(abs(a[0] - b[0]), abs(a[1] - b[1]))


def half(rng: torch.Generator, batch: int = 3) -> Tensor:
    order = torch.rand(batch, CELLS, generator=rng).argsort(dim=1)
    return (order < CELLS // 2).view(batch, SIDE, SIDE)


def visible(tokens: Tensor, hidden: Tensor) -> Tensor:
    """What a predictor may look at: latents (batch, latent, side, side), hidden ones 0."""
    return torch.where(hidden[:, None], 0, tokens)


def smoothed(kernel: Tensor):
    """A predictor whose vector at a token is a weighed sum of the visible ones around it."""

    def predictor(tokens: Tensor, hidden: Tensor, condition: Tensor) -> Predicted:
        weights = kernel.to(tokens)[None, None].expand(tokens.shape[1], 1, *kernel.shape)
        seen = visible(tokens, hidden)
        out = F.conv2d(seen, weights, padding=kernel.shape[0] // 2, groups=tokens.shape[1])
        return Predicted(out.movedim(1, -1))

    return predictor


def everywhere(tokens: Tensor, hidden: Tensor, condition: Tensor) -> Predicted:
    """The mean over all tokens, at each of them."""
    mean = visible(tokens, hidden).mean(dim=(2, 3))
    return Predicted(mean[:, None, None].expand(-1, SIDE, SIDE, -1))


def latents(rng: torch.Generator, batch: int = 3, latent: int = 2) -> tuple[Tensor, Tensor]:
    both = torch.randn(2, batch, latent, SIDE, SIDE, generator=rng, dtype=torch.float64)
    return both[0], both[1]


def unconditional(batch: int = 3) -> Tensor:
    return torch.zeros(batch, 1, 1, dtype=torch.float64)


def test_the_influence_on_a_weighed_sum_is_the_weight_times_the_change(rng):
    kernel = torch.arange(1.0, 10).view(3, 3).double()
    (tokens, other), hidden = latents(rng), half(rng)
    found = token_influence(smoothed(kernel), tokens, hidden, unconditional(), other)
    expected = torch.zeros(3, CELLS, CELLS, dtype=torch.float64)
    for image in range(3):
        for changed, a in enumerate(cells()):
            for answered, b in enumerate(cells()):
                if hidden[image][a] or not hidden[image][b] or away(a, b) > 1:
                    continue
                weight = kernel[a[0] - b[0] + 1, a[1] - b[1] + 1]
                step = (other - tokens)[image, :, a[0], a[1]].norm()
                expected[image, changed, answered] = weight * step
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("reach", [1, 2])
def test_a_model_that_depends_on_neighbours_is_local_from_its_own_reach_on(rng, reach):
    kernel = torch.ones(2 * reach + 1, 2 * reach + 1)
    (tokens, other), hidden = latents(rng), half(rng)
    influence = token_influence(smoothed(kernel), tokens, hidden, unconditional(), other)
    found = token_locality(influence, reach)
    assert (found.value, found.low, found.high, found.n) == (1, 1, 1, 3)
    if reach == 2:
        assert token_locality(influence).value < 0.9


@pytest.mark.parametrize("radius", [1, 2, 3])
@pytest.mark.parametrize("at", [(0, 0), (3, 1), (2, 2)], ids=str)
def test_of_a_mean_over_all_tokens_the_share_of_near_cells_is_counted(rng, at, radius):
    tokens = torch.zeros(2, 1, SIDE, SIDE, dtype=torch.float64)
    hidden = torch.zeros(2, SIDE, SIDE, dtype=torch.bool)
    hidden[:, at[0], at[1]] = True
    call = (everywhere, tokens, hidden, unconditional(2), tokens + 1)
    influence = token_influence(*call)
    near = sum(0 < away(at, each) <= radius for each in cells())
    assert token_locality(influence, radius).value == pytest.approx(near / (CELLS - 1))
    even = token_locality(even_influence(tokens, hidden, tokens + 1), radius)
    assert even.value == pytest.approx(near / (CELLS - 1))


def test_locality_is_a_share_of_influence_and_not_of_cells():
    influence = torch.zeros(1, CELLS, CELLS)
    influence[0, 0, [1, 5, 15]] = torch.tensor([1.0, 2, 5])
    assert token_locality(influence).value == pytest.approx(3 / 8)
    assert token_locality(influence, 3).value == 1


def test_even_influence_is_of_visible_tokens_that_differ_on_hidden_ones():
    tokens = torch.zeros(1, 2, 2, dtype=torch.long)
    other = torch.tensor([[[0, 1], [1, 1]]])
    hidden = torch.tensor([[[False, False], [False, True]]])
    expected = torch.zeros(1, 4, 4)
    expected[0, 1, 3] = expected[0, 2, 3] = 1
    assert torch.equal(even_influence(tokens, hidden, other), expected)
    deep = torch.stack([tokens, tokens], dim=1).double()
    changed = torch.stack([tokens, other], dim=1).double()
    assert torch.equal(even_influence(deep, hidden, changed), expected)


def test_codes_move_by_total_variation():
    """The law at the hidden token is (p, 1 - p), p by the one visible token that it depends on."""
    chances = torch.tensor([0.2, 0.9, 0.5], dtype=torch.float64)

    def predictor(tokens: Tensor, hidden: Tensor, condition: Tensor) -> Predicted:
        p = chances[tokens[:, 0, 1]]
        logits = torch.stack([p, 1 - p], dim=-1).log() + 5
        return Predicted(logits[:, None, None].expand(-1, 2, 2, -1))

    tokens = torch.tensor([[[2, 0], [0, 0]], [[0, 1], [1, 1]]])
    other = torch.tensor([[[1, 1], [1, 1]], [[2, 2], [2, 2]]])
    hidden = torch.tensor([[[True, False], [False, False]], [[True, False], [True, False]]])
    found = token_influence(predictor, tokens, hidden, unconditional(2), other)
    expected = torch.zeros(2, 4, 4, dtype=torch.float64)
    expected[0, 1, 0] = 0.7
    expected[1, 1, 0] = expected[1, 1, 2] = 0.4
    torch.testing.assert_close(found, expected)


def test_a_mixture_moves_by_its_mean():
    def predictor(tokens: Tensor, hidden: Tensor, condition: Tensor) -> Predicted:
        """Two Gaussians, of the weights 1/4 and 3/4; the second follows the first token."""
        shape = (len(tokens), 2, 2, 2)
        weights = torch.tensor([0.25, 0.75], dtype=torch.float64).log().expand(shape)
        means = torch.zeros(*shape, 2, dtype=torch.float64)
        means[..., 1, :] = tokens[:, :, 0, 0][:, None, None]
        return Predicted(GaussianMixture(weights, means, torch.zeros_like(means)))

    tokens = torch.zeros(1, 2, 2, 2, dtype=torch.float64)
    other = torch.tensor([3.0, 4]).double()[None, :, None, None].expand_as(tokens)
    hidden = torch.ones(1, 2, 2).bool()
    hidden[0, 0, 0] = False
    found = token_influence(predictor, tokens, hidden, unconditional(1), other)
    assert found[0, 0].tolist() == pytest.approx([0, 3.75, 3.75, 3.75])


def test_the_condition_and_the_mask_of_each_image_stay_its_own(rng):
    """The prediction is the condition, a number, times the first visible token."""

    def predictor(tokens: Tensor, hidden: Tensor, condition: Tensor) -> Predicted:
        seen = visible(tokens, hidden).flatten(2)
        first = seen.gather(2, hidden.flatten(1).byte().argmin(dim=1)[:, None, None])
        return Predicted((condition * first)[:, None].expand(-1, SIDE, SIDE, 1))

    tokens = torch.ones(5, 1, SIDE, SIDE, dtype=torch.float64)
    hidden, condition = half(rng, 5), torch.arange(1.0, 6).double()[:, None, None]
    found = token_influence(predictor, tokens, hidden, condition, tokens + 1, chunk=3)
    for image in range(5):
        first = int((~hidden[image]).flatten().nonzero()[0])
        assert found[image, first][hidden[image].flatten()].tolist() == [image + 1] * 8
        assert found[image].sum() == 8 * (image + 1)


@pytest.mark.parametrize("head", [LogitHead(6), MixtureHead(2, 3), DiffusionHead(2, 1, 8)], ids=str)
def test_chunks_of_any_size_give_the_same_numbers(rng, head):
    net = (
        Masked(SIDE, 3, 2, head, width=8, layers=2, heads=2).build().double().requires_grad_(False)
    )
    for weight in net.parameters():
        weight.copy_(torch.randn(weight.shape, generator=rng))
    tokens, other = latents(rng)
    if isinstance(head, LogitHead):
        tokens, other = torch.randint(6, (2, 3, SIDE, SIDE), generator=rng)
    hidden, condition = half(rng), torch.ones(3, 3, 3, dtype=torch.float64)
    sizes: list[int] = []

    def counted(*call: Tensor):
        sizes.append(len(call[0]))
        return net(*call)

    found = token_influence(counted, tokens, hidden, condition, other, chunk=5)
    assert max(sizes) == 5
    assert sum(sizes) == 3 + 24
    whole = token_influence(net, tokens, hidden, condition, other)
    torch.testing.assert_close(found, whole)
    differs = even_influence(tokens, hidden, other) > 0
    assert torch.equal(found > 0, differs)
    assert not found.requires_grad
    if isinstance(head, LogitHead):
        assert found.max() < 1
    rows = condition.repeat(2, 1, 1, 1)
    rows[0, :, 0], rows[1, :, 2] = 2, 3
    parts = factor_interaction(net, tokens, hidden, condition, *rows, chunk=2)
    torch.testing.assert_close(parts, factor_interaction(net, tokens, hidden, condition, *rows))
    assert parts.min() > 0.01


def moved_faintly(scale: float, ids: bool, rng: torch.Generator) -> bool:
    """Whether a mean over all tokens counts that moves (0, 0), or (300, 400), by so little."""

    def predictor(tokens: Tensor, hidden: Tensor, condition: Tensor) -> Predicted:
        mean = tokens.double().flatten(1).mean(dim=1)
        away = torch.stack([scale * mean, 0 * mean], dim=-1)
        out = away if ids else away + torch.tensor([300.0, 400]).double()
        return Predicted(out[:, None, None].expand(-1, SIDE, SIDE, 2))

    tokens, other = latents(rng)
    if ids:
        tokens, other = (tokens[:, 0] > 0).long(), (other[:, 0] > 0).long()
    return bool(token_influence(predictor, tokens, half(rng), unconditional(), other).any())


@pytest.mark.parametrize(("ids", "faint"), [(True, 10), (False, 1e4)])
def test_what_may_be_rounding_is_no_influence(rng, ids, faint):
    digit = torch.finfo(torch.float64).eps
    assert not moved_faintly(faint * digit, ids, rng)
    assert moved_faintly(1e5 * faint * digit, ids, rng)


def test_without_influence_there_is_no_locality():
    influence = torch.zeros(3, CELLS, CELLS)
    assert token_locality(influence) is None
    influence[1, 0, 1] = 0.5
    found = token_locality(influence)
    assert (found.value, found.low, found.n) == (1, None, 1)
    influence[2, 0, 15] = 0.1
    found = token_locality(influence)
    assert (found.value, found.low, found.high, found.n) == (0.5, 0, 1, 2)


def test_an_image_all_visible_or_all_hidden_has_no_influence(rng):
    tokens, other = latents(rng, 2)
    hidden = torch.zeros(2, SIDE, SIDE, dtype=torch.bool)
    hidden[1] = True
    found = token_influence(everywhere, tokens, hidden, unconditional(2), other)
    assert found.eq(0).all()


def test_the_mean_over_images_leaves_out_those_without_a_value():
    found = over_images(torch.tensor([1.0, torch.nan, 3, 2]))
    assert (found.value, found.n) == (2, 3)
    assert found.low == 0
    assert found.high > 4
    assert over_images(torch.tensor([1.0, 3]), most=3.5).high == 3.5
    assert over_images(torch.tensor([1.0, 1 + 1e-7]), most=1.0).value == 1
    assert over_images(torch.full((2,), torch.nan)) is None


SIGNS = torch.tensor([[[1.0], [1], [1]], [[1.0], [-1], [1]]], dtype=torch.float64)


def law(weights: dict[str, float], codes: int = 3):
    """Log-probabilities from the signs a, b, c of three factors, other at each code and token."""
    steps = torch.randn(4, SIDE, SIDE, codes, generator=torch.Generator().manual_seed(3)).double()

    def predictor(tokens: Tensor, hidden: Tensor, condition: Tensor) -> Predicted:
        a, b, c = condition[..., 0].T[:, :, None, None, None]
        terms = {"a": a, "b": b, "ab": a * b, "c": c, "one": torch.ones_like(a)}
        parts = [weights[name] * terms[name] * steps[at] for at, name in enumerate(weights)]
        return Predicted(sum(parts).log_softmax(-1))

    return predictor


def interaction(weights: dict[str, float], hidden: Tensor, ids: bool = True) -> Tensor:
    tokens = torch.zeros(2, SIDE, SIDE, dtype=torch.long)
    rows = SIGNS.repeat(2, 1, 1, 1)
    rows[0, :, 0] *= -1
    rows[1, :, 1] *= -1
    seen = tokens if ids else tokens[:, None].double()
    return factor_interaction(law(weights), seen, hidden, SIGNS, *rows)


def test_interaction_beside_single_effects_has_its_closed_form(rng):
    """With centred steps A, B and C: |4 C| / (2 |A + s C| + 2 |B + s C|), s from the signs."""
    hidden, weights = half(rng, 2), {"a": 1.0, "b": 2.0, "ab": 0.5}
    found = interaction(weights, hidden)
    steps = torch.randn(4, SIDE, SIDE, 3, generator=torch.Generator().manual_seed(3)).double()
    steps = steps - steps.mean(dim=-1, keepdim=True)
    for image, (a, b) in enumerate([(1, 1), (1, -1)]):
        one, two, both = (
            weight * steps[at][hidden[image]] for at, weight in enumerate(weights.values())
        )
        alone = (a * one + a * b * both).norm() + (b * two + a * b * both).norm()
        assert found[image].item() == pytest.approx((4 * both.norm() / (2 * alone)).item())


def test_of_latents_the_mean_prediction_is_taken_as_it_is(rng):
    """Normalised, log-probabilities that add up no longer do so: as vectors they interact."""
    hidden = half(rng, 2)
    assert interaction({"a": 1, "b": 1}, hidden, ids=False).min() > 0.01


def test_where_no_change_alone_moves_anything_interaction_is_undefined(rng):
    assert interaction({"c": 1}, half(rng, 2)).isnan().all()
    assert interaction({"c": 1, "a": 1e-15}, half(rng, 2)).isnan().all()
