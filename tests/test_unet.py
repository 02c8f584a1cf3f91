"""The pieces of the U-Net in closed form, and how far it sees without attention."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from recombine.models.blocks import Attention, Residual, Waves, positions, rms
from recombine.models.entry import Vector
from recombine.models.unet import LARGE_UNET, STUDY_UNET, UNet, UNetBlock
from test_networks import perturbed

PLAIN = UNet(2, 16, width=8, multipliers=(1,), blocks=1, attention=())


def test_rms_leaves_a_mean_square_of_one_at_each_place(rng: torch.Generator):
    x = 5 * torch.randn(2, 6, 3, 4, generator=rng)
    torch.testing.assert_close(rms(x, 1).square().mean(dim=1), torch.ones(2, 3, 4))
    torch.testing.assert_close(rms(x, 1) * x.norm(dim=1, keepdim=True) / 6**0.5, x)


def test_waves_are_sines_and_cosines_of_rising_frequency():
    value = torch.tensor([0.0, 0.125])
    turns = 2 * torch.pi * torch.tensor([0.5, 1.0, 2.0])
    expected = torch.stack(
        [torch.cat([v[None], (v * turns).sin(), (v * turns).cos()]) for v in value]
    )
    torch.testing.assert_close(Waves(3, 0.5, 2.0)(value), expected)


@pytest.mark.parametrize("side", [1, 2, 7, 16])
def test_positions_tell_all_places_apart_and_compare_them_by_their_distance(side: int):
    where = positions(side, 32)
    flat = where.flatten(1)
    assert len({tuple(place) for place in flat.T.tolist()}) == side**2
    along_rows = torch.einsum("cik,cjk->kij", where, where)
    for offset in range(side):
        diagonal = along_rows.diagonal(offset, 1, 2)
        torch.testing.assert_close(diagonal, diagonal[:1, :1].expand_as(diagonal))
    torch.testing.assert_close(flat.square().sum(dim=0), torch.full((side**2,), 16.0))


def test_positions_hold_rows_before_columns():
    where = positions(4, 16)
    assert torch.equal(where[:8], where[:8, :, :1].expand(-1, -1, 4))
    assert torch.equal(where[8:], where[:8].transpose(1, 2))


def test_a_residual_block_follows_its_formula(rng: torch.Generator):
    block = Residual(4)
    nn.init.normal_(block.second.weight)
    x = torch.randn(2, 4, 5, 5, generator=rng)
    shift, scale = torch.randn(2, 2, 4, 1, 1, generator=rng)
    hidden = F.conv2d(F.silu(x / x.square().mean(1, True).sqrt()), block.first.weight, padding=1)
    hidden = hidden / hidden.square().mean(1, True).sqrt() * (1 + scale) + shift
    expected = x + F.conv2d(F.silu(hidden), block.second.weight, padding=1)
    answer = block(x, torch.cat([shift, scale], dim=1))
    torch.testing.assert_close(answer, expected, rtol=1e-3, atol=1e-3)


def test_a_fresh_residual_block_is_the_identity(rng: torch.Generator):
    x = torch.randn(1, 4, 3, 3, generator=rng)
    assert torch.equal(Residual(4)(x, torch.randn(1, 8, 1, 1, generator=rng)), x)


def seen_by(declared: UNet, at: tuple[int, int], rng: torch.Generator) -> torch.Tensor:
    x = torch.randn(1, 2, declared.size, declared.size, generator=rng, requires_grad=True)
    answer = perturbed(declared)(x, torch.zeros(1), torch.zeros(1, 1))
    return torch.autograd.grad(answer[0, :, *at].sum(), x)[0].abs().sum(dim=(0, 1))


def test_without_attention_a_pixel_sees_as_far_as_the_convolutions_reach(rng: torch.Generator):
    # In and out, and two in each of two blocks: six convolutions of radius one.
    seen = seen_by(PLAIN, (8, 8), rng)
    expected = torch.zeros(16, 16, dtype=torch.bool)
    expected[2:15, 2:15] = True
    assert torch.equal(seen > 0, expected)


def test_attention_lets_a_pixel_see_everything(rng: torch.Generator):
    assert (seen_by(replace(PLAIN, attention=(16,), head=8), (0, 0), rng) > 0).all()


def test_patches_are_channels_of_a_coarser_image(rng: torch.Generator):
    on_pixels = UNet(2, 8, Vector(3), width=8, multipliers=(1, 2), attention=(2,), patch=2, head=8)
    on_patches = replace(on_pixels, channels=8, size=4, patch=1)
    network, twin = perturbed(on_pixels), on_patches.build()
    twin.load_state_dict(network.state_dict())
    x, clock, condition = torch.randn(2, 2, 8, 8, generator=rng), torch.ones(2), torch.ones(2, 3)
    expected = F.pixel_shuffle(twin(F.pixel_unshuffle(x, 2), clock, condition), 2)
    torch.testing.assert_close(network(x, clock, condition), expected)


@pytest.mark.parametrize("declared", [STUDY_UNET, LARGE_UNET])
def test_presets_have_attention_at_16_and_8_pixels_in_heads_of_32_or_64(declared: UNet):
    with torch.device("meta"):
        network = declared.build()
    sides = [block.where.shape[0] for block in network.modules() if hasattr(block, "where")]
    assert sides == [16**2, 8**2] * 2
    heads = {len(part.gain) for part in network.modules() if isinstance(part, Attention)}
    assert heads <= {32, 64}
    assert all(width % 32 == 0 for width in declared.widths)


def test_every_level_is_skipped_to_its_own_way_up(rng: torch.Generator):
    declared = UNet(1, 8, width=8, multipliers=(1, 2, 3), blocks=2, attention=())
    network, x = perturbed(declared), torch.randn(1, 1, 8, 8, generator=rng)
    question = x, torch.zeros(1), torch.zeros(1)
    answer = network(*question)
    assert [skip.in_channels for skip in network.skip] == [8, 8, 16, 16, 24, 24]
    for skip in network.skip:
        weight = skip.weight.data
        skip.weight.data = torch.zeros_like(weight)
        assert not torch.allclose(network(*question), answer)
        skip.weight.data = weight


@pytest.mark.parametrize("part", ["attention", "cross_attention"])
def test_attention_starts_silent_and_knows_where_it_looks_from(part: str, rng: torch.Generator):
    """On a blank image only positions can make places differ."""
    block, blank = UNetBlock(4, 8, heads=1, context=5), torch.ones(1, 8, 4, 4)
    told, present = torch.randn(1, 2, 5, generator=rng), torch.ones(1, 2, dtype=torch.bool)
    question = blank, torch.zeros(1, 16, 1, 1), told, present
    assert torch.equal(block(*question), blank)
    nn.init.normal_(getattr(block, part).out.weight, generator=rng)
    places = (block(*question) - blank)[0].flatten(1)
    assert (places - places[:, :1]).abs().amax(dim=0)[1:].min() > 1e-3


def test_the_first_level_may_be_wider_too():
    network = UNet(3, 16, width=8, multipliers=(2, 3), attention=(), head=8).build()
    x = torch.randn(2, 3, 16, 16)
    assert network(x, torch.zeros(2), torch.zeros(2, 1)).shape == x.shape
