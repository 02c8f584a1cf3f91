"""JEPA changes nothing it should not: targets, visible tokens, the objective beside it."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import recombine.denoiser
from masked_models import CODES, OBJECTIVES, conditions, tokens_of
from recombine.models.masked import Masked
from recombine.objectives.diffusion import Diffusion
from recombine.objectives.jepa import DiffusionJepa, Jepa, JepaObjective, MaskedJepa, target_spread
from recombine.objectives.masked import MaskedCrossEntropy
from recombine.sample.heun import Sampler
from recombine.sample.unmask import Unmask
from subjects import perturbed

SMALL = replace(CODES, layers=3)
JEPA = Jepa(layers=(0, 2), weight=0.6)
KINDS = [(replace(declared, layers=3), objective) for declared, objective in OBJECTIVES]
each_kind = pytest.mark.parametrize(("declared", "objective"), KINDS)


def batch_of(declared: Masked, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    return tokens_of(declared, 4, rng), conditions(4, rng)


def noise() -> torch.Generator:
    return torch.Generator().manual_seed(7)


@each_kind
def test_no_gradient_reaches_the_average(declared, objective, rng: torch.Generator):
    with_jepa = JEPA(objective)
    model = perturbed(with_jepa.wrap(declared.build()))
    average = perturbed(deepcopy(model))
    loss = with_jepa(model, *batch_of(declared, rng), generator=noise(), average=average)
    loss.backward()
    assert all(each.grad is None for each in average.parameters())
    assert all(each.grad is not None for each in model.predictors.parameters())


def test_a_model_that_is_its_own_average_is_not_moved_as_a_target(rng: torch.Generator):
    """What a dropped stop-gradient would add: the gradient through the targets."""
    with_jepa, asked = JEPA(MaskedCrossEntropy()), batch_of(SMALL, rng)
    model = perturbed(with_jepa.wrap(SMALL.build()))
    twin = deepcopy(model)
    for each, average in ((model, model), (twin, deepcopy(twin))):
        with_jepa(each, *asked, generator=noise(), average=average).backward()
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


@each_kind
def test_a_weight_of_zero_is_the_plain_objective_to_the_bit(declared, objective, rng):
    batch = batch_of(declared, rng)
    with_jepa = Jepa((0, 2), weight=0.0)(objective)
    model = perturbed(with_jepa.wrap(declared.build()))
    plain = deepcopy(model.network)
    average = perturbed(deepcopy(model))
    loss = with_jepa(model, *batch, generator=noise(), average=average)
    bare = objective(plain, *batch, generator=noise())
    assert torch.equal(loss, bare)
    loss.backward()
    bare.backward()
    for one, other in zip(model.network.parameters(), plain.parameters(), strict=True):
        assert (one.grad is None) == (other.grad is None)
        assert one.grad is None or torch.equal(one.grad, other.grad)


@pytest.mark.parametrize("normalised", [False, True])
def test_the_loss_is_the_mean_over_layers_of_the_error_at_hidden_tokens(normalised: bool, rng):
    objective, (seen, condition) = MaskedCrossEntropy(), batch_of(SMALL, rng)
    with_jepa = Jepa((2, 0), 0.6, normalised)(objective)
    model = perturbed(with_jepa.wrap(SMALL.build()))
    average = perturbed(deepcopy(model))
    hidden = objective.corrupted(seen, noise()).hidden
    context = model.network(seen, hidden, condition).states
    target = average.network(seen, torch.zeros_like(hidden), condition).states
    errors = []
    for number, layer in enumerate((2, 0)):
        aim = target[layer]
        if normalised:
            spread = aim.var(-1, unbiased=False, keepdim=True)
            aim = (aim - aim.mean(-1, keepdim=True)) / (spread + 1e-5).sqrt()
        first, _, last = model.predictors[number]
        guess = last(F.gelu(first(context[layer])))
        errors.append((guess - aim)[hidden.flatten(1)].square().mean())
    exact = objective(model, seen, condition, generator=noise()) + 0.6 * sum(errors) / 2
    loss = with_jepa(model, seen, condition, generator=noise(), average=average)
    torch.testing.assert_close(loss, exact)


@each_kind
def test_targets_of_visible_tokens_do_not_matter(declared, objective, rng: torch.Generator):
    with_jepa, (seen, condition) = JEPA(objective), batch_of(declared, rng)
    model = perturbed(with_jepa.wrap(declared.build()))
    drawn = objective.corrupted(seen, noise())
    predicted = model(seen, drawn.hidden, condition, *drawn.noisy)
    targets = [torch.randn(4, 16, 32, generator=rng) for _ in range(2)]
    missed = with_jepa.missed(predicted, targets, drawn.hidden)
    covered = drawn.hidden.flatten(1)[..., None]
    for moved, same in ((~covered, True), (covered, False)):
        others = [torch.where(moved, target + 5, target) for target in targets]
        assert torch.equal(with_jepa.missed(predicted, others, drawn.hidden), missed) == same


def test_both_losses_are_read_from_one_pass_of_model_and_average(rng: torch.Generator):
    with_jepa, calls = JEPA(MaskedCrossEntropy()), []
    model = with_jepa.wrap(SMALL.build())
    average = deepcopy(model)
    for name, module in (("model", model), ("average", average)):
        module.register_forward_hook(lambda *_, name=name: calls.append(name))
    with_jepa(model, *batch_of(SMALL, rng), generator=noise(), average=average)
    assert sorted(calls) == ["average", "model"]


@each_kind
def test_the_module_answers_as_the_network_does(declared, objective, rng: torch.Generator):
    model = perturbed(JEPA(objective).wrap(declared.build())).eval()
    seen, condition = batch_of(declared, rng)
    asked = objective.corrupted(seen, rng)
    inner = model.network(seen, asked.hidden, condition, *asked.noisy)
    outer = model(seen, asked.hidden, condition, *asked.noisy)
    assert objective.loss(inner, seen, asked) == objective.loss(outer, seen, asked)
    for one, other in zip(inner.states, outer.states, strict=True):
        assert torch.equal(one, other)
    sampler = Unmask(steps=3, descent=Sampler(steps=2))
    samples = [
        sampler.generator(each, declared.shape)(condition, noise())
        for each in (model, model.network)
    ]
    assert torch.equal(*samples)


@each_kind
def test_a_step_looks_at_no_number(declared, objective, monkeypatch: pytest.MonkeyPatch):
    """Fake tensors have none: what a CUDA graph cannot capture raises here."""
    # Inside a graph the levels are not checked either.
    monkeypatch.setattr(recombine.denoiser, "_readable", lambda value: False)
    with FakeTensorMode(allow_non_fake_inputs=True):
        with_jepa, rng = JEPA(objective), noise()
        model = with_jepa.wrap(declared.build())
        average, batch = with_jepa.wrap(declared.build()), batch_of(declared, rng)
        with_jepa(model, *batch, generator=rng, average=average).backward()


@pytest.mark.parametrize("layer", [11, 8, -1])
def test_a_layer_that_is_not_there_is_named(layer: int):
    network = replace(SMALL, layers=8).build()
    with pytest.raises(ValueError, match=rf"the network has the layers 0..7; got {layer}"):
        Jepa(layers=(3, layer))(MaskedCrossEntropy()).wrap(network)
    Jepa(layers=(0, 7))(MaskedCrossEntropy()).wrap(network)


def test_what_cannot_be_declared_is_refused():
    with pytest.raises(ValueError, match=r"at least one layer, each once; got \(\)"):
        Jepa(layers=())
    with pytest.raises(ValueError, match=r"each once; got \(3, 3\)"):
        Jepa(layers=(3, 3))
    for weight in (-0.1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"finite and not negative; got {weight}"):
            Jepa(weight=weight)


def test_measurements_see_the_objective_and_the_network_through_jepa(rng: torch.Generator):
    inner = MaskedCrossEntropy()
    both, seen = JEPA(inner), torch.randint(8, (2, 4, 4), generator=rng)
    model, hidden = both.wrap(SMALL.build()), torch.ones(2, 4, 4).bool()
    predicted = model(seen, hidden, torch.ones(2, 2, 2))
    expected = inner.prediction_quality(predicted, seen, hidden)
    assert torch.equal(both.prediction_quality(predicted, seen, hidden), expected)
    assert both.noisy_tokens(seen, rng) == ()
    assert model.inside() == model.network.inside()
    spreads = both.target_spreads(model, seen, torch.ones(2, 2, 2))
    assert list(spreads) == [0, 2]
    assert isinstance(both, JepaObjective)
    assert not isinstance(inner, JepaObjective)
    with pytest.raises(ValueError, match="needs a masked model; got Linear"):
        both.wrap(torch.nn.Linear(2, 2))


def test_jepa_is_attached_in_one_line():
    assert Jepa()(MaskedCrossEntropy()) == MaskedJepa(MaskedCrossEntropy(), Jepa((3, 5, 7), 0.6))
    assert Jepa()(Diffusion()) == DiffusionJepa(Diffusion(), Jepa((3, 5, 7), 0.6))


def test_states_that_are_all_equal_have_collapsed():
    row = torch.randn(1, 1, 16)
    spread = target_spread(row.expand(8, 4, 16))
    assert (spread.variance, spread.rank) == (0, 0)
    assert "targets collapsed: variance 0 per channel, rank 0.0 of 16" in spread.alarm


def test_states_that_only_say_where_they_are_have_collapsed():
    assert target_spread(torch.randn(1, 4, 16).expand(8, 4, 16)).alarm is not None


@pytest.mark.parametrize("rank", [1, 3, 16])
def test_the_rank_of_equal_directions_is_their_number(rank: int):
    directions = torch.linalg.qr(torch.randn(16, 16).double())[0][:rank]
    # Each direction, there and back: means are zero and all singular values are the same.
    states = torch.cat([directions, -directions])[:, None].expand(-1, 5, -1) + 3.0
    spread = target_spread(states)
    assert spread.rank == pytest.approx(rank)
    assert spread.variance == pytest.approx(2 * rank / 16 / (2 * rank - 1))
    assert (spread.alarm is not None) == (rank == 1)


def test_random_states_have_the_rank_of_their_width():
    spread = target_spread(torch.randn(200, 16, 16))
    assert spread.variance == pytest.approx(1, rel=0.02)
    assert 15.9 < spread.rank <= 16
    assert spread.alarm is None
    assert target_spread(0.001 * torch.randn(200, 16, 16)).alarm is not None


def test_a_rank_is_the_exponential_of_an_entropy():
    states = torch.zeros(4, 1, 2).double()
    states[:2, 0, 0], states[2:, 0, 1] = torch.tensor([3.0, -3.0]), torch.tensor([1.0, -1.0])
    share = torch.tensor([0.75, 0.25]).double()
    assert target_spread(states).rank == pytest.approx((-share * share.log()).sum().exp().item())


def test_one_image_has_no_spread():
    with pytest.raises(ValueError, match="at least 2 images; got 1"):
        target_spread(torch.randn(1, 4, 8))
