"""Latents and codes of images: which is chosen, what learns, what is revived."""

import pytest
import torch
from torch import Tensor

from recombine.models.blocks import parameters_of
from recombine.models.tokenizer import DEAD, Autoencoder, AutoencoderModule

SMALL = Autoencoder(width=8, codes=16, latent=4)
SMALL_KL = Autoencoder(width=8, codes=None, latent=4)
each_kind = pytest.mark.parametrize("declared", [SMALL, SMALL_KL], ids=["codes", "kl"])


def noise(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def image(count: int = 2, size: int = 28) -> Tensor:
    return noise(count, 3, size, size).clamp(-1, 1)


def nearest(latent: Tensor, codebook: Tensor) -> list[list[list[int]]]:
    """Look at every code for every place in turn."""

    def best(place: Tensor) -> int:
        far = [sum((a - b) ** 2 for a, b in zip(place, code, strict=True)) for code in codebook]
        return far.index(min(far))

    batch, _, rows, columns = latent.shape
    return [
        [[best(latent[each, :, row, column]) for column in range(columns)] for row in range(rows)]
        for each in range(batch)
    ]


@pytest.mark.parametrize("size", [28, 64])
@pytest.mark.parametrize("codes", [16, None])
def test_codes_and_latents_have_a_quarter_of_the_side(codes: int | None, size: int):
    network, seen = Autoencoder(size, width=8, codes=codes).build(), image(size=size)
    coded, side = network(seen), size // 4
    assert network.of.side == side
    assert coded.image.shape == seen.shape
    beside = coded.logvar if codes is None else coded.vectors
    assert coded.latent.shape == beside.shape == (2, 8, side, side)
    if codes is None:
        assert coded.ids is coded.vectors is None
    else:
        assert coded.ids.shape == (2, side, side)
        assert coded.logvar is None


@pytest.mark.parametrize("codes", [256, None])
def test_a_tokenizer_is_half_a_million_to_a_million_weights_and_ships_in_two_megabytes(codes):
    count = parameters_of(Autoencoder(codes=codes))
    assert 500_000 <= count <= 1_000_000
    assert 2 * count <= 2_000_000


def test_a_forward_pass_is_its_parts():
    network, seen = SMALL.build(), image()
    coded = network(seen)
    torch.testing.assert_close(coded.latent, network.encode(seen))
    ids, vectors = network.quantized(coded.latent)
    assert torch.equal(ids, coded.ids)
    assert torch.equal(ids, network.ids(seen))
    assert torch.equal(vectors, network.vectors(ids))
    torch.testing.assert_close(coded.image, network.decode(vectors))


def test_a_kl_latent_is_its_mean_unless_noise_blurs_it():
    network, seen = SMALL_KL.build(), image()
    plain = network(seen)
    torch.testing.assert_close(plain.image, network.decode(network.encode(seen)))
    unit = noise(2, 4, 7, 7)
    blurred = network(seen, unit)
    torch.testing.assert_close(blurred.latent, plain.latent)
    drawn = plain.latent + plain.logvar.exp().sqrt() * unit
    torch.testing.assert_close(blurred.image, network.decode(drawn))
    assert not torch.allclose(blurred.image, plain.image, atol=1e-3)


@each_kind
def test_what_moves_by_a_cell_moves_the_latents_by_a_cell(declared: Autoencoder):
    """Away from the border, and along the same axis."""
    network = Autoencoder(64, width=8, codes=declared.codes).build()
    seen = torch.ones(1, 3, 64, 64)
    seen[:, :, 28:36, 24:36] = noise(1, 3, 8, 12)
    latent = network.encode(seen)
    for axis in (2, 3):
        moved = network.encode(seen.roll(4, axis))
        inner = (slice(None), slice(None), slice(4, -4), slice(4, -4))
        torch.testing.assert_close(moved[inner], latent.roll(1, axis)[inner])
        assert not torch.allclose(moved[inner], latent[inner], atol=1e-2)


def test_a_bright_neighbour_does_not_dim_a_place_far_away():
    """Norms are over the channels of one place."""
    network, seen = Autoencoder(64, width=8).build(), image(1, 64)
    other = seen.clone()
    other[..., :4, :4] = 1 - 100 * noise(1, 3, 4, 4)
    here, there = network.encode(seen), network.encode(other)
    assert torch.equal(here[..., 8:, 8:], there[..., 8:, 8:])


@each_kind
def test_precision_in_is_precision_out(declared: Autoencoder):
    network = declared.build().double()
    coded = network(image().double())
    for each in (coded.image, coded.latent):
        assert each.dtype == torch.float64


def test_the_nearest_code_is_chosen_as_by_looking_at_all():
    network = SMALL.build().double()
    latent = noise(2, 4, 3, 5, seed=1, dtype=torch.float64)
    ids, vectors = network.quantized(latent)
    assert ids.tolist() == nearest(latent, network.codebook.detach())
    for each, row, column in [(0, 0, 0), (0, 2, 1), (1, 1, 4)]:
        assert torch.equal(vectors[each, :, row, column], network.codebook[ids[each, row, column]])


def test_codes_that_are_equal_in_bf16_stay_different():
    network = SMALL.build()
    with torch.no_grad():
        network.codebook.copy_(1 + torch.arange(16)[:, None] / 512)
    latent = network.codebook.detach().T.reshape(1, 4, 4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ids, vectors = network.quantized(latent)
        coded = network(image())
    assert ids.flatten().tolist() == list(range(16))
    assert torch.equal(vectors, latent)
    assert coded.latent.dtype == torch.float32
    assert not torch.equal(coded.latent, coded.latent.bfloat16().float())


def test_the_encoder_learns_from_the_image_through_the_codes():
    """Its gradient is that of decoding the codes' vectors, put where the latents are."""
    network, seen = SMALL.build(), image()
    (network(seen).image - seen).square().mean().backward()
    found = [each.grad.clone() for each in network.encoder.parameters()]
    assert network.codebook.grad is None
    network.zero_grad()
    vectors = network.quantized(network.encode(seen))[1].detach().requires_grad_()
    (network.decode(vectors) - seen).square().mean().backward()
    network.zero_grad()
    network.encode(seen).backward(vectors.grad)
    torch.testing.assert_close(found, [each.grad for each in network.encoder.parameters()])
    assert sum(each.abs().sum() for each in found) > 0


def revived(network: AutoencoderModule, picks: Tensor, after: int = 3) -> tuple[Tensor, Tensor]:
    """Show two images of which codes 0 and 1 are used; return the latents and the old codes."""
    old = network.codebook.detach().clone()
    latent = noise(2, 4, 3, 5, seed=4)
    ids = torch.zeros(2, 3, 5, dtype=torch.long)
    ids[1, 2, 3] = 1
    network.revive(latent, ids, picks, after)
    return latent, old


def test_dead_codes_become_the_picked_latents_and_the_others_stay():
    network, picks = SMALL.build(), torch.arange(16) + 10
    network.idle.copy_(torch.tensor([9, 9, 2, 3] + [0] * 12))
    latent, old = revived(network, picks)
    places = [latent[b, :, r, c] for b in range(2) for r in range(3) for c in range(5)]
    assert torch.equal(network.codebook[3], places[13])
    for alive in (0, 1, 2, *range(4, 16)):
        assert torch.equal(network.codebook[alive], old[alive])
    assert network.idle.tolist() == [0, 0, 3, 4] + [1] * 12


def test_a_fresh_codebook_is_filled_by_the_first_batch():
    network = SMALL.build()
    assert network.idle.tolist() == [DEAD] * 16
    latent, old = revived(network, torch.arange(16))
    flat = latent.movedim(1, -1).reshape(-1, 4)
    assert torch.equal(network.codebook[2:], flat[2:16])
    assert torch.equal(network.codebook[:2], old[:2])


def test_a_dead_code_is_put_elsewhere_until_it_is_used():
    network = SMALL.build()
    network.idle.fill_(0)
    for step in range(6):
        latent, old = revived(network, torch.full((16,), step))
        moved = (network.codebook != old).any(dim=1).tolist()
        assert moved == [False, False] + [step >= 3] * 14
    network.revive(latent, torch.full((2, 3, 5), 7), torch.zeros(16, dtype=torch.long), 3)
    assert network.idle[7] == 0


def test_what_is_counted_and_coded_is_kept():
    """The codes as a parameter, which a run averages; the counts as a buffer."""
    network = SMALL.build()
    assert "codebook" in dict(network.named_parameters())
    assert "idle" in network.state_dict()
    assert not [name for name in SMALL_KL.build().state_dict() if name in ("codebook", "idle")]


@pytest.mark.parametrize("size", [30, 27, 2])
def test_a_side_is_divisible_by_four(size: int):
    with pytest.raises(ValueError, match=f"a side of {size} is not divisible by 4, the downsampl"):
        Autoencoder(size)


@pytest.mark.parametrize("name", ["codes", "latent", "width", "channels"])
def test_counts_are_positive(name: str):
    with pytest.raises(ValueError, match=f"{name} is at least 1; got .*{name}=0"):
        Autoencoder(**{name: 0})


def test_an_image_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"images of the shape \(3, 28, 28\); got \(3, 32, 32\)"):
        SMALL.build()(image(size=32))
