"""Codes scored by the distance of a predicted vector: the law, its twin, and why it adds up."""

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recombine.models.blocks import parameters_of
from recombine.models.heads import DistanceHead, DistanceOutlet, LogitHead, VectorInlet, outlet
from recombine.models.masked import Masked
from recombine.models.tokenizer import Autoencoder
from recombine.sample.unmask import Unmask
from recombine.views import Codes, tokenizer

VQ, KL = Autoencoder(width=32), Autoencoder(width=32, codes=None)
VIEW = Codes("tokenizer_vq", VQ)


@dataclass(frozen=True)
class Grid:
    """Codes on a square grid, two numbers each."""

    side: int = 3

    def vectors(self) -> Tensor:
        line = torch.arange(float(self.side))
        return torch.cartesian_prod(line, line)


def fresh(least: float = 0.02) -> DistanceOutlet:
    made = outlet(DistanceHead(Grid(), least), 8)
    assert isinstance(made, DistanceOutlet)
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.5)
    return made


def test_logits_are_those_of_gaussians_about_the_codes(rng: torch.Generator):
    """The twin: Bayes' rule with a Gaussian about each code, all codes as likely before."""
    made, x = fresh(), torch.randn(5, 8, generator=rng)
    vector = made.vector(x)
    width = (made.log_least + F.softplus(made.scale(x) - made.log_least)).exp()
    law = torch.distributions.Normal(made.vectors, width[..., None])
    naive = law.log_prob(vector[:, None]).sum(-1).log_softmax(-1)
    torch.testing.assert_close(made(x).log_softmax(-1), naive)


def test_a_vector_on_a_code_means_that_code_and_no_width_is_below_the_least():
    made = fresh(least=0.1)
    for parameter in made.parameters():
        nn.init.zeros_(parameter)
    for code, vector in enumerate(made.vectors):
        with torch.no_grad():
            made.vector.bias.copy_(vector)
            made.scale.bias.fill_(-50.0)
        chance = made(torch.zeros(8)).softmax(-1)
        # The nearest others are 1 away, in widths of 0.1.
        assert chance.argmax() == code
        assert chance[code].item() == pytest.approx(1.0, abs=1e-6)
        next_best = made(torch.zeros(8)).log_softmax(-1).sort(descending=True).values[1]
        assert next_best.item() == pytest.approx(-0.5 / 0.1**2, rel=1e-3)


def test_a_fresh_width_is_about_the_spread_of_codes():
    """Nothing is known yet: the vector is the mean of the codes, and the width is near 1."""
    made = outlet(DistanceHead(VIEW), 8)
    assert isinstance(made, DistanceOutlet)
    logits = made(torch.randn(3, 8))
    expected = -made.vectors.square().sum(1) / 2
    torch.testing.assert_close(logits, expected.expand(3, -1), rtol=0.05, atol=0.05)


def test_vectors_of_a_shipped_codebook_are_centred_and_spread_by_one():
    vectors = VIEW.vectors()
    assert vectors.shape == (VQ.codes, VQ.latent)
    assert not vectors.requires_grad
    torch.testing.assert_close(vectors.mean(0), torch.zeros(VQ.latent), atol=1e-5, rtol=0)
    assert vectors.square().mean().item() == pytest.approx(1.0)


def test_a_seed_fixes_fresh_weights_whether_the_tokenizer_was_read_before_or_not():
    tokenizer.cache_clear()
    states = []
    for _ in range(2):
        torch.manual_seed(1)
        head = DistanceHead(VIEW)
        states.append(Masked(head=head, width=16, layers=1, heads=2).build().state_dict())
    first, again = states
    for name, value in first.items():
        assert torch.equal(value, again[name]), name


def test_latents_have_no_codebook():
    with pytest.raises(ValueError, match="tokenizer that has some; tokenizer_kl has latents"):
        Codes("tokenizer_kl", KL).vectors()


def test_neighbours_in_the_codebook_stay_neighbours(rng: torch.Generator):
    """Shifted and scaled, no more: the nearest code of a picture's latent is the same."""
    images = torch.rand(4, 3, 28, 28, generator=rng)
    network = tokenizer(VIEW.name, VIEW.of, images.device)
    raw, vectors = network.codebook, VIEW.vectors()
    latent = network.encode(2 * images - 1).movedim(1, -1).flatten(0, 2)
    away = raw - raw.mean(0)
    scaled = (latent - raw.mean(0)) / away.square().mean().sqrt()
    nearest = torch.cdist(scaled, vectors).argmin(1)
    assert (
        nearest.tolist() == network.quantized(network.encode(2 * images - 1))[0].flatten().tolist()
    )


def test_codes_are_read_by_their_vectors():
    """Codes with one vector are one to the network."""

    @dataclass(frozen=True)
    class Twice:
        def vectors(self) -> Tensor:
            return Grid(2).vectors()[[0, 1, 2, 3, 3]]

    declared = Masked(
        side=2, factors=1, features=1, head=DistanceHead(Twice()), width=8, layers=1, heads=2
    )
    network = declared.build()
    assert isinstance(network.inlet, VectorInlet)
    assert network.of.shape == (2, 2)
    hidden = torch.tensor([[[False, True], [True, True]]])
    told = torch.ones(1, 1, 2)
    nn.init.normal_(network.outlet.vector.weight)
    said = [network(torch.full((1, 2, 2), code), hidden, told).output for code in (2, 3, 4)]
    torch.testing.assert_close(said[1], said[2])
    assert not torch.allclose(said[0], said[1])
    # The vector is as far from both, so they are as likely.
    torch.testing.assert_close(said[0][..., 3], said[0][..., 4])


def test_it_draws_codes_of_its_book():
    network = Masked(side=3, head=DistanceHead(Grid()), width=16, layers=1, heads=2).build()
    drawn = (
        Unmask().generator(network, network.of.shape).seeded(torch.ones(4, 3, 4), torch.arange(4))
    )
    assert drawn.shape == (4, 3, 3)
    assert drawn.dtype == torch.long
    assert set(drawn.flatten().tolist()) <= set(range(9))


def test_a_codebook_is_not_learned_and_does_not_lie_in_the_weights():
    network = Masked(side=3, head=DistanceHead(VIEW), width=16, layers=1, heads=2)
    assert not [name for name in network.build().state_dict() if "vectors" in name]
    named = Masked(side=3, head=LogitHead(VQ.codes or 0), width=16, layers=1, heads=2)
    codes, latent = VQ.codes or 0, VQ.latent
    # An embedding and free logits go; two thin layers to and from vectors, and a width, come.
    fewer = codes * 16 + 17 * codes - (latent + 1) * 16 - 17 * latent - 17
    assert parameters_of(named) - parameters_of(network) == fewer
    # Counted without memory; what is built afterwards has its vectors all the same.
    assert network.build().outlet.vectors.abs().sum() > 0


@pytest.mark.parametrize("least", [0.0, -1.0, float("nan"), float("inf")])
def test_a_width_is_positive(least: float):
    with pytest.raises(
        ValueError, match=f"the least width around a vector is positive; got {least}"
    ):
        DistanceHead(Grid(), least)
