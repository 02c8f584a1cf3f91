"""The loop against a naive twin, and promises about what it leaves behind."""

import os
import time
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import pytest
import torch
from torch import nn

from recombine.denoiser import Preconditioned
from recombine.models.mlp import MLP
from recombine.objectives.diffusion import Diffusion
from recombine.share import SharedDraws
from recombine.train import Step, Weights, constant, cosine, train

CLIP, EMA = 0.05, 0.9


def network(told: int = 2) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Preconditioned(MLP(pixels=2, condition_width=told, width=8, layers=2).build())


def batches(size: int = 16):
    for number in count():
        rng = torch.Generator().manual_seed(number)
        yield torch.randn(size, 2, 1, 1, generator=rng), torch.randn(size, 2, generator=rng)


def step_of(weights: Weights, seed: int = 1, clip: float = CLIP) -> Step:
    return Step(weights, Diffusion(), clip, torch.Generator().manual_seed(seed))


def rate(step: int) -> float:
    return 0.01 / step


@pytest.mark.parametrize("weight_decay", [0.0, 3.0])
def test_the_loop_is_adam_with_clipped_gradients_and_a_moving_average(weight_decay: float):
    """Before a step each weight loses its learning rate's share of the decay, and Adam adds."""
    weights = Weights.of(network(), EMA, weight_decay)
    losses = [taken.loss for taken in train(step_of(weights), batches(), rate, range(1, 7))]

    twin = network()
    average = [each.detach().clone() for each in twin.parameters()]
    optimizer = torch.optim.Adam(twin.parameters(), lr=1.0)
    rng = torch.Generator().manual_seed(1)
    for index, (image, condition) in enumerate(islice(batches(), 6), start=1):
        loss = Diffusion()(twin, image, condition, generator=rng)
        gradients = torch.autograd.grad(loss, list(twin.parameters()))
        norm = torch.cat([each.flatten() for each in gradients]).norm()
        assert norm > CLIP
        for parameter, gradient in zip(twin.parameters(), gradients, strict=True):
            parameter.grad = gradient * CLIP / norm
        optimizer.param_groups[0]["lr"] = rate(index)
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter *= 1 - weight_decay * rate(index)
        optimizer.step()
        now = [each.detach().clone() for each in twin.parameters()]
        average = [EMA * a + (1 - EMA) * b for a, b in zip(average, now, strict=True)]
        torch.testing.assert_close(losses[index - 1], loss.detach())

    torch.testing.assert_close(list(weights.denoiser.parameters()), list(twin.parameters()))
    torch.testing.assert_close(list(weights.average.module.parameters()), average)
    assert weights.average.n_averaged == 6
    kept = [*losses, *weights.average.parameters()]
    assert not any(each.requires_grad for each in kept)
    assert not weights.average.module.training


def test_a_step_learns_from_what_its_view_makes_of_pictures():
    """The view's launches belong to the step, so that a graph holds them."""
    image, condition = next(batches())
    through, alone = Weights.of(network(), EMA), Weights.of(network(), EMA)
    seen = replace(step_of(through), view=lambda pictures: 2 * pictures - 1)(image, condition)
    torch.testing.assert_close(seen, step_of(alone)(2 * image - 1, condition))
    both = (list(each.denoiser.parameters()) for each in (through, alone))
    torch.testing.assert_close(*both)
    assert seen != step_of(Weights.of(network(), EMA))(image, condition)


def test_the_wrapped_denoiser_is_the_one_that_is_called():
    weights = Weights.of(network(), EMA)
    called = []
    weights.denoiser.register_forward_hook(lambda *_: called.append("inner"))
    outer = nn.Sequential(nn.Identity())
    outer.forward = lambda *words: (called.append("outer"), weights.denoiser(*words))[1]
    Step(weights, Diffusion(), CLIP, torch.Generator(), outer)(*next(batches()))
    assert called == ["outer", "inner"]


def test_the_loop_counts_from_its_first_step_and_takes_no_batch_too_many():
    given = batches()
    steps = train(step_of(Weights.of(network(), EMA)), given, rate, range(5, 8))
    assert [taken.index for taken in steps] == [5, 6, 7]
    assert torch.equal(next(given)[0], list(islice(batches(), 4))[3][0])


def test_schedules_fall_as_declared():
    assert constant(7, 10) == 1
    assert cosine(0, 10) == 1
    assert cosine(5, 10) == pytest.approx(0.5)
    assert cosine(10, 10) == pytest.approx(0)


@pytest.mark.parametrize(
    "draw",
    [
        lambda rows, rng: torch.randn((rows, 3), generator=rng),
        lambda rows, rng: torch.randn(torch.Size([rows]), generator=rng),
        lambda rows, rng: torch.rand(rows, generator=rng),
        lambda rows, rng: torch.rand(rows, 2, generator=rng),
        lambda rows, rng: torch.randint(5, (rows,), generator=rng),
        lambda rows, rng: torch.randint(2, 9, (rows, 2), generator=rng),
    ],
)
def test_processes_share_the_draw_of_one(draw):
    rng = torch.Generator().manual_seed(0)
    whole = [draw(6, rng), draw(6, rng)]
    for process in range(3):
        rng = torch.Generator().manual_seed(0)
        with SharedDraws(process, 3):
            parts = [draw(2, rng), draw(2, rng)]
        for one, part in zip(whole, parts, strict=True):
            assert torch.equal(part, one[process::3])


def test_a_draw_that_cannot_be_shared_says_so():
    with (
        pytest.raises(ValueError, match="share rand, randn, randint; got multinomial"),
        SharedDraws(0, 2),
    ):
        torch.multinomial(torch.ones(3), 1, generator=torch.Generator())


def test_memory_and_step_time_stay_flat_over_a_thousand_steps():
    statistics = Path("/proc/self/statm")
    if not statistics.exists():
        pytest.skip("resident memory is read from Linux's /proc")

    def resident() -> int:
        return int(statistics.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    weights = Weights.of(network(), EMA)
    given = batches()
    memory, seconds = [], []
    for first in range(1, 1200, 200):
        started = time.thread_time()
        for taken in train(step_of(weights), given, rate, range(first, first + 200)):
            assert taken.loss.numel() == 1
        seconds.append(time.thread_time() - started)
        memory.append(resident())
    assert memory[-1] - memory[0] < 4 << 20
    # The least of several, in time of this thread: a busy machine must not fail a test.
    assert min(seconds[3:]) < 2 * min(seconds[:3])


def test_a_network_for_points_names_a_condition_that_does_not_fit():
    with pytest.raises(ValueError, match="a condition has 2 numbers here; got 3"):
        network()(torch.zeros(1, 2, 1, 1), torch.ones(1), torch.zeros(1, 3))
    with pytest.raises(ValueError, match="at least 1"):
        MLP(width=0)


def test_a_network_for_points_depends_on_noise_level_and_condition():
    layers = network().network
    x, clock, condition = torch.ones(1, 2, 1, 1), torch.zeros(1), torch.zeros(1, 2)
    answer = layers(x, clock, condition)
    assert answer.shape == x.shape
    assert not torch.allclose(layers(x, clock + 0.5, condition), answer)
    assert not torch.allclose(layers(x, clock, condition + 1), answer)
