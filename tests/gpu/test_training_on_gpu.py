"""A step replayed as a graph is the step."""

import pytest
import torch
from torch import Tensor

from recombine.denoiser import Preconditioned
from recombine.models.dit import DiT
from recombine.models.entry import Vector
from recombine.objectives.diffusion import Diffusion
from recombine.train import Graphed, Step, Weights, train

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")

NETWORK = DiT(3, 28, patch=4, entry=Vector(4), width=96, layers=3, heads=3)


def batches():
    generator = torch.Generator("cuda").manual_seed(1)
    while True:
        image = torch.randn(32, 3, 28, 28, generator=generator, device="cuda") / 2
        yield image, torch.rand(32, 4, generator=generator, device="cuda")


def losses(graphed: bool, steps: int = 30) -> tuple[list[float], Tensor]:
    torch.manual_seed(0)
    weights = Weights.of(Preconditioned(NETWORK.build()).cuda(), ema=0.9)
    noise = torch.Generator("cuda").manual_seed(2)
    step = Step(weights, Diffusion(), 1.0, noise)
    taken = train(
        Graphed(step) if graphed else step, batches(), lambda at: 1e-3 / at, range(1, steps + 1)
    )
    found = [each.loss.item() for each in taken]
    last = torch.cat([p.flatten() for p in weights.average.parameters()])
    return found, last


def test_a_graph_replays_the_very_step():
    """Same noise, same rates, same losses, same averaged weights."""
    plain, graphed = losses(graphed=False), losses(graphed=True)
    assert graphed[0] == pytest.approx(plain[0], rel=1e-5)
    torch.testing.assert_close(graphed[1], plain[1], atol=1e-5, rtol=1e-4)
    assert len(set(graphed[0])) == len(graphed[0])
