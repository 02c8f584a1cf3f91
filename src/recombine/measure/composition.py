"""Which compositions does a generator draw, and how does that change in training?

A sample counts when a reader takes it for a valid image and reads every factor of the requested
composition. Compositions of a group (`seen`, `dev`, `test`, `level1`, ...) are pooled: each is
sampled equally often. Levels are those of test compositions; level 0 is seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from recombine.measure.agreement import kappa, verdicts
from recombine.measure.fit import Fitted
from recombine.measure.renders import fresh, means, single_object_world
from recombine.measure.spread import spreads
from recombine.measure.subject import Curve, Findings, Subject, joined
from recombine.measurement import Measurement
from recombine.reader import FactorReader, Reading
from recombine.scene import Concepts, Factor, concept_rows
from recombine.split import Split
from recombine.worlds.shapes2d import BINARY

LATE = 10
"""The late mean is over so many last points of a curve, the end of training included."""
COMPOSITIONS, OF_EACH = 16, 16
"""The spread of JEPA's targets is over so many seen compositions, and at most so many images of
each."""
SHOWN = 32
"""Compositions on a sheet of samples."""
LIMITS = {"_strict": 0.5, "_lenient": 2.0}
"""With every limit of the reader at half and at double: a conclusion must survive both."""


@dataclass(frozen=True)
class Composition:
    """Sample every composition so many times, and read the samples.

    The condition is the mean of a composition: its values without jitter. Beside the model stand
    true renders (`ceiling`), true renders through its view and back (`view`), which is what a
    tokenizer loses of them, and the samples with conditions shuffled among them (`chance`). Of each
    group so many compositions are sampled at `most`; of each test composition so many samples are
    kept (`kept`) as the record read them. A `second` reader gives its opinion: Cohen's kappa of the
    two over all samples.
    """

    split: Split = BINARY
    samples: int = 64
    reader: str = "probe"
    most: int | None = None
    kept: int = 0
    second: str = ""

    name: ClassVar[str] = "composition"

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise ValueError(f"composition needs 2 samples or more of each; got {self.samples}")
        if not 0 <= self.kept <= self.samples:
            raise ValueError(f"kept samples are 0 to {self.samples} of each; got {self.kept}")
        if not self.split.test:
            raise ValueError(f"split {self.split.name} has no test composition; expected 1 or more")
        # Every level up to the last has a composition.
        levels = self.split.levels
        if empty := set(range(max(levels[-1], 1) + 1)) - set(levels):
            raise ValueError(
                f"composition needs every level, but split {self.split.name} has nothing at level "
                f"{min(empty)}; its levels: {', '.join(map(str, levels))}"
            )

    @property
    def groups(self) -> dict[str, tuple[Concepts, ...]]:
        """The compositions that are sampled, by the groups in which they are pooled."""
        split = self.split
        test = set(split.test)
        levels = {
            f"level{level}": tuple(w for w in split.at(level) if level == 0 or w in test)
            for level in split.levels
        }
        every = {"seen": split.at(0), "dev": split.dev, "test": split.test, **levels}
        return {name: group[: self.most] for name, group in every.items() if group}

    @property
    def sampled(self) -> tuple[Concepts, ...]:
        """The compositions that are sampled, in the order of the grid."""
        chosen = {which for group in self.groups.values() for which in group}
        return tuple(which for which in self.split.compositions if which in chosen)

    def __call__(self, subject: Subject, generator: torch.Generator) -> Findings:
        """Sample, read and compare; true renders are read the same way."""
        training, which = subject.training, self.sampled
        world = single_object_world(self.name, training, self.split)
        reader = self._reader(subject)
        condition = conditions(self, subject, which, self.samples)
        condition = training.conditioner.for_sampling(condition, generator)
        arrays: dict[str, Tensor] = {}
        if self.kept:
            stored = training.view.stored(subject.drawn(condition, generator))
            arrays = self._arrays(stored, training.view)
            drawn = training.view.back(training.view.restored(stored))
        else:
            drawn = subject.images(condition, generator)
        true, others = (
            torch.cat([fresh(world, each, self.samples, subject.device, first) for each in which])
            for first in (0, self.samples)
        )
        through = training.view.back(training.view(others))
        read = reader(drawn.float().clamp(0, 1))
        found = self._rates(read, "") | self._factors(read) | self._chance(read)
        ceiling = reader(true)
        found |= self._rates(ceiling, "_ceiling") | self._spreads(read, ceiling)
        found |= self._rates(reader(through.float().clamp(0, 1)), "_view")
        if self.second:
            other = subject.reader(self.second)(drawn.float().clamp(0, 1))
            found["kappa"] = kappa(verdicts(read), verdicts(other))
        first = dict(zip(which, drawn[:: self.samples].clamp(0, 1), strict=True))
        sheets = {
            name: torch.stack([first[each] for each in self.groups[name][:SHOWN]])
            for name in ("seen", "test")
        }
        return joined(
            [Findings(found, images=sheets, arrays=arrays), targets_spread(self, subject)]
        )

    def _reader(self, subject: Subject) -> FactorReader:
        """Return the reader; that it reads the factors of the split is seen before any sampling."""
        reader: FactorReader = subject.reader(self.reader)
        theirs = getattr(reader, "factors", self.split.factors)
        if theirs != self.split.factors:
            names = "; ".join(f"{each.name}: {', '.join(each.concepts)}" for each in theirs)
            raise ValueError(f"reader {self.reader} reads other factors than the split: {names}")
        return reader

    def _rates(self, read: Reading, whose: str) -> dict[str, Measurement]:
        """Return how often each group is right and valid, also to other limits of validity."""
        right = self._right(read.concepts).all(dim=-1)
        found = {}
        limits = {"": read.valid, **{name: read.within(each) for name, each in LIMITS.items()}}
        for name, valid in limits.items():
            good = right & valid.view_as(right)
            for group, mine in self._members().items():
                found[f"accuracy{name}{whose}@{group}"] = _rate(good[mine].flatten())
        for group, mine in self._members().items():
            found[f"valid{whose}@{group}"] = _rate(read.valid.view_as(right)[mine].flatten())
        return found

    def _factors(self, read: Reading) -> dict[str, Measurement]:
        """Return how often each factor is right, valid or not, and the accuracy by composition."""
        right = self._right(read.concepts)
        found = {}
        for group, mine in self._members().items():
            found[f"all_right@{group}"] = _rate(right[mine].all(dim=-1).flatten())
            for factor, good in zip(self.split.factors, right[mine].unbind(dim=-1), strict=True):
                found[f"{factor.name}_right@{group}"] = _rate(good.flatten())
        good = right.all(dim=-1) & read.valid.view(len(right), -1)
        for which, each in zip(self.sampled, good, strict=True):
            found[f"accuracy@{'-'.join(which)}"] = _rate(each)
        return found

    def _chance(self, read: Reading) -> dict[str, Measurement]:
        """Return the accuracy of samples that are compared with any condition of their group."""
        rows, found = read.rows.view(len(self.sampled), self.samples, -1), {}
        for group, mine in self._members().items():
            requested = concept_rows(self.split.factors, self.sampled).to(rows.device)[mine]
            same = (rows[mine].flatten(0, 1)[:, None] == requested).all(dim=-1).double()
            found[f"accuracy_chance@{group}"] = Measurement(
                float(same.mean()), None, None, len(same)
            )
        return found

    def _spreads(self, read: Reading, true: Reading) -> dict[str, Measurement]:
        """Return how far samples of test compositions spread, as shares of true renders' spread."""
        if not (isinstance(read, Fitted) and isinstance(true, Fitted)):
            return {}
        test = torch.tensor(self._members()["test"])[:, None] * self.samples
        which = (test + torch.arange(self.samples)).flatten().to(read.concepts.device)
        found = spreads(read[which], true[which], self.samples)
        return {f"{name}@test": each for name, each in found.items()}

    def _right(
        self, concepts: Int[Tensor, "batch factor"]
    ) -> Bool[Tensor, "composition sample factor"]:
        requested = concept_rows(self.split.factors, self.sampled).to(concepts.device)
        return concepts.view(len(requested), -1, concepts.shape[-1]) == requested[:, None]

    def _members(self) -> dict[str, list[int]]:
        """Return where in `sampled` the compositions of each group stand."""
        at = {which: number for number, which in enumerate(self.sampled)}
        return {name: [at[each] for each in group] for name, group in self.groups.items()}

    def _arrays(self, stored: Tensor, view: Any) -> dict[str, Tensor]:
        """Return the kept samples of test compositions, and the digest of what decodes them."""
        parts = stored.unflatten(0, (len(self.sampled), self.samples))
        return {
            "samples": parts[self._members()["test"], : self.kept],
            "sampled": concept_rows(self.split.factors, self.groups["test"]),
            "decoder": torch.tensor(list(bytes.fromhex(view.decoder)), dtype=torch.uint8),
        }

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

    @property
    def size(self) -> int:
        """The number of images."""
        return self.samples * len(self.sampled)

    def quick(self) -> "Composition":
        """Return the same measurement with a quarter of the usual samples."""
        return replace(self, samples=min(self.samples, 16))

    def tiny(self) -> "Composition":
        """Return the same measurement with few samples of few compositions."""
        return replace(self, samples=2, most=1, kept=min(self.kept, 1))


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


def read_again(
    kept: Mapping[str, Tensor], view: Any, factors: Sequence[Factor], reader: FactorReader
) -> dict[str, Measurement]:
    """Read kept samples with another reader; they must be decoded by the weights they are from."""
    if bytes(kept["decoder"].tolist()).hex() != view.decoder:
        raise ValueError(f"these samples are for another decoder than {view}")
    samples, rows = kept["samples"], kept["sampled"]
    read = reader(view.back(view.restored(samples.flatten(0, 1))).float().clamp(0, 1))
    right = (read.concepts.view(*samples.shape[:2], len(factors)) == rows[:, None]).all(dim=-1)
    valid = read.valid.view_as(right)
    return {"accuracy@test": _rate((right & valid).flatten()), "valid@test": _rate(valid.flatten())}


def _rate(good: Bool[Tensor, " sample"]) -> Measurement:
    return Measurement.rate(int(good.sum()), len(good))
