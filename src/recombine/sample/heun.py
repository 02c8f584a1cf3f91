"""From noise to image: follow a denoiser down the noise levels, by one of two solvers.

All noise is a hash of a sample's own seed: a sample does not depend on which others it is drawn
with, nor on the device.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from math import log, prod
from typing import Any, TypeAlias

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from recombine.denoiser import Denoiser, check_answer, noise
from recombine.draw import bits
from recombine.sample.guidance import Guidance, SummedScores
from recombine.spelling import LATER

_STREAM = 0x5A3B1E
"""Keeps the noise of samples apart from the draws that place objects."""


Progress: TypeAlias = Callable[[float, int], None]
"""Called after each step with how many images' worth of steps are taken, and of how many images."""


def unwatched(drawn: float, total: int) -> None:
    """Show no progress."""
    del drawn, total


Made: TypeAlias = dict[str, Tensor]
Keep: TypeAlias = Callable[[Sequence[Tensor], Callable[[], Made]], Made]
"""Called with what a part of some work depends on, and with the work: returns what it makes."""


def anew(of: Sequence[Tensor], work: Callable[[], Made]) -> Made:
    """Do the work and keep nothing."""
    del of
    return work()


@dataclass(frozen=True)
class SeededGenerator:
    """Draws at most `batch` images at a time, each from a seed of its own: a Generator.

    `descent` maps conditions and seeds to the states after each of so many `steps`.
    """

    descent: Callable[[Tensor, Tensor], Iterator[Tensor]]
    steps: int
    batch: int
    watch: Progress
    keep: Keep = anew

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"a batch holds at least 1 image; got {self.batch}")

    def __call__(
        self, condition: Shaped[Tensor, " batch *condition"], generator: torch.Generator
    ) -> Shaped[Tensor, " batch *image"]:
        """Draw one image per row of the condition, on its device."""
        device = generator.device
        seeds = torch.randint(1 << 62, (len(condition),), generator=generator, device=device)
        return self.seeded(condition, seeds.to(condition.device))

    def seeded(
        self, condition: Shaped[Tensor, " batch *condition"], seeds: Int[Tensor, " batch"]
    ) -> Shaped[Tensor, " batch *image"]:
        """Draw the image of each seed; which of them share a batch does not matter."""
        if len(seeds) != len(condition):
            raise ValueError(f"{len(condition)} conditions need as many seeds; got {len(seeds)}")
        parts = []
        for first in range(0, max(len(seeds), 1), self.batch):
            of = condition[first : first + self.batch], seeds[first : first + self.batch]
            made = self.keep(of, partial(self._drawn, *of, first, len(seeds)))
            parts.append(made["images"])
        return torch.cat(parts)

    def _drawn(self, condition: Tensor, seeds: Tensor, first: int, total: int) -> Made:
        """Draw one batch, whose first image has this number."""
        for step, state in enumerate(self.descent(condition, seeds), start=1):
            last = state
            self.watch(first + step / self.steps * len(state), total)
        return {"images": last}


Slope: TypeAlias = Callable[[Tensor, float], tuple[Tensor, Tensor]]
"""Maps x and its noise level to the denoised image and dx / dsigma: one evaluation of a denoiser.
"""
Solver: TypeAlias = Callable[[Slope, Tensor, list[float]], Iterator[tuple[Tensor, Tensor]]]
"""Yields x after each step between falling levels, and the denoised image at the step's start."""


def heun(slope: Slope, x: Tensor, levels: list[float]) -> Iterator[tuple[Tensor, Tensor]]:
    """Take the mean of the slopes at both ends of a step: two evaluations (Karras et al. 2022)."""
    for here, there in pairwise(levels):
        denoised, now = slope(x, here)
        ahead = x + (there - here) * now
        # Without noise the slope is undefined, so the last step is Euler's.
        if there > 0:
            ahead = x + (there - here) * (now + slope(ahead, there)[1]) / 2
        x = ahead
        yield x, denoised


def multistep(slope: Slope, x: Tensor, levels: list[float]) -> Iterator[tuple[Tensor, Tensor]]:
    """Extrapolate the denoised image from the step before: one evaluation a step.

    DPM-Solver++(2M) of Lu et al. 2022 (arXiv 2211.01095, algorithm 2), where alpha = 1 and
    lambda = -log sigma.
    """
    before: tuple[Tensor, float] | None = None
    for here, there in pairwise(levels):
        denoised, _ = slope(x, here)
        followed = denoised
        # The first step has nothing to extrapolate from; the last one ends in the denoised image.
        if before is not None and there > 0:
            last, width = before
            followed = denoised + log(here / there) / (2 * width) * (denoised - last)
        if there > 0:
            before = denoised, log(here / there)
        x = followed + there / here * (x - followed)
        yield x, denoised


@dataclass(frozen=True)
class Sampler:
    """How to descend; levels are even in sigma^(1/bend), as in Karras et al. 2022.

    With `guidance` the condition is stronger than in training, or its factors act one at a time.
    """

    steps: int = 32
    highest: float = 80.0
    lowest: float = 0.002
    bend: float = 7.0
    guidance: Guidance | SummedScores | None = None
    solver: Solver = field(default=heun, metadata={LATER: True})

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"a sampler takes at least 1 step; got {self.steps}")
        if not 0 < self.lowest < self.highest < float("inf"):
            raise ValueError(
                f"noise levels fall from a finite highest to a positive lowest; "
                f"got {self.highest} and {self.lowest}"
            )
        if not self.bend > 0:
            raise ValueError(f"bend is positive; got {self.bend}")

    def generator(
        self,
        denoiser: Callable[..., Any],
        shape: tuple[int, ...],
        batch: int = 256,
        watch: Progress = unwatched,
    ) -> SeededGenerator:
        """Return what draws images of this shape, in the dtype of a float condition."""

        def descent(condition: Tensor, seeds: Tensor) -> Iterator[Tensor]:
            dtype = condition.dtype if condition.is_floating_point() else torch.float32
            start = seeded_noise(seeds, shape, dtype=dtype)
            return (moment.x for moment in trajectory(denoiser, start, condition, self))

        return SeededGenerator(descent, self.steps, batch, watch)

    @property
    def evaluations(self) -> int:
        """How often the denoiser is called for an image."""
        return 2 * self.steps - 1 if self.solver is heun else self.steps

    def levels(self) -> Float[Tensor, " level"]:
        """Return `steps` falling noise levels, then zero, in double precision."""
        ends = self.highest ** (1 / self.bend), self.lowest ** (1 / self.bend)
        roots = torch.linspace(*ends, self.steps, dtype=torch.float64)
        return torch.cat([roots**self.bend, roots.new_zeros(1)])


HEUN = Sampler()
"""The 32 steps of EDM2."""
QUICK_STEPS, QUICK_LOWEST = 7, 0.02
"""The steps of the sampler for a CPU, and the noise that its last step removes at once."""


def quick(sampler: Sampler) -> Sampler:
    """Return the sampler for a CPU: it draws what 18 steps of Heun's method draw.

    benchmarks/sampler.py says how it was chosen, docs/speed.md what came out.
    """
    steps, lowest = min(sampler.steps, QUICK_STEPS), max(sampler.lowest, QUICK_LOWEST)
    return replace(sampler, steps=steps, lowest=lowest)


@dataclass(frozen=True)
class Moment:
    """The state after a step: x, and the denoised image that the step followed."""

    step: int
    sigma: float
    x: Float[Tensor, " batch *image"]
    denoised: Float[Tensor, " batch *image"]


def seeded_noise(
    seeds: Int[Tensor, " batch"],
    shape: tuple[int, ...],
    *,
    step: int = 0,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, " batch *image"]:
    """Return unit noise that depends on seed, step and place only; step 0 is the start."""
    pixels = prod(shape)
    place = torch.arange(pixels, device=seeds.device) + step * pixels
    # 52 bits and a half: never 0 or 1, whose quantiles are infinite.
    hashed = (bits(_STREAM, seeds.long(), place) >> 12) & ((1 << 52) - 1)
    uniform = (hashed.double() + 0.5) * 2.0**-52
    # In double precision, so that the devices' last digits disappear in rounding.
    return torch.special.ndtri(uniform).to(dtype).reshape(len(seeds), *shape)


def trajectory(
    denoiser: Denoiser,
    start: Float[Tensor, " batch *image"],
    condition: Shaped[Tensor, " batch *condition"],
    sampler: Sampler = HEUN,
) -> Iterator[Moment]:
    """Yield after each step on the way from unit noise `start` to a sample."""
    if sampler.guidance is not None:
        denoiser = sampler.guidance(denoiser)
    levels = sampler.levels().tolist()

    # Gradients are off here and not below: a generator would switch them off for its reader.
    @torch.no_grad()
    def slope(x: Tensor, level: float) -> tuple[Tensor, Tensor]:
        sigma = x.new_full((len(x),), level)
        denoised = denoiser(x, sigma, condition)
        check_answer(denoised, x)
        return denoised, noise(denoised, x, sigma)

    steps = sampler.solver(slope, start.detach() * levels[0], levels)
    for step, (x, denoised) in enumerate(steps, start=1):
        yield Moment(step, levels[step], x, denoised)
