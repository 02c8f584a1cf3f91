"""Which compositions does a generator draw as asked, and how does that change in training?

A sample counts when its reader names every factor as asked (Farid et al. 2025). Compositions of a
level are pooled: they are asked equally often. Level 0 was seen in training, level 2 differs from
everything seen in two factors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from statistics import fmean
from typing import TypeAlias

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from recombine.measurement import Measurement, Number
from recombine.scene import Concepts, concept_rows
from recombine.split import Split

TRAINED = 0.8
"""A model is trained when it draws this share of what it has seen as asked."""
LATE = 10
"""The late mean is over so many last points of a curve, the end of training included."""

Curve: TypeAlias = Sequence[Sequence[Number]]
"""Pairs of step and value."""


@dataclass(frozen=True)
class Expectation:
    """What the paper found and what is asked of the late mean at the last level; ends included."""

    paper: float | None = None
    grade: str | None = None
    least: float | None = None
    most: float | None = None

    def __post_init__(self) -> None:
        if self.paper is not None and not self.grade:
            raise ValueError(f"a paper's value has a grade; got {self}")

    def judged(self, found: Measurement, seen: Number) -> Measurement:
        """Return the late mean with the paper's value and a verdict beside it."""
        return replace(
            found, paper=self.paper, grade=self.grade, verdict=self._verdict(found.value, seen)
        )

    def _verdict(self, value: Number, seen: Number) -> str | None:
        if seen < TRAINED:
            return f"undertrained: {seen:.3g} of what was seen, not {TRAINED:g}"
        if self.least is not None and value < self.least:
            return f"missed: asked >= {self.least:g}"
        if self.most is not None and value > self.most:
            return f"missed: asked <= {self.most:g}"
        asked = [
            f"{sign} {end:g}"
            for sign, end in ((">=", self.least), ("<=", self.most))
            if end is not None
        ]
        return f"as asked ({' and '.join(asked)})" if asked else None


def check_levels(split: Split) -> None:
    """Raise unless something is held out, and every level up to the last has a composition."""
    empty = set(range(max(split.levels[-1], 1) + 1)) - set(split.levels)
    if empty:
        known = ", ".join(map(str, split.levels))
        raise ValueError(
            f"composition is asked of every level, but split {split.name} has nothing at level "
            f"{min(empty)}; its levels: {known}"
        )


def accuracies(
    split: Split, read: Mapping[Concepts, Int[Tensor, "sample factor"]], whose: str = ""
) -> dict[str, Measurement]:
    """Return how often what was read is what was asked, by composition, level and factor.

    `whose` is added to every name: "_ceiling" for true renders.
    """
    if not read:
        raise ValueError("accuracy is of compositions that were asked for; there is none")
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
    """Return what all readers say of a factor, and -1, which is no concept, where they differ.

    Each reader is kind to something: a probe to blobs, the nearest render to a faint speck.
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
    """Return what the course of training says of each level.

    `late` is the mean of the last points; it has no interval, as they are of one run and drawn with
    the same noise: its spread is that over seeds. `best` is the highest point, `area` the mean over
    steps, and `matched` the accuracy where the model first draws enough of what it has seen (models
    of different speed compare there). Of other `readers` there is the late mean only.
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
        named = {"best": max(y for _, y in curve), "area": area(curve)}
        if (step := first_at_least(seen, TRAINED)) is not None:
            named["matched"] = next(y for x, y in curve if x == step)
        for name, value in named.items():
            found[f"accuracy_{name}@level{level}"] = Measurement(value, None, None, n=len(curve))
    if (step := first_at_least(seen, TRAINED)) is not None:
        found["trained_at"] = Measurement(step, None, None, n=len(seen))
    return found


def late_mean(curve: Curve) -> Measurement:
    """Return the mean of the last points of a curve."""
    last = [y for _, y in curve[-LATE:]]
    return Measurement(fmean(last), None, None, n=len(last))


def area(curve: Curve) -> float:
    """Return the mean of a curve over its steps, by trapezoids."""
    parts = [
        (right - left) * (before + after) / 2
        for (left, before), (right, after) in zip(curve, curve[1:], strict=False)
    ]
    return fsum(parts) / (curve[-1][0] - curve[0][0])


def first_at_least(curve: Curve, least: float) -> Number | None:
    """Return the first step with this value or more."""
    return next((step for step, value in curve if value >= least), None)
