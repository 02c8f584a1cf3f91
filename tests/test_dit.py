"""The transformer against its formulas, written out for one token at a time."""

from dataclasses import replace
from math import sqrt

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recombine.models.blocks import Attention, CrossAttention, Transformer, attended, head_width
from recombine.models.dit import DiT
from recombine.models.entry import Vector
from subjects import perturbed


def unit(x: Tensor) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()


def slow(query: Tensor, key: Tensor, value: Tensor, gain: Tensor, present: Tensor) -> Tensor:
    """Attention one head and one query at a time, over the present keys only."""
    answer, wide = torch.zeros_like(query), len(gain)
    for row, start in torch.cartesian_prod(
        torch.arange(len(query)), torch.arange(0, query.shape[-1], wide)
    ):
        head = slice(start, start + wide)
        keys, values = (part[row, present[row]][:, head] for part in (key, value))
        for token, asking in enumerate(query[row, :, head]):
            fit = unit(keys) @ (unit(asking) * gain) / sqrt(wide)
            answer[row, token, head] = fit.softmax(0) @ values
    return answer


def test_attention_is_a_mean_of_values_weighed_by_how_queries_fit_keys(rng: torch.Generator):
    query = torch.randn(2, 5, 6, generator=rng, dtype=torch.float64)
    key, value = torch.randn(2, 2, 4, 6, generator=rng, dtype=torch.float64)
    gain = torch.rand(3, generator=rng, dtype=torch.float64)
    present = torch.tensor([[True, True, False, True], [False, True, False, False]])
    exact = slow(query, key, value, gain, present)
    fast = attended(query, key, value, gain, present[:, None, None])
    torch.testing.assert_close(fast, exact, rtol=1e-5, atol=1e-5)


def test_attention_without_a_mask_looks_at_everything(rng: torch.Generator):
    layer = perturbed(Attention(6, 2), 0.2).double()
    x = torch.randn(2, 4, 6, generator=rng, dtype=torch.float64)
    parts = layer.query_key_value(x).chunk(3, dim=-1)
    exact = layer.out(slow(*parts, layer.gain, torch.ones(2, 4, dtype=torch.bool)))
    torch.testing.assert_close(layer(x), exact, rtol=1e-5, atol=1e-5)


def test_a_modulated_block_follows_the_formula_of_adaln_zero(rng: torch.Generator):
    block = perturbed(Transformer(6, 2), 0.2)
    x, modulation = torch.randn(2, 4, 6, generator=rng), torch.randn(2, 36, generator=rng)
    parts = modulation.unflatten(1, (6, 1, 6)).unbind(1)
    shift, scale, gate = parts[:3]
    expected = x + gate * block.attention(unit(x) * (1 + scale) + shift)
    shift, scale, gate = parts[3:]
    hidden = block.inner(unit(expected) * (1 + scale) + shift)
    expected = expected + gate * block.outer(F.gelu(hidden, approximate="tanh"))
    torch.testing.assert_close(block(x, modulation), expected, rtol=1e-4, atol=1e-4)


def test_a_block_without_modulation_is_one_with_open_gates(rng: torch.Generator):
    block, x = perturbed(Transformer(6, 2), 0.2), torch.randn(2, 4, 6, generator=rng)
    nothing, one = torch.zeros(2, 6), torch.ones(2, 6)
    modulation = torch.cat([nothing, nothing, one] * 2, dim=1)
    torch.testing.assert_close(block(x), block(x, modulation))


def test_closed_gates_make_a_block_the_identity(rng: torch.Generator):
    x = torch.randn(2, 4, 6, generator=rng)
    assert torch.equal(Transformer(6, 2)(x, torch.zeros(2, 36)), x)


def test_the_condition_is_added_between_attention_and_the_layers_after(rng: torch.Generator):
    block = perturbed(Transformer(6, 2, context=3), 0.2)
    assert isinstance(block.cross_attention, CrossAttention)
    x, told = torch.randn(1, 4, 6, generator=rng), torch.randn(1, 2, 3, generator=rng)
    present = torch.ones(1, 2, dtype=torch.bool)
    hidden = x + block.attention(unit(x))
    hidden = hidden + block.cross_attention(unit(hidden), told, present)
    expected = hidden + block.outer(F.gelu(block.inner(unit(hidden)), approximate="tanh"))
    answer = block(x, None, told, present)
    torch.testing.assert_close(answer, expected, rtol=1e-4, atol=1e-4)


def test_the_blocks_of_a_fresh_transformer_pass_their_tokens_on(rng: torch.Generator):
    network = DiT(2, 4, width=8, layers=2, heads=2).build()
    nn.init.normal_(network.outlet.weight, generator=rng)
    x = torch.randn(1, 2, 4, 4, generator=rng)
    tokens = network.inlet(x.flatten(2).transpose(1, 2)) + network.where
    expected = network.outlet(unit(tokens)).transpose(1, 2).reshape(x.shape)
    answer = network(x, torch.zeros(1), torch.zeros(1))
    torch.testing.assert_close(answer, expected, rtol=1e-4, atol=1e-4)


def moved_patches(declared: DiT, blind: bool, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """The answer to an image turned by a patch, and the answer turned by a patch."""
    network = perturbed(declared.build(), 0.2)
    if blind:
        network.where.zero_()
    x = torch.randn(1, declared.channels, declared.size, declared.size, generator=rng)
    clock, nothing = torch.zeros(1), torch.zeros(1, 1)
    turned = network(x.roll(declared.patch, 3), clock, nothing)
    return turned, network(x, clock, nothing).roll(declared.patch, 3)


@pytest.mark.parametrize("patch", [1, 2])
def test_only_positions_tell_patches_apart(patch: int, rng: torch.Generator):
    declared = DiT(2, 4, patch=patch, width=8, layers=2, heads=2)
    torch.testing.assert_close(*moved_patches(declared, True, rng), rtol=1e-4, atol=1e-4)
    first, second = moved_patches(declared, False, rng)
    assert (first - second).abs().max() > 1e-2


def test_patches_are_channels_of_a_coarser_image(rng: torch.Generator):
    on_pixels = DiT(2, 8, patch=2, entry=Vector(3), width=8, layers=1, heads=2)
    network = perturbed(on_pixels.build(), 0.2)
    twin = replace(on_pixels, channels=8, size=4, patch=1).build()
    twin.load_state_dict(network.state_dict())
    x, clock, condition = torch.randn(2, 2, 8, 8, generator=rng), torch.ones(2), torch.ones(2, 3)
    expected = F.pixel_shuffle(twin(F.pixel_unshuffle(x, 2), clock, condition), 2)
    torch.testing.assert_close(network(x, clock, condition), expected)


def test_heads_share_a_width_evenly():
    with pytest.raises(ValueError, match="a width of 8 cannot be shared by 3 heads"):
        head_width(8, 3)
