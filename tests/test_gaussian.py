"""One Gaussian a token: its mean learns by squared error, its width by likelihood alone."""

from math import log, pi

import pytest
import torch
from recombine.experiments import jitter, points, still
from recombine.session import untrained
from torch import Tensor, nn

from recombine.commands.run import seeded
from recombine.models.heads import Gaussian, GaussianMixture, GaussianOutlet, LogitHead, MixtureHead
from recombine.models.masked import Masked, MaskedModule, Predicted
from recombine.objectives.masked import Corruption, MaskedMean, MaskedMixture
from recombine.sample.unmask import Unmask, UnmaskingGenerator

SIDE, LATENT = 3, 2


def network(head: Gaussian | MixtureHead | LogitHead) -> MaskedModule:
    """A small network with nothing at zero."""
    torch.manual_seed(0)
    made = Masked(
        side=SIDE, factors=2, features=1, head=head, width=16, layers=2, heads=2, adaln=True
    ).build()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.3)
    return made


def batch(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Latents, what is hidden of them, and what is told."""
    latents = torch.randn(5, LATENT, SIDE, SIDE, generator=generator)
    hidden = torch.rand(5, SIDE, SIDE, generator=generator) < 0.6
    return latents, hidden, torch.rand(5, 2, 2, generator=generator) + 0.5


def reached(made: nn.Module, loss: Tensor) -> set[str]:
    """The names of the weights that a loss would change."""
    made.zero_grad()
    loss.backward(retain_graph=True)
    grads = {name: each.grad for name, each in made.named_parameters()}
    return {name for name, grad in grads.items() if grad is not None and grad.abs().sum() > 0}


def test_the_loss_is_the_squared_error_of_means_and_their_surprise(rng: torch.Generator):
    """The twin, token by token and number by number; what is seen does not count."""
    latents, hidden, told = batch(rng)
    predicted = network(Gaussian(LATENT))(latents, hidden, told)
    mixed = predicted.output
    assert isinstance(mixed, GaussianMixture)
    total = 0.0
    for image, row, column in hidden.nonzero().tolist():
        for channel in range(LATENT):
            true = latents[image, channel, row, column].item()
            mean = mixed.means[image, row, column, 0, channel].item()
            width = mixed.log_scales[image, row, column, 0, channel].exp().item()
            total += (mean - true) ** 2
            total += (((mean - true) / width) ** 2 / 2 + log(width) + log(2 * pi) / 2) / LATENT
    loss = MaskedMean().of(predicted, latents, Corruption(hidden)).item()
    assert loss == pytest.approx(total / hidden.sum().item(), rel=1e-5)


def test_likelihood_teaches_the_width_alone_and_squared_error_the_rest(rng: torch.Generator):
    latents, hidden, told = batch(rng)
    made = network(Gaussian(LATENT))
    predicted = made(latents, hidden, told)
    widths = {"outlet.scale.weight", "outlet.scale.bias"}
    everything = {name for name, _ in made.named_parameters()}
    surprise = MaskedMixture().of(predicted, latents, Corruption(hidden))
    assert reached(made, surprise) == widths
    assert predicted.vectors is not None
    assert reached(made, predicted.vectors.square().sum()) == everything - widths
    assert reached(made, MaskedMean().of(predicted, latents, Corruption(hidden))) == everything


def test_means_and_widths_become_those_of_the_law():
    """Tokens are 3 + 0.5 times noise in one channel, -1 + 2 times noise in the other."""
    generator = torch.Generator().manual_seed(0)
    mean, width = torch.tensor([3.0, -1.0]), torch.tensor([0.5, 2.0])
    drawn = mean + width * torch.randn(4_000, 2, generator=generator)
    made = GaussianOutlet(Gaussian(2), 2)
    optimizer = torch.optim.Adam(made.parameters(), 0.02)
    x = torch.ones(len(drawn), 2)
    seen, asked = (
        drawn[:, :, None, None],
        Corruption(torch.ones(len(drawn), 1, 1, dtype=torch.bool)),
    )
    for _ in range(800):
        said = made(x)
        mixed = GaussianMixture(*(part[:, None, None] for part in said))
        points = made.point(x)[:, None, None]
        loss = MaskedMean().of(Predicted(mixed, (), points=points), seen, asked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    said = made(x[:1])
    torch.testing.assert_close(said.means[0, 0], drawn.mean(0), atol=0.02, rtol=0)
    found = drawn.std(0, correction=0)
    torch.testing.assert_close(said.log_scales[0, 0].exp(), found, atol=0, rtol=0.02)


def test_no_width_is_below_the_least():
    made = GaussianOutlet(Gaussian(2, least=0.1), 4)
    nn.init.constant_(made.scale.bias, -30.0)
    said = made(torch.randn(7, 4))
    torch.testing.assert_close(said.log_scales.exp(), torch.full((7, 1, 2), 0.1))
    with pytest.raises(ValueError, match="the least width of a Gaussian is positive; got 0"):
        Gaussian(2, least=0.0)
    with pytest.raises(ValueError, match="latent"):
        Gaussian(0)


def test_what_is_drawn_lies_around_the_mean_as_wide_as_is_said(rng: torch.Generator):
    """All tokens are revealed at once, so each is a draw from the first answer."""
    made = network(Gaussian(LATENT))
    told = torch.ones(4_000, 2, 2)
    drawing = UnmaskingGenerator(made, made.of.shape, Unmask(steps=1), batch=4_000)
    drawn = drawing.seeded(told, torch.arange(4_000)).movedim(1, -1)
    hidden = torch.ones(1, SIDE, SIDE, dtype=torch.bool)
    mixed = made(torch.zeros(1, LATENT, SIDE, SIDE), hidden, told[:1]).output
    assert isinstance(mixed, GaussianMixture)
    width = mixed.log_scales[0, :, :, 0].exp()
    away = (drawn.mean(0) - mixed.means[0, :, :, 0]) / width * 4_000**0.5
    assert away.abs().max() < 5
    torch.testing.assert_close(drawn.std(0), width, atol=0, rtol=0.06)


def test_a_head_of_another_kind_is_refused(rng: torch.Generator):
    latents, hidden, told = batch(rng)
    mixture = network(MixtureHead(LATENT, 2))(latents, hidden, told)
    with pytest.raises(ValueError, match=r"a head that is a Gaussian, such as Gaussian\(8\)"):
        MaskedMean().of(mixture, latents, Corruption(hidden))


def test_squared_error_is_all_that_a_variant_changes():
    for ours, theirs in (
        (points.givt_squared, still.givt_steered_seen),
        (points.givt_squared_small, jitter.givt_steered_still_seen_small),
        (points.givt_squared_small, points.one_gaussian_steered_small),
    ):
        assert ours.objective == MaskedMean()
        assert theirs.objective == MaskedMixture()
        for name in ("world", "view", "budget", "sampler", "conditioner", "seeds"):
            assert getattr(ours, name) == getattr(theirs, name), name
        assert isinstance(ours.network, Masked)
        assert isinstance(theirs.network, Masked)
        assert ours.network.head == Gaussian(8)
        assert ours.network.adaln
        assert theirs.network.adaln
    (likely,) = seeded("points", "one_gaussian_steered_small", [1], False, {})
    (squared,) = seeded("points", "givt_squared_small", [1], False, {})
    first, second = (
        untrained(plan, torch.device("cpu")).state_dict() for plan in (likely, squared)
    )
    shared = first.keys() & second.keys()
    assert {name for name in first.keys() ^ second.keys()} == {
        *("outlet.layer.weight", "outlet.layer.bias"),
        *(f"outlet.{part}.{what}" for part in ("point", "scale") for what in ("weight", "bias")),
    }
    assert any(not torch.equal(first[name], torch.zeros_like(first[name])) for name in shared)
    for name in shared:
        assert torch.equal(first[name], second[name]), name
