"""Masked models: what is hidden does not matter, and what each part of the network depends on."""

from collections.abc import Callable
from dataclasses import replace
from math import log

import pytest
import torch
from torch import Tensor

from masked_models import (
    ADALN,
    CODES,
    DENOISING,
    MIXTURE,
    conditions,
    each_model,
    either_way,
    tokens_of,
)
from recombine.models.blocks import parameters_of
from recombine.models.heads import DiffusionHead, GaussianMixture, LogitHead, MixtureHead
from recombine.models.masked import Masked
from recombine.objectives.masked import MaskedCrossEntropy
from subjects import perturbed


def flat(output: Tensor | GaussianMixture) -> Tensor:
    parts = output if isinstance(output, GaussianMixture) else (output,)
    return torch.cat([part.flatten() for part in parts])


@pytest.mark.parametrize("head", [LogitHead(256), MixtureHead(8, 16), DiffusionHead(8, 3)])
def test_a_model_of_the_study_has_at_most_four_million_weights(head):
    assert 2_900_000 < parameters_of(Masked(head=head)) <= 4_000_000


@each_model
def test_what_stands_where_a_token_is_hidden_does_not_matter(declared, rng: torch.Generator):
    model = perturbed(declared.build(), 0.2)
    tokens, condition = tokens_of(declared, 3, rng), conditions(3, rng)
    hidden = torch.rand(3, 4, 4, generator=rng) < 0.5
    covered = hidden if tokens.dim() == 3 else hidden[:, None].expand_as(tokens)
    wrong = tokens.masked_fill(covered, -7 if tokens.dim() == 3 else float("nan"))
    with torch.no_grad():
        first, second = (model(each, hidden, condition) for each in (tokens, wrong))
        third = model(tokens, torch.zeros_like(hidden), condition)
    assert torch.equal(flat(first.output), flat(second.output))
    for one, other in zip(first.states, second.states, strict=True):
        assert torch.equal(one, other)
    assert not torch.allclose(flat(first.output), flat(third.output))


@each_model
def test_hidden_tokens_and_absent_factors_do_not_spoil_gradients(declared, rng: torch.Generator):
    model, condition = perturbed(declared.build(), 0.2), conditions(3, rng)
    condition[:, 0] = torch.tensor([float("nan"), 0])
    tokens = tokens_of(declared, 3, rng)
    if not isinstance(declared.head, LogitHead):
        tokens = torch.full_like(tokens, float("nan"))
    output = model(tokens, torch.ones(3, 4, 4).bool(), condition).output
    flat(output).sum().backward()
    used = [each.grad for each in model.parameters() if each.grad is not None]
    assert all(gradient.isfinite().all() for gradient in used)


@either_way
def test_states_are_the_image_tokens_after_each_layer(declared: Masked, rng: torch.Generator):
    model = perturbed(declared.build(), 0.2)
    tokens, condition = tokens_of(declared, 2, rng), conditions(2, rng)
    before = 0 if declared.adaln else declared.factors
    after: list[Tensor] = []
    for block in model.blocks:
        block.register_forward_hook(lambda _module, _inputs, x: after.append(x))
    states = model(tokens, torch.zeros(2, 4, 4).bool(), condition).states
    assert len(states) == CODES.layers
    for state, x in zip(states, after, strict=True):
        assert x.shape == (2, before + 16, 32)
        assert torch.equal(state, x[:, before:])


def test_adaln_changes_every_layer_by_its_own_numbers(rng: torch.Generator):
    model, tokens = perturbed(ADALN.build(), 0.2), tokens_of(ADALN, 1, rng)
    hidden, condition = torch.ones(1, 4, 4).bool(), conditions(1, rng)
    kept = model(tokens, hidden, condition)
    for layer in range(ADALN.layers + 1):
        changed = [0.0] * (ADALN.layers + 1)
        changed[layer] = 0.1
        plain = model.adaln.forward
        model.adaln.forward = lambda told, plain=plain, changed=changed: tuple(
            each + more for each, more in zip(plain(told), changed, strict=True)
        )
        other = model(tokens, hidden, condition)
        model.adaln.forward = plain
        same = [torch.equal(a, b) for a, b in zip(kept.states, other.states, strict=True)]
        assert same == [at < layer for at in range(ADALN.layers)]
        assert not torch.allclose(kept.output, other.output)


@either_way
def test_a_row_whose_flag_is_zero_says_nothing(declared: Masked, rng: torch.Generator):
    model, tokens = perturbed(declared.build(), 0.2), tokens_of(declared, 1, rng)
    hidden = torch.ones(1, 4, 4, dtype=torch.bool)

    def said(first: list[float], second: list[float]) -> Tensor:
        return model(tokens, hidden, torch.tensor([[first, second]]).float()).output

    silent = said([0, 0], [0.5, 1])
    assert torch.equal(silent, said([float("nan"), 0], [0.5, 1]))
    assert not torch.allclose(silent, said([0, 1], [0.5, 1]))
    assert not torch.allclose(silent, said([0.5, 1], [0, 0]))
    assert not torch.allclose(said([1, 1], [0, 1]), said([2, 1], [0, 1]))


def test_the_head_depends_on_its_token_and_no_other(rng: torch.Generator):
    model = perturbed(DENOISING.build(), 0.2)
    tokens, condition = tokens_of(DENOISING, 2, rng), conditions(2, rng)
    hidden = torch.ones(2, 4, 4, dtype=torch.bool)
    noisy, sigma = torch.randn(2, 3, 4, 4, 3, generator=rng), torch.rand(2, 3, 4, 4) + 0.1
    predicted = model(tokens, hidden, condition, noisy, sigma)
    assert predicted.denoised.shape == noisy.shape
    for place in [(0, 1, 2, 3), (1, 2, 0, 1)]:
        row, _, *where = place
        vector = predicted.output[row, where[0], where[1]][None]
        alone = model.head(noisy[place][None], sigma[place][None], vector)[0]
        torch.testing.assert_close(predicted.denoised[place], alone)


def test_the_head_depends_on_its_noise_level_and_its_vector(rng: torch.Generator):
    inside = perturbed(DENOISING.build(), 0.2).head.network
    x, vector = torch.randn(2, 3, generator=rng), torch.randn(2, 32, generator=rng)
    clock = torch.tensor([0.1, 0.2])
    answer = inside(x, clock, vector)
    assert (inside(x, clock + 0.1, vector) - answer).abs().max() > 1e-3
    assert (inside(x, clock, vector.flip(0)) - answer).abs().max() > 1e-3
    assert (inside(x.flip(0), clock, vector) - answer).abs().max() > 1e-3


def test_a_fresh_model_of_codes_knows_nothing(rng: torch.Generator):
    tokens = tokens_of(CODES, 5, rng)
    loss = MaskedCrossEntropy()(CODES.build(), tokens, conditions(5, rng), generator=rng)
    assert loss.item() == pytest.approx(log(8))


def test_no_gaussian_is_narrower_than_declared(rng: torch.Generator):
    declared = replace(MIXTURE, head=MixtureHead(latent=3, components=2, least=0.1))
    model = declared.build()
    with torch.no_grad():
        model.outlet.layer.weight.mul_(100)
    predicted = model(tokens_of(declared, 4, rng), torch.ones(4, 4, 4).bool(), conditions(4, rng))
    mixed = predicted.output
    assert log(0.1) - 1e-6 <= mixed.log_scales.min() < log(0.11)
    torch.testing.assert_close(mixed.log_weights.exp().sum(-1), torch.ones(4, 4, 4))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"width": 30}, "multiple of 4"),
        ({"heads": 3}, "cannot be shared by 3 heads"),
        ({"layers": 0}, "layers is at least 1"),
    ],
)
def test_what_cannot_be_built_is_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        replace(CODES, **wrong)


def test_what_cannot_be_read_is_refused(rng: torch.Generator):
    hidden, condition = torch.ones(2, 4, 4).bool(), conditions(2, rng)
    with pytest.raises(ValueError, match=r"ids of the shape \(4, 4\); got torch.int64 of \(5, 5\)"):
        CODES.build()(torch.zeros(2, 5, 5).long(), hidden, condition)
    with pytest.raises(ValueError, match=r"latents of the shape \(3, 4, 4\)"):
        MIXTURE.build()(torch.zeros(2, 4, 4).long(), hidden, condition)
    with pytest.raises(ValueError, match=r"has the shape \(2, 2, 2\); got \(2, 3, 2\)"):
        CODES.build()(torch.zeros(2, 4, 4).long(), hidden, torch.zeros(2, 3, 2))
    noisy = torch.zeros(2, 1, 4, 4, 3), torch.ones(2, 1, 4, 4)
    with pytest.raises(ValueError, match="noisy tokens are for a DiffusionHead"):
        MIXTURE.build()(torch.zeros(2, 3, 4, 4), hidden, condition, *noisy)


@each_model
def test_neurons_and_heads_are_found_by_layer(declared, rng: torch.Generator):
    model, widths = declared.build(), {}

    def note(layer: int, kind: str) -> Callable[..., None]:
        return lambda module, inputs: widths.update({(layer, kind): inputs[0].shape[-1]})

    for layer, parts in model.inside().items():
        for kind, part in zip(("neurons", "heads"), parts, strict=True):
            part.register_forward_pre_hook(note(layer, kind))
    model(tokens_of(declared, 1, rng), torch.ones(1, 4, 4).bool(), conditions(1, rng))
    assert widths == {
        (layer, kind): width
        for layer in (0, 1)
        for kind, width in (("neurons", 4 * 32), ("heads", 32))
    }
    assert set(model.inside([1])) == {1}
    with pytest.raises(ValueError, match="the network has the layers 0..1; got 2"):
        model.inside([2])
