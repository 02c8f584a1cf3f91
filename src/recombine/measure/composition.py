"""Which compositions does a generator draw, and how does that change in training?

A sample counts when a reader reads every factor of the requested composition (Farid et al. 2025).
Compositions of a level are pooled: each is sampled equally often. Level 0 was seen in training,
level 2 differs from everything seen in two factors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import fsum
from statistics import fmean
from typing import ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from recombine.measure.behaviour import SpreadsTargets
from recombine.measure.distance import distances
from recombine.measure.nearest import nearest
from recombine.measure.renders import SingleObjectWorld, fresh, means, single_object_world
from recombine.measure.subject import Curve, Findings, Subject, joined
from recombine.measurement import Measurement, Number, averaged
from recombine.scene import Concepts, concept_rows
from recombine.split import Split
from recombine.worlds.shapes2d import BINARY

TRAINED = 0.8
"""A model counts as trained from this accuracy on seen compositions on."""
LATE = 10
"""The late mean is over so many last points of a curve, the end of training included."""

AGAIN = 100_000
"""The number of the first true render that others are compared with."""
COMPOSITIONS, OF_EACH = 16, 16
"""The spread of JEPA's targets is over so many seen compositions, and at most so many images of
each."""
OTHERS = ("_linear", "_nearest", "_agreed")
"""Readers beside the first; the last is right where all are."""


@dataclass(frozen=True)
class Composition:
    """Sample every composition so many times, and read the samples.

    The condition is the mean of a composition: its values without jitter. Beside the model stand
    true renders (`ceiling`) and other true renders through its view and back (`view`): what a
    tokenizer loses of them. Distances are from true renders of the same composition, which vary as
    the world does: a model conditioned on labels should vary as much.

    Beside the first `reader` may read a `linear` one, as in the paper, and the nearest of so many
    true `renders` of each composition (measure/nearest.py); `agreed` is what all of them read. Of
    each level so many compositions are sampled at `most`.
    """

    split: Split = BINARY
    samples: int = 64
    reader: str = "probe"
    linear: str | None = None
    renders: int = 0
    most: int | None = None

    name: ClassVar[str] = "composition"

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise ValueError(f"composition needs 2 samples or more of each; got {self.samples}")
        check_levels(self.split)

    @property
    def sampled(self) -> tuple[Concepts, ...]:
        """The compositions that are sampled, in the order of the grid."""
        chosen = {which for level in self.split.levels for which in self._at(level)}
        return tuple(which for which in self.split.compositions if which in chosen)

    def _at(self, level: int) -> tuple[Concepts, ...]:
        return self.split.at(level)[: self.most]

    def __call__(self, subject: Subject, generator: torch.Generator) -> Findings:
        """Sample, read and compare; true renders are read the same way."""
        training, which = subject.training, self.sampled
        world = single_object_world(self.name, training, self.split)
        condition = conditions(self, subject, which, self.samples)
        drawn = subject.images(training.conditioner.for_sampling(condition, generator), generator)
        drawn = drawn.clamp(0, 1)
        true = self._fresh(world, subject.device)
        # Others than the true ones: distances are between sets that are drawn independently.
        others = self._fresh(world, subject.device, first=self.samples)
        through = training.view.back(training.view(others)).clamp(0, 1)
        features = subject.reader(self.reader).features
        found = {
            **self.read(drawn, subject, ""),
            **self.read(true, subject, "_ceiling"),
            **self.read(through, subject, "_view"),
            **self.apart(features(through), features(true), "_view"),
            **self.apart(features(drawn), features(true), ""),
        }
        parts = zip(which, drawn.split(self.samples), strict=True)
        sheet = {"-".join(each): images[:8] for each, images in parts}
        shown = Findings(found, images=sheet if len(which) <= 8 else {})
        return joined([shown, targets_spread(self, subject)])

    def _fresh(self, world: SingleObjectWorld, device: torch.device, first: int = 0) -> Tensor:
        return torch.cat([fresh(world, each, self.samples, device, first) for each in self.sampled])

    def read(self, images: Tensor, subject: Subject, whose: str) -> dict[str, Measurement]:
        """Return what all readers read, and how far from true renders the images are."""
        which = self.sampled
        readings = {"": subject.reader(self.reader)(images)}
        found: dict[str, Measurement] = {}
        if self.linear is not None:
            readings["_linear"] = subject.reader(self.linear)(images)
        if self.renders:
            world = subject.training.world
            far = nearest(images, compared_with(world, which, self.renders, images.device))
            rows = concept_rows(self.split.factors, which).to(far.device)
            readings["_nearest"] = rows[far.argmin(1)]
            # Of each composition, to its own renders.
            own = far.unflatten(0, (len(which), -1)).diagonal(dim1=0, dim2=2).T
            for level in self.split.levels:
                # Their jitter is the same in all compositions: the mean over these, as in apart.
                mine = [own[which.index(each)].tolist() for each in self._at(level)]
                apart = averaged([Measurement.mean(each) for each in mine])
                found[f"render_distance{whose}@level{level}"] = apart
        if len(readings) > 1:
            readings["_agreed"] = agreed([*readings.values()])
        for who, rows in readings.items():
            by = dict(zip(which, rows.split(self.samples), strict=True))
            found |= accuracies(self.split, by, f"{who}{whose}")
        return found

    def apart(self, images: Tensor, true: Tensor, whose: str) -> dict[str, Measurement]:
        """Return how far images are from true renders in the reader's features, by level.

        The mean over compositions: pooled, they would not be drawn independently.
        """
        pairs = zip(images.split(self.samples), true.split(self.samples), strict=True)
        each = dict(zip(self.sampled, (distances(*pair) for pair in pairs), strict=True))
        found = {}
        for level in self.split.levels:
            here = [each[which] for which in self._at(level)]
            for name in here[0]:
                found[f"{name}{whose}@level{level}"] = averaged([far[name] for far in here])
        return found

    def over_training(self, curves: Mapping[str, Curve]) -> dict[str, Measurement]:
        """Sum up the accuracies at all milestones."""
        return over_training(curves, self.split.levels, OTHERS)

    def tiny(self) -> "Composition":
        """Return the same measurement with few samples of few compositions."""
        return replace(self, samples=2, renders=min(self.renders, 8), most=4)


def conditions(
    measure: Composition, subject: Subject, which: Sequence[Concepts], samples: int
) -> Tensor:
    """Return the condition of so many means of each composition."""
    world = single_object_world(measure.name, subject.training, measure.split)
    encode = subject.training.conditioner.encode
    return torch.cat([encode(means(world, each, samples, subject.device)) for each in which])


def targets_spread(measure: Composition, subject: Subject) -> Findings:
    """Return how far JEPA's targets spread over some seen images, and an alarm if they do not."""
    training, device = subject.training, subject.device
    if not isinstance(training.objective, SpreadsTargets):
        return Findings({})
    which = measure.split.at(0)[:COMPOSITIONS]
    count = min(OF_EACH, measure.samples)
    condition = conditions(measure, subject, which, count).to(device)
    image = torch.cat([fresh(training.world, each, count, device) for each in which])
    spreads = training.objective.target_spreads(subject.precise, training.view(image), condition)
    least = {
        "target_variance": min(each.variance for each in spreads.values()),
        "target_rank": min(each.rank for each in spreads.values()),
    }
    found = {name: Measurement(value, None, None, n=len(image)) for name, value in least.items()}
    alarms = (f"layer {at}: {each.alarm}" for at, each in spreads.items() if each.alarm)
    return Findings(found, alarms=tuple(alarms))


# Many renders, and the same at every milestone.
@cache
def compared_with(
    world: SingleObjectWorld, which: tuple[Concepts, ...], renders: int, device: torch.device
) -> Tensor:
    """Return other true renders of each composition than those that are read."""
    return torch.stack([fresh(world, each, renders, device, first=AGAIN) for each in which])


def check_levels(split: Split) -> None:
    """Raise unless something is held out, and every level up to the last has a composition."""
    empty = set(range(max(split.levels[-1], 1) + 1)) - set(split.levels)
    if empty:
        known = ", ".join(map(str, split.levels))
        raise ValueError(
            f"composition needs every level, but split {split.name} has nothing at level "
            f"{min(empty)}; its levels: {known}"
        )


def accuracies(
    split: Split, read: Mapping[Concepts, Int[Tensor, "sample factor"]], whose: str = ""
) -> dict[str, Measurement]:
    """Return how often what was read is the composition, by composition, level and factor.

    `whose` is added to every name: "_ceiling" for true renders.
    """
    if not read:
        raise ValueError("accuracy needs 1 composition or more; got none")
    right = {which: _right(split, which, rows) for which, rows in read.items()}
    found = {}
    for which, each in right.items():
        found[f"accuracy{whose}@{'-'.join(which)}"] = _rate(each.all(dim=1))
    for level in split.levels:
        mine = [right[which] for which in split.at(level) if which in right]
        if not mine:
            continue
        pooled = torch.cat(mine)
        found[f"accuracy{whose}@level{level}"] = _rate(pooled.all(dim=1))
        for factor, good in zip(split.factors, pooled.unbind(dim=1), strict=True):
            found[f"{factor.name}_right{whose}@level{level}"] = _rate(good)
    return found


def agreed(readings: Sequence[Int[Tensor, "sample factor"]]) -> Int[Tensor, "sample factor"]:
    """Return what all readers read of a factor, and -1, which is no concept, where they differ.

    Each reader has a weakness: a probe accepts blobs, the nearest render a faint speck.
    """
    same = torch.stack([each == readings[0] for each in readings]).all(dim=0)
    return readings[0].where(same, -1)


def _right(
    split: Split, which: Concepts, rows: Int[Tensor, "sample factor"]
) -> Bool[Tensor, "sample factor"]:
    if rows.dim() != 2 or rows.shape[1] != len(split.factors) or not len(rows):
        raise ValueError(
            f"{'-'.join(which)} is read as a row of {len(split.factors)} numbers per sample; "
            f"got the shape {tuple(rows.shape)}"
        )
    return rows == concept_rows(split.factors, (which,)).to(rows.device)


def _rate(good: Bool[Tensor, " sample"]) -> Measurement:
    return Measurement.rate(int(good.sum()), len(good))


def over_training(
    curves: Mapping[str, Curve], levels: Sequence[int], readers: Sequence[str] = ()
) -> dict[str, Measurement]:
    """Return numbers about the course of training at each level.

    `late` is the mean of the last points; it has no interval, as they are of one run and drawn with
    the same noise: its spread is that over seeds. `best` is the highest point, `area` the mean over
    steps, and `matched` the accuracy where the model first counts as trained (models of
    different speed compare there). Of other `readers` there is the late mean only.
    """
    found: dict[str, Measurement] = {}
    for whose in readers:
        for level in levels:
            if len(curve := curves.get(f"accuracy{whose}@level{level}", ())) >= 2:
                found[f"accuracy{whose}_late@level{level}"] = late_mean(curve)
    seen = curves.get("accuracy@level0", ())
    for level in levels:
        curve = curves.get(f"accuracy@level{level}", ())
        if len(curve) < 2:
            continue
        found[f"accuracy_late@level{level}"] = late_mean(curve)
        others = {"best": max(row[1] for row in curve), "area": area(curve)}
        if (step := first_at_least(seen, TRAINED)) is not None:
            others["matched"] = next(row[1] for row in curve if row[0] == step)
        for name, value in others.items():
            found[f"accuracy_{name}@level{level}"] = Measurement(value, None, None, n=len(curve))
    if (step := first_at_least(seen, TRAINED)) is not None:
        found["trained_at"] = Measurement(step, None, None, n=len(seen))
    return found


def late_mean(curve: Curve) -> Measurement:
    """Return the mean of the last points of a curve."""
    last = [row[1] for row in curve[-LATE:]]
    return Measurement(fmean(last), None, None, n=len(last))


def area(curve: Curve) -> float:
    """Return the mean of a curve over its steps, by trapezoids."""
    parts = [
        (right - left) * (before + after) / 2
        for (left, before, *_), (right, after, *_) in zip(curve, curve[1:], strict=False)
    ]
    return fsum(parts) / (curve[-1][0] - curve[0][0])


def first_at_least(curve: Curve, least: float) -> Number | None:
    """Return the first step with this value or more."""
    return next((row[0] for row in curve if row[1] >= least), None)
