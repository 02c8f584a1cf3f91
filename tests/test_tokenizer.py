"""Latents and codes of images: which is chosen, what learns, what is revived, what is used."""

import math

import pytest
import torch
from torch import Tensor

from recombine.measure.tokenizing import (
    codebook_alarm,
    codebook_use,
    latent_alarm,
    latent_use,
    reconstruction,
)
from recombine.measurement import Measurement
from recombine.models.blocks import parameters_of
from recombine.models.tokenizer import DEAD, Autoencoder, AutoencoderModule, straight_through

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


@pytest.mark.parametrize("size", [28, 32, 48, 64])
def test_codes_have_a_quarter_of_the_side(size: int):
    network, seen = Autoencoder(size, width=8, codes=16).build(), image(size=size)
    coded, side = network(seen), size // 4
    assert coded.image.shape == seen.shape
    assert coded.latent.shape == coded.vectors.shape == (2, 8, side, side)
    assert coded.ids.shape == network.ids(seen).shape == (2, side, side)
    assert coded.ids.dtype == torch.long
    assert coded.logvar is None
    assert network.of.side == side


@pytest.mark.parametrize("size", [28, 32, 48, 64])
def test_kl_latents_have_a_quarter_of_the_side(size: int):
    network, seen = Autoencoder(size, width=8, codes=None).build(), image(size=size)
    coded, side = network(seen), size // 4
    assert coded.image.shape == seen.shape
    assert coded.latent.shape == coded.logvar.shape == (2, 8, side, side)
    assert coded.ids is coded.vectors is None


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


def test_codes_that_bf16_cannot_tell_apart_are_told_apart():
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


def test_the_gradient_goes_straight_through():
    latent, vectors = noise(2, 4, 3, 3).requires_grad_(), noise(2, 4, 3, 3, seed=1)
    vectors.requires_grad_()
    through, weight = straight_through(vectors, latent), noise(2, 4, 3, 3, seed=2)
    assert torch.equal(through, vectors)
    (through * weight).sum().backward()
    assert torch.equal(latent.grad, weight)
    assert vectors.grad is None


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


def test_a_kl_autoencoder_has_no_codes():
    network = SMALL_KL.build()
    with pytest.raises(ValueError, match="a KL autoencoder has no codes"):
        network.ids(image())
    with pytest.raises(ValueError, match="a KL autoencoder has no codes"):
        network.vectors(torch.zeros(1, 7, 7, dtype=torch.long))


def test_an_image_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"images of the shape \(3, 28, 28\); got \(3, 32, 32\)"):
        SMALL.build()(image(size=32))


def test_the_error_and_psnr_of_a_known_error_are_known():
    seen = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0)) / 2
    signs = torch.tensor([1.0, -1.0]).repeat(4, 3, 8, 4)
    size = torch.tensor([0.1, 0.1, 0.01, 0.01])[:, None, None, None]
    found = reconstruction(seen + size * signs, seen)
    assert found["absolute_error"].value == pytest.approx(0.055, rel=1e-5)
    assert found["psnr"].value == pytest.approx(30, rel=1e-5)
    expected = Measurement.mean([20.0, 20.0, 40.0, 40.0])
    assert found["psnr"].low == pytest.approx(expected.low, rel=1e-4)
    assert found["psnr"].high == pytest.approx(expected.high, rel=1e-4)
    assert found["psnr"].n == 4


def test_an_image_without_error_has_a_finite_psnr():
    seen = torch.rand(2, 3, 8, 8)
    found = reconstruction(seen, seen)
    assert found["psnr"].value == 100
    assert found["absolute_error"].value == 0


LAWS = {
    "uniform": (torch.arange(256).reshape(4, 8, 8), 256, 256, 256),
    "uniform on a half": (torch.arange(256).reshape(4, 8, 8) % 8, 16, 8, 8),
    "a point": (torch.full((3, 4, 4), 5), 16, 1, 1),
    "1/2, 1/4, 1/4": (torch.tensor([0, 2, 0, 3]).repeat(3, 4, 1), 5, 3, 2**1.5),
}


@pytest.mark.parametrize("law", LAWS)
def test_the_perplexity_of_a_known_law_is_known(law: str):
    ids, codes, used, perplexity = LAWS[law]
    found = codebook_use(ids, codes)
    assert found["codes_used"].value == used / codes
    assert found["codes_used"].n == found["perplexity"].n == len(ids)
    assert found["perplexity"].value == pytest.approx(perplexity)


def test_the_interval_of_perplexity_is_that_of_the_surprise_of_images():
    ids = torch.randint(6, (40, 3, 3), generator=torch.Generator().manual_seed(0)) // 2
    ids[:20, 0] = 0
    counts = [ids.flatten().tolist().count(code) for code in range(3)]
    surprises = [
        sum(math.log(360 / counts[code]) for code in each.flatten().tolist()) / 9 for each in ids
    ]
    entropy = sum(count / 360 * math.log(360 / count) for count in counts)
    found, expected = codebook_use(ids, 4)["perplexity"], Measurement.mean(surprises)
    assert found.value == pytest.approx(math.exp(entropy))
    assert found.low == pytest.approx(math.exp(expected.low))
    assert found.high == pytest.approx(math.exp(expected.high))


def test_a_collapsed_codebook_raises_the_alarm():
    network = Autoencoder(width=8, codes=256).build()
    with torch.no_grad():
        network.codebook[3:] = 1000
    used = int(network.ids(image(8)).unique().numel())
    assert used <= 3
    alarm = codebook_alarm(network.ids(image(8)), 256)
    assert alarm.startswith(f"codebook collapsed: {used} of 256 codes in use, perplexity ")
    assert alarm.endswith("; train longer, use fewer codes or revive sooner")


def test_the_alarm_is_about_a_tenth_of_the_codes():
    def uniform(used: int) -> Tensor:
        return (torch.arange(2600) % used).reshape(26, 10, 10)

    assert codebook_alarm(uniform(26), 256) is None
    assert "25 of 256" in codebook_alarm(uniform(25), 256)
    # Used, but hardly ever.
    rare = torch.zeros(2600, dtype=torch.long)
    rare[:100] = torch.arange(100)
    assert "100 of 256" in codebook_alarm(rare.reshape(26, 10, 10), 256)


def test_a_single_image_is_no_cause_for_alarm():
    assert codebook_alarm(torch.arange(49).reshape(1, 7, 7), 4096) is None


@pytest.mark.parametrize("ids", [[0, 4], [-1, 2]])
def test_ids_are_those_of_codes(ids: list[int]):
    with pytest.raises(ValueError, match=f"ids are from 0 to 3; got {ids[0]} to {ids[1]}"):
        codebook_use(torch.tensor(ids).reshape(2, 1, 1), 4)


def test_the_use_of_codes_needs_an_image():
    with pytest.raises(ValueError, match="needs an image"):
        codebook_alarm(torch.zeros(0, 7, 7, dtype=torch.long), 4)


def test_a_channel_is_in_use_if_images_say_more_than_noise():
    """Also if it is small; not if it differs only from place to place."""
    mean = noise(200, 4, 3, 3) * torch.tensor([1.0, 0.01, 1.0, 0.0])[:, None, None]
    mean[:, 3] = noise(3, 3)
    logvar = torch.tensor([-1.0, -10.0, 1.0, -1.0])[:, None, None].expand(200, 4, 3, 3)
    found = latent_use(mean, logvar)
    assert found["channels_used"].value == 0.5
    assert found["channels_used"].n == 200
    assert latent_alarm(mean, logvar) is None
    alarm = latent_alarm(mean[:, 1:], logvar[:, 1:])
    assert alarm.startswith("latent collapsed: 1 of 3 channels tell images apart; train longer")


def test_the_spread_of_latents_is_about_the_mean_of_each_channel():
    mean = 3 * noise(500, 2, 4, 4) + torch.tensor([10.0, -10.0])[:, None, None]
    found = latent_use(mean, torch.zeros_like(mean))["latent_spread"]
    assert found.value == pytest.approx(3, rel=0.02)


def test_what_tells_images_apart_needs_two():
    with pytest.raises(ValueError, match="needs 2 images or more; got 1"):
        latent_alarm(torch.zeros(1, 4, 3, 3), torch.zeros(1, 4, 3, 3))
