"""Images trained on per second, beside diffusers and the card's own matrix rate."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from recombine.bench import peer
from recombine.bench.timing import known, over, speed
from recombine.denoiser import Preconditioned
from recombine.graph import GraphedStep
from recombine.measurement import Measurement
from recombine.models.dit import STUDY_DIT
from recombine.models.unet import LARGE_UNET, STUDY_UNET
from recombine.objectives.diffusion import Diffusion
from recombine.run.devices import channels_last, machine, own_stream
from recombine.train import Step, Weights

AT_ONCE = 3
"""Transformers that are trained beside each other."""
ROUNDS = 10
"""Steps of each between two looks at the clock."""
TRAINING_FLOPS = 3
"""Times a forward pass: backwards costs twice as much again."""


def measured(device: torch.device, seconds: float) -> dict[str, Measurement]:
    """Measure study and large U-Net, ours and that of diffusers, and the graphed transformer."""
    on_gpu = device.type == "cuda"
    rate = matrix_rate(device, seconds)
    found = {"matrix_tflops": rate.mapped(lambda each: each * 1e-12)}

    def add(name: str, raw: nn.Module, size: int, numbers: int, batch: int) -> Measurement:
        cost = flops(raw, size, numbers)
        images = speed(training(raw, size, numbers, batch, device), batch, seconds)
        use = flop_use(images, cost, rate)
        weights = sum(each.numel() for each in raw.parameters())
        found[f"images_per_second@{name}"], found[f"flop_use@{name}"] = images, use
        found[f"gflops@{name}"], found[f"parameters@{name}"] = known(cost / 1e9), known(weights)
        return images

    add("study_unet", STUDY_UNET.build(), 64, 256, 1024 if on_gpu else 8)
    if on_gpu:
        add("large_unet", LARGE_UNET.build(), 64, 256, 512)
    if peer.available():
        ours = add("matched_unet", peer.OURS.build(), 64, peer.NUMBERS, 512 if on_gpu else 2)
        theirs = add("diffusers", peer.Peer(), 64, peer.NUMBERS, 512 if on_gpu else 2)
        found["ratio@diffusers"] = over(ours, theirs)
    many = AT_ONCE if on_gpu else 1
    steps = [training(STUDY_DIT.build(), 28, 4, 256 if on_gpu else 16, device) for _ in range(many)]
    # A run, too, seldom waits for its steps. Making batches and views is not counted.
    rounds = ROUNDS if on_gpu else 1
    alone = speed(in_turn(steps[:1], rounds, device), rounds, seconds)
    found["steps_per_second@study_dit"] = alone
    if on_gpu:
        at_once = speed(in_turn(steps, rounds, device), rounds * many, seconds)
        found["steps_per_second@dits_at_once"] = at_once
        found["ratio@one_dit"] = over(at_once, alone)
    return found


def in_turn(
    steps: Sequence[Callable[[], object]], rounds: int, device: torch.device
) -> Callable[[], None]:
    """Return a function that takes each step so many times, as `run --together` does."""
    own = [own_stream(device, len(steps)) for _ in steps]

    def take() -> None:
        for _ in range(rounds):
            for step, here in zip(steps, own, strict=True):
                with here:
                    step()

    return take


def training(
    raw: nn.Module, size: int, numbers: int, batch: int, device: torch.device
) -> Callable[[], object]:
    """Return the step that `recombine run` takes: objective, optimizer, clipping and average."""
    accelerator = machine(device)
    denoiser = Preconditioned(raw).to(device)
    if device.type == "cuda":
        channels_last(denoiser)
        denoiser.compile()
    noise = torch.Generator(device).manual_seed(0)
    weights = Weights.of(denoiser, ema=0.999)
    step = Step(weights, Diffusion(), 1.0, noise, accelerator.prepare_model(denoiser))
    step.set_rate(1e-4)
    image = torch.randn(batch, 3, size, size, generator=noise, device=device) / 2
    condition = torch.rand(batch, numbers, generator=noise, device=device)
    if device.type != "cuda":
        return partial(step, image, condition)
    graphed = GraphedStep(step)
    image = image.contiguous(memory_format=torch.channels_last)
    graphed(image, condition)
    graphed(image, condition)
    return partial(graphed, image, condition)


def flop_use(images: Measurement, cost: int, rate: Measurement) -> Measurement:
    """Return the share of the matrix rate that training on so many images a second takes."""
    return images.mapped(lambda each: each * (TRAINING_FLOPS * cost / rate.value))


def flops(raw: nn.Module, size: int, numbers: int) -> int:
    """Return the floating-point operations of one image's forward pass."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        raw(torch.zeros(1, 3, size, size), torch.zeros(1), torch.zeros(1, numbers))
    return int(counter.get_total_flops())


def matrix_rate(device: torch.device, seconds: float) -> Measurement:
    """Return the operations per second of a large matrix product: bf16 on a GPU."""
    side, kind = (8192, torch.bfloat16) if device.type == "cuda" else (1024, torch.float32)
    a, b = torch.randn(2, side, side, device=device).to(kind)
    # Several per round, as one is over before the clock is read.
    many = 20 if device.type == "cuda" else 4

    def products() -> None:
        for _ in range(many):
            torch.mm(a, b)

    return speed(products, 2 * side**3 * many, min(seconds, 1.0))
