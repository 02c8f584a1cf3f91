"""Steps of small trainings per second: many stacked, against the same ones one after another."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recombine.bench.timing import known, over, speed
from recombine.graph import GraphedStep
from recombine.measurement import Measurement
from recombine.models.dit import DiT
from recombine.models.entry import Vector
from recombine.models.heads import LogitHead
from recombine.models.masked import Masked
from recombine.objectives.diffusion import Diffusion
from recombine.objectives.masked import MaskedCrossEntropy
from recombine.run.devices import machine
from recombine.stacked import StackedStep
from recombine.train import OneStep, Step, Weights

RATE, CODES = 1e-3, 256


@dataclass(frozen=True)
class Small:
    """A network of 1.2 million weights on 49 tokens, its objective and the shape of a condition."""

    network: Any
    objective: Any
    condition: tuple[int, ...]

    def images(self, runs: int, batch: int, generator: torch.Generator) -> Tensor:
        """Draw what the network sees of images, a batch for each run."""
        draw: dict[str, Any] = {"generator": generator, "device": generator.device}
        if isinstance(self.network, Masked):
            return torch.randint(CODES, (runs, batch, 7, 7), **draw)
        return torch.randn((runs, batch, 8, 7, 7), **draw)


SMALL = {
    "dit": Small(DiT(8, 7, entry=Vector(21), width=92, heads=4), Diffusion(sigma_data=1.0), (3, 7)),
    "maskgit": Small(
        Masked(features=6, head=LogitHead(CODES), width=112), MaskedCrossEntropy(), (3, 7)
    ),
}


def measured(
    device: torch.device, seconds: float, runs: int | None = None, batch: int | None = None
) -> dict[str, Measurement]:
    """Measure 32 runs with batches of 64 on a GPU, 8 with batches of 8 on a CPU."""
    on_gpu = device.type == "cuda"
    runs, batch = runs or (32 if on_gpu else 8), batch or (64 if on_gpu else 8)
    found = {"runs": known(float(runs)), "batch": known(float(batch))}
    for name, small in SMALL.items():
        rng = torch.Generator(device).manual_seed(0)
        image = small.images(runs, batch, rng)
        condition = torch.rand((runs, batch, *small.condition), generator=rng, device=device)
        stacked, in_turn = both(small, image, condition, device)
        away = [stacked() - in_turn() for _ in range(3)]
        ours, theirs = (speed(work, runs, seconds) for work in (stacked, in_turn))
        found[f"run_steps_per_second@{name}_stacked"] = ours
        found[f"run_steps_per_second@{name}_one_by_one"] = theirs
        found[f"ratio@{name}"] = over(ours, theirs)
        found[f"largest_difference@{name}"] = known(float(torch.stack(away).abs().max()))
    return found


def both(
    small: Small, image: Tensor, condition: Tensor, device: torch.device
) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
    """Return a step of all runs stacked, and one after another: losses before the step."""
    compiled, runs = device.type == "cuda", len(image)
    whole = graphed(StackedStep(steps(small, runs, device), compiled))
    whole.set_rate([RATE] * runs)
    each = [graphed(step) for step in steps(small, runs, device, compiled)]
    for step in each:
        step.set_rate(RATE)

    def in_turn() -> Tensor:
        given = zip(each, image, condition, strict=True)
        return torch.stack([step(*batch) for step, *batch in given])

    return lambda: whole(image, condition), in_turn


def steps(small: Small, runs: int, device: torch.device, compiled: bool = False) -> list[Step]:
    """Return the steps of runs as `recombine run` takes them, with seeds of their own."""
    accelerator, found = machine(device), []
    for run in range(runs):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(run)
            network = small.objective.wrap(small.network.build()).to(device)
        weights = Weights.of(network, ema=0.999)
        if compiled:
            network.compile()
        noise = torch.Generator(device).manual_seed(run)
        called = accelerator.prepare_model(network)
        found.append(Step(weights, small.objective, 1.0, noise, called))
    return found


def graphed(step: OneStep) -> OneStep:
    """Return the step as a run takes it: on a GPU recorded as a graph."""
    return GraphedStep(step) if step.generators[0].device.type == "cuda" else step
