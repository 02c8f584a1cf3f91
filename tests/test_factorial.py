"""The cells of loss x corruption x conditioning: of one size, and each trains and samples."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from recombine.condition import FactorValues, Labels
from recombine.models.code_denoiser import CodeDenoiser
from recombine.models.dit import DiT
from recombine.models.entry import FactorRows
from recombine.models.heads import DiffusionHead
from recombine.models.masked import Masked
from recombine.objectives.jepa import Jepa
from recombine.objectives.masked import MaskedCrossEntropy, MaskedSquaredError
from recombine.sample.unmask import Unmask
from recombine.studies._networks import HEADS, LAYERS, WIDTH, Combination, Ingredients, factorial
from recombine.studies.tokenizers import VQ
from recombine.views import Latents
from subjects import perturbed

LABELS = Labels((4, 4, 6))
CELLS = factorial(Latents("tokenizer_vq", VQ), LABELS)


def trunk(parts: Ingredients) -> DiT | Masked:
    return parts.network.of if isinstance(parts.network, CodeDenoiser) else parts.network


def small(parts: Ingredients) -> Ingredients:
    """The same cell with a tenth of the width and two layers."""
    size = {"width": 16, "layers": 2, "heads": 2, "inner": 24}
    made = replace(trunk(parts), **size)
    if isinstance(made, Masked) and isinstance(made.head, DiffusionHead):
        made = replace(made, head=replace(made.head, width=16))
    coded = isinstance(parts.network, CodeDenoiser)
    return replace(parts, network=replace(parts.network, of=made) if coded else made)


SMALL = {combination: small(parts) for combination, parts in CELLS.items()}
each_cell = pytest.mark.parametrize("parts", SMALL.values(), ids=map("-".join, SMALL))


def condition(batch: int, rng: torch.Generator) -> Tensor:
    concepts = [torch.randint(count, (batch,), generator=rng) for count in LABELS.values]
    rows = [nn.functional.one_hot(each, LABELS.features) for each in concepts]
    return nn.functional.pad(torch.stack(rows, dim=1).float(), (0, 1), value=1.0)


def batch_of(parts: Ingredients, rng: torch.Generator, batch: int = 2) -> tuple[Tensor, Tensor]:
    image = torch.rand(batch, 3, 28, 28, generator=rng)
    return parts.view(image), condition(batch, rng)


def test_parameters_are_within_two_per_cent_and_at_most_1_2_million():
    """By labels and by actual values alike."""
    values = factorial(Latents("tokenizer_vq", VQ), FactorValues(LABELS.values))
    counts = [parts.parameters for parts in (*CELLS.values(), *values.values())]
    assert max(counts) <= 1_200_000
    assert max(counts) <= 1.02 * min(counts)


def test_the_cells_are_all_losses_by_both_conditionings():
    losses = {
        "noise": {"squared", "cross_entropy"},
        "masks": {
            *("squared", "cross_entropy", "cross_entropy_of_vectors"),
            *("likelihood", "token_diffusion"),
        },
    }
    assert set(CELLS) == {
        (corruption, loss, conditioning)
        for corruption, each in losses.items()
        for loss in each
        for conditioning in ("adaln", "tokens")
    }


@pytest.mark.parametrize(("corruption", "loss"), sorted({each[:2] for each in CELLS}))
def test_conditionings_differ_in_the_conditioning_and_the_neurons_alone(corruption, loss):
    by_adaln, by_tokens = (CELLS[corruption, loss, each] for each in ("adaln", "tokens"))
    for name in ("objective", "view", "sampler"):
        assert getattr(by_adaln, name) == getattr(by_tokens, name)
    one, other = trunk(by_adaln), trunk(by_tokens)
    how = "entry" if isinstance(one, DiT) else "adaln"
    assert getattr(one, how) != getattr(other, how)
    assert replace(one, **{how: getattr(other, how), "inner": other.inner}) == other
    assert (one.width, one.layers, one.heads) == (WIDTH, LAYERS, HEADS)
    assert WIDTH % HEADS == 0


@pytest.mark.parametrize("conditioning", ["adaln", "tokens"])
def test_squared_error_and_cross_entropy_of_vectors_differ_in_the_loss_alone(conditioning: str):
    squared, crossed = (
        CELLS["masks", loss, conditioning] for loss in ("squared", "cross_entropy_of_vectors")
    )
    assert isinstance(squared.objective, MaskedSquaredError)
    assert crossed.objective == MaskedCrossEntropy()
    one, other = trunk(squared), trunk(crossed)
    assert one.head.separate
    assert replace(one, head=replace(one.head, separate=False)) == other
    assert (squared.view, squared.sampler) == (crossed.view, crossed.sampler)
    # All cells see and predict the same vectors.
    books = {one.head.book, squared.objective.book}
    for (corruption, loss, _), parts in CELLS.items():
        if isinstance(parts.view, Latents):
            books.add(parts.view)
        if (corruption, loss) == ("noise", "cross_entropy"):
            books.add(parts.network.book)
    assert books == {Latents("tokenizer_vq", VQ)}


@each_cell
def test_a_cell_trains_all_its_weights_and_draws_images(parts: Ingredients, rng: torch.Generator):
    model = perturbed(parts.objective.wrap(parts.network.build()))
    seen, told = batch_of(parts, rng)
    told[0, 1] = 0  # A null row, so that the null tokens learn, too.
    loss = parts.objective(model, seen, told, generator=rng)
    loss.backward()
    unused = [name for name, each in model.named_parameters() if each.grad is None]
    # Each factor has a null of its own, and the others were given.
    assert not unused
    assert loss.isfinite()
    sampler = replace(parts.sampler, steps=2)
    if isinstance(sampler, Unmask):
        sampler = replace(sampler, descent=replace(sampler.descent, steps=2))
    drawn = sampler.generator(model, seen.shape[1:])(told, rng)
    assert drawn.shape == seen.shape
    assert drawn.dtype == seen.dtype
    assert parts.view.back(drawn).shape == (2, 3, 28, 28)


@each_cell
def test_what_stands_in_a_null_row_has_no_influence(parts: Ingredients, rng: torch.Generator):
    model = perturbed(parts.objective.wrap(parts.network.build())).eval()
    seen, told = batch_of(parts, rng)
    silent = told.clone()
    silent[:, 2] = 0
    held = silent.clone()
    masks = isinstance(trunk(parts), Masked)
    if masks or isinstance(trunk(parts).entry, FactorRows):
        held[:, 2, :-1] = torch.nan

    def loss(condition: Tensor) -> Tensor:
        return parts.objective(model, seen, condition, generator=torch.Generator().manual_seed(1))

    assert torch.equal(loss(silent), loss(held))
    assert not torch.equal(loss(silent), loss(told))
    first = silent.clone()
    first[:, 2, 0] = first[:, 2, -1] = 1
    assert not torch.equal(loss(silent), loss(first))  # Null is not the first label.


def takes_jepa(combination: Combination) -> bool:
    return combination[:2] != ("noise", "cross_entropy")


@pytest.mark.parametrize(
    "parts",
    [parts for each, parts in SMALL.items() if takes_jepa(each)],
    ids=["-".join(each) for each in SMALL if takes_jepa(each)],
)
def test_jepa_of_weight_zero_is_the_plain_loss_to_the_bit(parts: Ingredients, rng: torch.Generator):
    """No gradient reaches the targets' branch, and all predictors are reached at another weight."""
    seen, told = batch_of(parts, rng)
    losses = []
    for weight in (0.0, 0.6):
        objective = Jepa((0, 1), weight)(parts.objective)
        torch.manual_seed(3)
        model = perturbed(objective.wrap(parts.network.build()))
        average = perturbed(deepcopy(model)).eval()
        draws = torch.Generator().manual_seed(1)
        losses.append(objective(model, seen, told, generator=draws, average=average))
    losses[-1].backward()
    assert all(each.grad is None for each in average.parameters())
    assert all(each.grad is not None for each in model.predictors.parameters())
    inner = model.network if hasattr(model, "network") else model.denoiser
    draws = torch.Generator().manual_seed(1)
    plain = parts.objective(inner, seen, told, generator=draws)
    assert torch.equal(losses[0], plain)
    assert losses[1] > plain


@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
def test_with_prefix_tokens_the_noise_level_alone_is_in_adaln(loss: str, rng: torch.Generator):
    declared = SMALL["noise", loss, "tokens"]
    built = perturbed(declared.network.build())
    network = built.network if isinstance(declared.network, CodeDenoiser) else built
    kept: list[Tensor] = []
    network.modulation.register_forward_hook(lambda *parts: kept.append(parts[2]))
    x, clock = torch.randn(2, 8, 7, 7, generator=rng), torch.tensor([0.1, 0.9])
    answers = [network(x, clock, condition(2, rng)) for _ in range(2)]
    assert torch.equal(*kept)
    assert not torch.allclose(kept[0][0], kept[0][1])
    assert not torch.allclose(*answers)


def test_flops_are_counted_for_the_whole_loss():
    """A token passes each of a block's matrices once; attention is small beside them."""
    parts = CELLS["masks", "cross_entropy", "tokens"]
    inner = trunk(parts).inner or 0
    tokens, matrices = 49 + 3, 4 * WIDTH**2 + 2 * WIDTH * inner
    attention = 2 * tokens * WIDTH
    head = 49 * WIDTH * 256
    prefix = 3 * WIDTH * (LABELS.features + 1)
    exact = 2 * (LAYERS * tokens * (matrices + attention) + head + prefix)
    assert parts.forward_flops(LABELS) == exact
    assert CELLS["noise", "squared", "tokens"].forward_flops(LABELS) < exact
