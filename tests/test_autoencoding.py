"""The loss of an autoencoder in closed form, and what a short training makes of both kinds."""

from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributions import Normal, kl_divergence

from recombine.data import Stream
from recombine.measure.tokenizing import codebook_use, latent_use
from recombine.models.tokenizer import Autoencoder, Coded
from recombine.objectives.autoencoding import Autoencoding, nats
from recombine.run.state import packed, unpack
from recombine.train import Step, Weights, train
from recombine.worlds.shapes2d import Shapes2D

SMALL = Autoencoder(width=8, codes=32, latent=4)
SMALL_KL = replace(SMALL, codes=None)
each_kind = pytest.mark.parametrize("declared", [SMALL, SMALL_KL], ids=["codes", "kl"])


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def batches(size: int = 32, seed: int = 0):
    for batch in Stream(Shapes2D(), size, seed):
        yield 2 * batch.image - 1, torch.zeros(size)


def weights_of(declared: Autoencoder, seed: int = 0) -> Weights:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Weights.of(declared.build(), ema=0.9)


def step_of(weights: Weights, objective: Autoencoding, seed: int = 1) -> Step:
    step = Step(weights, objective, 1.0, torch.Generator().manual_seed(seed))
    step.set_rate(3e-3)
    return step


def test_nats_are_the_divergence_from_unit_noise():
    mean, logvar = noise(3, 4, 2, 2), noise(3, 4, 2, 2, seed=1)
    law = Normal(mean.double(), (logvar.double() / 2).exp())
    expected = kl_divergence(law, Normal(0.0, 1.0)).flatten(1).sum(dim=1)
    torch.testing.assert_close(nats(mean, logvar).double(), expected)
    assert nats(torch.zeros(1, 4, 2, 2), torch.zeros(1, 4, 2, 2)) == 0


def test_the_loss_of_kl_latents_is_the_error_and_the_weighed_nats_of_an_image():
    image, mean, logvar = noise(3, 3, 8, 8), noise(3, 4, 2, 2), noise(3, 4, 2, 2, seed=1)
    loss = Autoencoding(kl=0.1).loss(Coded(image + 0.3, mean, logvar), image)
    expected = 0.09 + 0.1 * nats(mean, logvar).mean() / (3 * 8 * 8)
    torch.testing.assert_close(loss, expected)


def test_the_loss_of_codes_is_the_error_and_both_ways_between_latents_and_codes():
    image, latent = noise(3, 3, 8, 8), noise(3, 4, 2, 2).requires_grad_()
    vectors = (latent.detach() + 0.2).requires_grad_()
    coded = Coded(image + 0.3, latent, ids=torch.zeros(3, 2, 2).long(), vectors=vectors)
    loss = Autoencoding(commitment=0.5).loss(coded, image)
    assert loss.item() == pytest.approx(0.09 + 0.04 + 0.5 * 0.04, rel=1e-5)
    loss.backward()
    # Codes are drawn to latents, and latents, more weakly, to codes.
    torch.testing.assert_close(vectors.grad, torch.full_like(vectors, 0.4 / 48))
    torch.testing.assert_close(latent.grad, torch.full_like(latent, -0.5 * 0.4 / 48))


@each_kind
def test_a_batch_is_coded_with_noise_from_the_generator_and_costs_its_loss(declared):
    network, objective = declared.build(), Autoencoding(kl=0.01)
    image, rng = next(batches(8))[0], torch.Generator().manual_seed(3)
    found = objective(network, image, torch.zeros(8), generator=rng)
    unit = noise(8, 4, 7, 7, seed=3) if declared.codes is None else None
    with torch.no_grad():
        network = network if declared.codes is None else _before(declared, network)
        torch.testing.assert_close(found.detach(), objective.loss(network(image, unit), image))


def _before(declared: Autoencoder, network: nn.Module) -> nn.Module:
    """Return the network with the codes it had before some were revived: those of its seed."""
    torch.manual_seed(0)
    fresh = declared.build()
    assert not torch.equal(fresh.codebook, network.codebook)
    return fresh


@each_kind
def test_the_condition_is_ignored_and_the_generator_decides(declared: Autoencoder):
    image = next(batches(8))[0]

    def left(told: Tensor, seed: int) -> list[Tensor]:
        weights = weights_of(declared)
        step = step_of(weights, Autoencoding(revive_after=0), seed)
        for _ in range(3):
            step(image, told)
        return [each.clone() for each in weights.denoiser.state_dict().values()]

    first = left(torch.zeros(8), seed=1)
    for again, same in [(left(torch.ones(8, 5), 1), True), (left(torch.zeros(8), 2), False)]:
        assert all(torch.equal(*pair) for pair in zip(first, again, strict=True)) == same


@each_kind
def test_every_weight_learns(declared: Autoencoder):
    network = declared.build()
    rng = torch.Generator().manual_seed(0)
    Autoencoding()(network, next(batches(8))[0], torch.zeros(8), generator=rng).backward()
    # The last layer of a block starts at zero, so what is below it in the block has to wait.
    waiting = ("first.weight", "modulation")
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any() or name.endswith(waiting), name


def test_unused_codes_get_a_gradient_of_zero_so_that_the_optimizer_knows_them():
    network, rng = SMALL.build(), torch.Generator().manual_seed(0)
    image = next(batches(8))[0]
    used = network.ids(image).unique()
    Autoencoding()(network, image, torch.zeros(8), generator=rng).backward()
    moved = network.codebook.grad.any(dim=1)
    assert moved.nonzero().flatten().tolist() == used.tolist()
    assert len(used) < 32


@each_kind
def test_no_number_is_looked_at_so_that_a_step_can_be_captured(declared: Autoencoder):
    """Fake tensors have shapes but no numbers: a look at one raises."""
    rng = torch.Generator().manual_seed(0)
    with FakeTensorMode():
        network, image = declared.build(), torch.zeros(8, 3, 28, 28)
        Autoencoding()(network, image, image[:, 0, 0], generator=rng).backward()
        with pytest.raises(RuntimeError):
            network.summary.weight.grad.sum().item()


@pytest.mark.parametrize(
    ("name", "value"), [("kl", -1.0), ("commitment", -1.0), ("revive_after", -1)]
)
def test_weights_and_patience_are_not_negative(name: str, value: float):
    with pytest.raises(ValueError, match=f"{name} is a number from 0 up; got -1"):
        Autoencoding(**{name: value})


def test_a_codebook_larger_than_its_data_is_refused():
    network, rng = replace(SMALL, codes=50).build(), torch.Generator()
    with pytest.raises(ValueError, match="50 codes for the 49 latents of a batch; use fewer codes"):
        Autoencoding()(network, noise(1, 3, 28, 28), torch.zeros(1), generator=rng)


class Wrapped(nn.Module):
    """What several processes see of a network."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *question: Tensor) -> Coded:
        return self.module(*question)


def test_several_processes_train_kl_latents_but_not_codes():
    image, network = next(batches(4))[0], SMALL_KL.build()
    alone, wrapped = (
        Autoencoding()(each, image, image, generator=torch.Generator().manual_seed(0))
        for each in (network, Wrapped(network))
    )
    assert torch.equal(alone, wrapped)
    with pytest.raises(ValueError, match="codes are trained by one process"):
        Autoencoding()(Wrapped(SMALL.build()), image, image, generator=torch.Generator())


class Learned(NamedTuple):
    """Weights after some steps, and images that were not among those learned from."""

    weights: Weights
    image: Tensor

    @property
    def networks(self) -> list[nn.Module]:
        return [self.weights.denoiser, self.weights.average.module]

    def error(self, network: nn.Module) -> float:
        with torch.no_grad():
            return (network(self.image).image - self.image).square().mean().item()


@pytest.fixture(scope="module", params=[256, None], ids=["codes", "kl"])
def learned(request) -> Learned:
    weights = weights_of(Autoencoder(width=16, codes=request.param))
    step = step_of(weights, Autoencoding(revive_after=10))
    for _ in train(step, batches(), lambda _: 3e-3, range(1, 151)):
        pass
    return Learned(weights, next(batches(64, seed=5))[0])


def test_a_short_training_lowers_the_error_a_lot(learned: Learned):
    network = learned.weights.denoiser
    before = learned.error(weights_of(network.of).denoiser)
    # A network that is blind to colours, as all are for the first steps, stays at 0.06.
    assert before > 0.5
    assert learned.error(network) < 0.04


def test_the_average_is_as_good_as_what_it_averages(learned: Learned):
    """Its codes too: a run averages nothing but parameters."""
    trained, averaged = map(learned.error, learned.networks)
    assert averaged < 1.5 * trained


def test_after_a_short_training_codes_or_channels_are_in_use(learned: Learned):
    for network in learned.networks:
        with torch.no_grad():
            coded = network(learned.image)
        if coded.ids is None:
            assert latent_use(coded.latent, coded.logvar)[1] is None
            continue
        found, alarm = codebook_use(coded.ids, 256)
        assert found["codes_used"].value > 0.4
        assert alarm is None


@each_kind
def test_a_run_goes_on_from_its_checkpoint_as_if_never_stopped(declared: Autoencoder):
    """Codes, the counts of their use and the optimizer's memory of them are all kept."""
    weights, objective = weights_of(declared), Autoencoding(revive_after=2)
    step = step_of(weights, objective)
    images = [image for image, _ in (next(batches(16, seed)) for seed in range(8))]
    for image in images[:4]:
        step(image, torch.zeros(16))
    kept = packed(weights, {"noise": step.generator})
    expected = [step(image, torch.zeros(16)) for image in images[4:]]
    other = weights_of(declared, seed=9)
    again = step_of(other, objective)
    unpack(kept, other, {"noise": again.generator})
    again.set_rate(3e-3)
    assert torch.equal(
        torch.stack([again(image, torch.zeros(16)) for image in images[4:]]), torch.stack(expected)
    )
