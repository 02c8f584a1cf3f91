"""Images sampled per second, beside diffusers' own loop at the same number of evaluations."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from recombine import run
from recombine.bench import peer
from recombine.bench.timing import over, speed
from recombine.denoiser import Denoiser, Preconditioned
from recombine.measurement import Measurement
from recombine.models.unet import STUDY_UNET
from recombine.run.devices import channels_last, shortened
from recombine.sample.heun import Sampler, quick

GPU_STEPS, CPU_STEPS = 8, 2
"""Enough to time; the time of a step does not depend on their number."""


def measured(device: torch.device, seconds: float) -> dict[str, Measurement]:
    """Measure the study U-Net, and ours and that of diffusers of about the same size."""
    batch = 256 if device.type == "cuda" else 2
    found = {
        "images_per_second@study_unet": speed(
            ours(STUDY_UNET.build(), 256, batch, device), batch, seconds
        )
    }
    if device.type == "cpu":
        found |= beside_declared(device, seconds)
    if peer.available():
        matched = speed(ours(peer.OURS.build(), peer.NUMBERS, batch, device), batch, seconds)
        theirs = speed(diffusers(batch, device), batch, seconds)
        found["images_per_second@matched_unet"] = matched
        found["images_per_second@diffusers"] = theirs
        found["ratio@diffusers"] = over(matched, theirs)
    return found


def beside_declared(device: torch.device, seconds: float) -> dict[str, Measurement]:
    """Measure the quick sampler beside the one that studies declare, and once more beside itself.

    The second ratio says how far the first may be chance.
    """
    declared, batch = Sampler(steps=18), 4
    denoiser = ready(Preconditioned(STUDY_UNET.build()), device)
    condition, seeds = torch.rand(batch, 256), torch.arange(batch)

    def rate(sampler: Sampler, denoiser: Denoiser) -> Measurement:
        draw = sampler.generator(denoiser, (3, 64, 64), batch)
        return speed(partial(draw.seeded, condition, seeds), batch, seconds)

    whole = rate(declared, denoiser)
    first, again = (rate(quick(declared), shortened(denoiser)) for _ in range(2))
    return {
        "images_per_second@declared": whole,
        "images_per_second@quick": first,
        "ratio@declared": over(first, whole),
        "ratio@itself": over(again, first),
    }


def ours(raw: nn.Module, numbers: int, batch: int, device: torch.device) -> Callable[[], object]:
    """Return our Heun sampler at work."""
    denoiser = ready(Preconditioned(raw), device)
    generator = Sampler(steps=steps_on(device)).generator(denoiser, (3, 64, 64), batch)
    condition, seeds = torch.rand(batch, numbers, device=device), torch.arange(batch, device=device)
    return partial(generator.seeded, condition, seeds)


def diffusers(batch: int, device: torch.device) -> Callable[[], object]:
    """Return the loop of a diffusers pipeline with Heun's scheduler: model, scheduler, model."""
    from diffusers.schedulers.scheduling_heun_discrete import HeunDiscreteScheduler

    network = ready(peer.Peer(), device)
    condition = torch.zeros(batch, peer.NUMBERS, device=device)

    @torch.no_grad()
    def work() -> Tensor:
        scheduler = HeunDiscreteScheduler(use_karras_sigmas=True)
        scheduler.set_timesteps(steps_on(device), device=device)
        x = torch.randn(batch, 3, 64, 64, device=device) * scheduler.init_noise_sigma
        for time in scheduler.timesteps:
            output = network(scheduler.scale_model_input(x, time), time.expand(batch), condition)
            x = scheduler.step(output, time, x).prev_sample
        return x

    return work


def steps_on(device: torch.device) -> int:
    """Return how many steps are timed."""
    return GPU_STEPS if device.type == "cuda" else CPU_STEPS


def ready(network: nn.Module, device: torch.device) -> nn.Module:
    """Return a network in the form for sampling: compiled and in bf16 on a GPU."""
    network = network.to(device).eval().requires_grad_(False)
    if device.type == "cuda":
        channels_last(network)
        network.compile()
    return run.machine(device).prepare_model(network, evaluation_mode=True)
