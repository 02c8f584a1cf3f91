"""On its way to a composition that it has not seen, does a model first pass by one that it has?

Samples of every composition are placed in concept space: how many are blue, how many are small. Of
the milestones together: how far the error rises, in which order concepts are learned, how speed
falls.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

import torch
from torch import Tensor

from recombine.measure.circles import (
    AXES,
    accuracy,
    concept_mse,
    coordinates,
    mean_scenes,
    probe_errors,
    read,
)
from recombine.measure.subject import Curve, Findings, Subject, inapplicable
from recombine.measure.trajectory import learned_at, rise, slow_down, speed
from recombine.measurement import Measurement, Number
from recombine.scene import compositions
from recombine.worlds.circles import CIRCLES, Circles

DETOUR = 0.05
"""A rise of the error by less is none."""
PLOTTED = 1331 / 20_000
"""The share of training after which the authors' curves begin."""
(HELD_OUT,) = (" ".join(which) for which in CIRCLES.held_out)


@dataclass(frozen=True)
class ConceptSpace:
    """Request each composition by its class means, and read where the samples are.

    Early samples are no circles and are left out of the coordinates; `circles` is the share of
    those that are. Numbers over training begin at the first milestone where a share of `enough`
    are; the rise is also given for the `other` shares, and from where the authors' curves begin
    (`plotted`).
    """

    samples: int = 256
    enough: float = 0.5
    other: tuple[float, ...] = (0.25, 0.9)

    name: ClassVar[str] = "concept_space"

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise ValueError(f"concept space is measured on 2 samples or more; got {self.samples}")

    def __call__(self, subject: Subject, generator: torch.Generator) -> Findings:
        """Sample, read, and read true renders the same way."""
        world, conditioner = subject.training.world, subject.training.conditioner
        if not isinstance(world, Circles):
            raise inapplicable(self.name, "worlds of circles", world)
        every = compositions(world.factors)
        scenes = [mean_scenes(world, which, self.samples, subject.device) for which in every]
        condition = torch.cat([conditioner(each, generator) for each in scenes])
        drawn = subject.images(condition, generator).clamp(0, 1).split(self.samples)
        found: dict[str, Measurement] = {}
        for which, images in zip(every, drawn, strict=True):
            name, sampled = " ".join(which), read(images, world)
            found |= coordinates(sampled, f"@{name}")
            found[f"accuracy@{name}"] = accuracy(sampled, which)
            if name == HELD_OUT:
                found["concept_mse"] = concept_mse(sampled)
        found |= ceilings(world, self.samples, subject.device)
        for factor, signal in zip(world.factors, signals(world), strict=True):
            found[f"{factor.name}_signal"] = self._one(signal)
        return Findings(found, images={"samples": torch.cat([each[:8] for each in drawn])})

    def tiny(self) -> "ConceptSpace":
        """Return the same measurement with few samples."""
        return replace(self, samples=4)

    def over_training(self, curves: Mapping[str, Curve]) -> dict[str, Measurement]:
        """Return what the milestones say together: rise, times and order of learning, speed."""
        circles = [row[1] for row in curves.get(f"circles@{HELD_OUT}", [])]
        first = first_of(circles, self.enough)
        if len(circles) - first < 2:
            return {}
        steps = torch.tensor([row[0] for row in curves["concept_mse"][first:]]).double()
        course = torch.stack([curve(curves[f"{axis}@{HELD_OUT}"], first) for axis in AXES], dim=1)
        error, highest = self._rises(curves, circles, first)
        lowest = zip(AXES, course.amin(dim=0).tolist(), strict=True)
        return {
            **error,
            **{f"{axis}_lowest": self._one(value) for axis, value in lowest},
            **self._learned(steps, curves, first),
            # After a detour: before it, speed falls as the course turns.
            **self._slowing(steps[highest:], speed(steps, course)[highest:]),
        }

    def _rises(
        self, curves: Mapping[str, Curve], circles: Sequence[Number], first: int
    ) -> tuple[dict[str, Measurement], int]:
        """Return how far the error rises, and the place at which a detour ends (0: none)."""
        rows = curves["concept_mse"]
        steps = [row[0] for row in rows]
        error = curve(rows, first)
        highest = rise(error)
        begins = {f"circles@{share:g}": first_of(circles, share) for share in self.other}
        begins["plotted"] = first_of(steps, PLOTTED * steps[-1])
        found = {
            "concept_mse_rise": self._one(highest.height),
            **{
                f"concept_mse_rise_{name}": self._one(rise(curve(rows, at)).height)
                for name, at in begins.items()
                if at < len(rows)
            },
            "concept_mse_highest": self._one(float(error.max())),
            "concept_mse_rise_begins": self._one(int(steps[first + highest.begin])),
            "concept_mse_rise_ends": self._one(int(steps[first + highest.end])),
        }
        return found, highest.end if highest.height >= DETOUR else 0

    def _one(self, value: Number) -> Measurement:
        """Return a number of one run; its spread is that over seeds."""
        return Measurement(value, None, None, n=self.samples)

    def _slowing(self, steps: Tensor, fast: Tensor) -> dict[str, Measurement]:
        """Return the rate of the slow-down per step, and the share of it that two laws explain."""
        fit = slow_down(steps, fast, least=0.5 / self.samples)
        if fit is None:
            return {}
        return {
            "slow_down_rate": fit.rate,
            "slow_down_explained": Measurement(fit.explained, None, None, fit.rate.n),
            "slow_down_explained_by_log": Measurement(fit.explained_by_log, None, None, fit.rate.n),
        }

    def _learned(
        self, steps: Tensor, curves: Mapping[str, Curve], first: int
    ) -> dict[str, Measurement]:
        """Return when each concept is learned, where it is new and where it is trained on."""
        found: dict[str, Measurement] = {}
        for place, names in (("", (HELD_OUT, HELD_OUT)), ("_seen", ("blue big", "red small"))):
            at = [
                learned_at(steps, curve(curves[f"{axis}@{name}"], first))
                for axis, name in zip(AXES, names, strict=True)
            ]
            for axis, step in zip(AXES, at, strict=True):
                if step is not None:
                    found[f"{axis}{place}_learned_at"] = self._one(step)
            blue, small = (float("inf") if step is None else step for step in at)
            if min(blue, small) < float("inf"):
                found[f"colour{place}_first"] = self._one((1 + (blue < small) - (small < blue)) / 2)
        return found


def curve(rows: Curve, begin: int) -> Tensor:
    """Return the values of a curve, without its steps, from one of its places on."""
    return torch.tensor([row[1] for row in rows[begin:]], dtype=torch.float64)


def first_of(shares: Sequence[Number], least: float) -> int:
    """Return the first place with this share or more, or the end."""
    return next((at for at, share in enumerate(shares) if share >= least), len(shares))


@cache
def ceilings(world: Circles, samples: int, device: torch.device) -> Mapping[str, Measurement]:
    """Return what is read of true renders, and the reader's errors: the same at every milestone."""
    found: dict[str, Measurement] = {}
    for which in compositions(world.factors):
        name, scenes = " ".join(which), mean_scenes(world, which, samples, device)
        true = read(world.image(scenes), world)
        found |= coordinates(true, f"_ceiling@{name}")
        if name == HELD_OUT:
            found["concept_mse_ceiling"] = concept_mse(true)
    return found | probe_errors(world, samples, device)


@cache
def signals(world: Circles, count: int = 64) -> tuple[float, ...]:
    """Return how much of an image a change of colour moves, and of size (root mean square)."""
    origin, blue, small = (
        world.image(mean_scenes(world, which, count, torch.device("cpu")))
        for which in (("red", "big"), ("blue", "big"), ("red", "small"))
    )
    return tuple(float((each - origin).square().mean().sqrt()) for each in (blue, small))
