"""Which compositions does a generator draw, and how does that change in training?

A sample counts when a reader reads every factor of the requested composition (Farid et al. 2025).
Compositions of a level are pooled: each is sampled equally often. Level 0 was seen in training,
level 2 differs from everything seen in two factors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from recombine.measure.renders import fresh, means, single_object_world
from recombine.measure.subject import Curve, Findings, Subject, joined
from recombine.measurement import Measurement
from recombine.reader import FactorReader
from recombine.scene import Concepts, concept_rows
from recombine.split import Split
from recombine.worlds.shapes2d import BINARY

LATE = 10
"""The late mean is over so many last points of a curve, the end of training included."""

COMPOSITIONS, OF_EACH = 16, 16
"""The spread of JEPA's targets is over so many seen compositions, and at most so many images of
each."""


@dataclass(frozen=True)
class Composition:
    """Sample every composition so many times, and read the samples.

    The condition is the mean of a composition: its values without jitter. Beside the model stand
    true renders (`ceiling`) and true renders through its view and back (`view`): what a tokenizer
    loses of them. Of each level so many compositions are sampled at `most`.
    """

    split: Split = BINARY
    samples: int = 64
    reader: str = "probe"
    most: int | None = None

    name: ClassVar[str] = "composition"

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise ValueError(f"composition needs 2 samples or more of each; got {self.samples}")
        levels = self.split.levels
        # Something is held out, and every level up to the last has a composition.
        if empty := set(range(max(levels[-1], 1) + 1)) - set(levels):
            raise ValueError(
                f"composition needs every level, but split {self.split.name} has nothing at level "
                f"{min(empty)}; its levels: {', '.join(map(str, levels))}"
            )

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
        read = self._reader(subject)
        condition = conditions(self, subject, which, self.samples)
        drawn = subject.images(training.conditioner.for_sampling(condition, generator), generator)
        drawn = drawn.clamp(0, 1)
        true, others = (
            torch.cat([fresh(world, each, self.samples, subject.device, first) for each in which])
            for first in (0, self.samples)
        )
        through = training.view.back(training.view(others)).clamp(0, 1)
        found: dict[str, Measurement] = {}
        for whose, images in (("", drawn), ("_ceiling", true), ("_view", through)):
            rows = read(images).split(self.samples)
            found |= accuracies(self.split, dict(zip(which, rows, strict=True)), whose)
        parts = zip(which, drawn.split(self.samples), strict=True)
        sheet = {"-".join(each): images[:8] for each, images in parts}
        shown = Findings(found, images=sheet if len(which) <= 8 else {})
        return joined([shown, targets_spread(self, subject)])

    def _reader(self, subject: Subject) -> FactorReader:
        """Return the reader; that it reads the factors of the split is seen before any sampling."""
        reader: FactorReader = subject.reader(self.reader)
        theirs = getattr(reader, "factors", self.split.factors)
        if theirs != self.split.factors:
            names = "; ".join(f"{each.name}: {', '.join(each.concepts)}" for each in theirs)
            raise ValueError(f"reader {self.reader} reads other factors than the split: {names}")
        return reader

    def over_training(self, curves: Mapping[str, Curve]) -> dict[str, Measurement]:
        """Return the mean of the last points of each level's accuracy over training.

        It has no interval: the points are of one run and drawn with the same noise. Its spread is
        that over seeds.
        """
        found = {}
        for level in self.split.levels:
            late = [row[1] for row in curves.get(f"accuracy@level{level}", ())[-LATE:]]
            if len(late) >= 2:
                found[f"accuracy_late@level{level}"] = Measurement(
                    fmean(late), None, None, len(late)
                )
        return found

    def tiny(self) -> "Composition":
        """Return the same measurement with few samples of few compositions."""
        return replace(self, samples=2, most=4)


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
    if not hasattr(training.objective, "target_spreads"):
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


def accuracies(
    split: Split, read: Mapping[Concepts, Int[Tensor, "sample factor"]], whose: str = ""
) -> dict[str, Measurement]:
    """Return how often what was read is the composition, by composition, level and factor.

    `whose` is added to every name: "_ceiling" for true renders.
    """
    right = {
        which: rows == concept_rows(split.factors, (which,)).to(rows.device)
        for which, rows in read.items()
    }
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


def _rate(good: Bool[Tensor, " sample"]) -> Measurement:
    return Measurement.rate(int(good.sum()), len(good))
