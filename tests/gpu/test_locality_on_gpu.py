"""Influence on a GPU: the numbers of the CPU, in the memory that was allowed."""

import pytest
import torch

from recombine import run
from recombine.condition import Conditioner, Grid
from recombine.denoiser import Preconditioned
from recombine.measure.ablation import Locality
from recombine.measure.influence import object_influence, pixel_influence
from recombine.models.unet import STUDY_UNET
from recombine.scene import compositions
from recombine.views import Centred
from recombine.worlds.clevr import Clevr
from subjects import Model, training

SMALL = tuple(which for which in compositions(Clevr.factors) if which[-1] == "small")
WORLD = Clevr(size=64, objects=(1, 3), among=SMALL)
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture
def denoiser() -> torch.nn.Module:
    network = Preconditioned(STUDY_UNET.build()).eval().requires_grad_(False)
    for parameter in network.parameters():
        parameter.add_(0.02 * torch.randn_like(parameter))
    return network


def call(device: str) -> tuple[torch.Tensor, ...]:
    x = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    return x.to(device), torch.tensor([0.5, 10.0], device=device), torch.ones(2, 256, device=device)


def test_influence_is_that_of_the_cpu(denoiser: torch.nn.Module):
    pixels, without = torch.tensor([[3, 60], [30, 31]]), torch.zeros(1, 2, 256)
    here = (
        pixel_influence(denoiser, *call("cpu"), pixels),
        object_influence(denoiser, *call("cpu"), without),
    )
    denoiser.cuda()
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        there = (
            pixel_influence(denoiser, *call("cuda"), pixels.cuda()),
            object_influence(denoiser, *call("cuda"), without.cuda()),
        )
    for ours, theirs in zip(here, there, strict=True):
        torch.testing.assert_close(ours, theirs.cpu(), atol=1e-4 * float(ours.max()), rtol=1e-3)


def test_memory_follows_its_argument(denoiser: torch.nn.Module):
    denoiser.cuda()
    x, sigma, condition = (each[:1] for each in call("cuda"))
    pixels = torch.cartesian_prod(torch.arange(16), torch.arange(16)).cuda()

    def peak(at_once: int) -> int:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        pixel_influence(denoiser, x, sigma, condition, pixels, at_once)
        return torch.cuda.max_memory_allocated() - before

    peak(16)
    small, large = peak(16), peak(128)
    assert small < large <= 8.5 * small


def test_locality_is_measured_without_mixed_precision(denoiser: torch.nn.Module):
    prepared = run.machine(torch.device("cuda"))
    denoiser.cuda()
    plain = denoiser.forward
    averaged = prepared.prepare_model(denoiser, evaluation_mode=True)
    parts = training(world=WORLD, conditioner=Conditioner(encode=Grid(16)), view=Centred())
    subject = Model(parts, denoiser=averaged, precise=plain, device=torch.device("cuda"))
    seen: list[torch.dtype] = []
    denoiser.network.inlet.register_forward_hook(lambda *hooked: seen.append(hooked[2].dtype))
    Locality(samples=2, lattice=1, views=1)(subject, torch.Generator("cuda").manual_seed(0))
    assert set(seen) == {torch.float32}
