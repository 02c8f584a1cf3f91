"""Which compositions a model may see, how far the others are, and a check that none leaks.

A composition's level is the number of factors in which it differs from its nearest seen one; 0 is
seen. For numbers of objects it is the number beyond the most seen. Each world names its own splits.
"""

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from recombine.scene import Concepts, Factor, Scenes, compositions, concept_rows


def level(composition: Concepts, seen: Collection[Concepts]) -> int:
    """Count the factors in which a composition differs from its nearest seen one (0: seen)."""
    if not seen:
        raise ValueError("a level is counted from what is seen; nothing is seen")
    return min(
        sum(concept != other for concept, other in zip(composition, known, strict=True))
        for known in seen
    )


def levels(factors: Sequence[Factor], seen: Sequence[Concepts]) -> Int[Tensor, " composition"]:
    """Return the level of every composition, in the order of `compositions(factors)`."""
    if not seen:
        raise ValueError("a level is counted from what is seen; nothing is seen")
    every = concept_rows(factors, compositions(factors))
    known = concept_rows(factors, seen)
    return (every[:, None] != known).sum(dim=-1).amin(dim=1)


@dataclass(frozen=True)
class Split:
    """What of a grid of compositions is seen; the rest is held out, or left out altogether.

    Settings are chosen on the held-out compositions in `dev` and reported on the others, `test`.
    """

    name: str
    factors: tuple[Factor, ...]
    seen: tuple[Concepts, ...]
    left_out: tuple[Concepts, ...] = ()
    dev: tuple[Concepts, ...] = ()

    def __post_init__(self) -> None:
        if not self.seen:
            raise ValueError(f"split {self.name} shows nothing: its seen compositions are empty")
        concept_rows(self.factors, (*self.seen, *self.left_out, *self.dev))

    def __repr__(self) -> str:
        seen, held, every = len(self.seen), len(self.held_out), len(compositions(self.factors))
        return f"Split({self.name!r}: {seen} of {every} compositions seen, {held} held out)"

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """The levels that exist, 0 first."""
        return tuple(sorted(set(self._level_of.values())))

    @property
    def compositions(self) -> tuple[Concepts, ...]:
        """The seen and the held-out compositions: all but those left out, in grid order."""
        return tuple(self._level_of)

    @property
    def held_out(self) -> tuple[Concepts, ...]:
        """The compositions that are tested but not trained on."""
        return tuple(which for which, away in self._level_of.items() if away > 0)

    @property
    def test(self) -> tuple[Concepts, ...]:
        """The held-out compositions on which nothing is chosen."""
        return tuple(which for which in self.held_out if which not in self.dev)

    def at(self, level: int) -> tuple[Concepts, ...]:
        """Return the compositions of a level, in the order of the grid."""
        if level not in self.levels:
            known = ", ".join(map(str, self.levels))
            raise ValueError(f"split {self.name} has the levels {known}; got {level}")
        return tuple(which for which, away in self._level_of.items() if away == level)

    def holds(self, scenes: Scenes) -> Bool[Tensor, " batch"]:
        """Return whether every present object of a scene is of a seen composition."""
        if scenes.concepts.shape[-1] != len(self.factors):
            given = scenes.concepts.shape[-1]
            raise ValueError(f"split {self.name} has {len(self.factors)} factors; got {given}")
        seen = concept_rows(self.factors, self.seen).to(scenes.concepts.device)
        known = (scenes.concepts[:, :, None] == seen).all(dim=-1).any(dim=-1)
        return (known | ~scenes.present).all(dim=1)

    def unseen(self, scene: Scenes) -> str:
        """Return the first unseen composition of a single scene, in words."""
        for row in scene.concepts[scene.present].tolist():
            concepts = tuple(
                factor.concepts[concept] if 0 <= concept < len(factor.concepts) else str(concept)
                for factor, concept in zip(self.factors, row, strict=True)
            )
            if concepts not in self.seen:
                return ", ".join(concepts)
        raise ValueError("everything in this scene is seen")

    @cached_property
    def _level_of(self) -> dict[Concepts, int]:
        away = levels(self.factors, self.seen).tolist()
        grid = zip(compositions(self.factors), away, strict=True)
        left_out = set(self.left_out)
        return {which: level for which, level in grid if which not in left_out}


@dataclass(frozen=True)
class CountSplit:
    """How many objects a seen scene has; more are held out."""

    seen: range

    def __post_init__(self) -> None:
        if not self.seen or min(self.seen) < 0:
            raise ValueError(f"seen numbers of objects are a range from 0 up; got {self.seen}")

    @property
    def name(self) -> str:
        low, high = min(self.seen), max(self.seen)
        return f"count_{low}" if low == high else f"count_{low}_{high}"

    def holds(self, scenes: Scenes) -> Bool[Tensor, " batch"]:
        """Return whether a scene has a seen number of objects."""
        seen = torch.tensor(list(self.seen), device=scenes.present.device)
        return torch.isin(scenes.present.sum(dim=1), seen)

    def unseen(self, scene: Scenes) -> str:
        """Return the first unseen composition of a single scene, in words."""
        return f"{int(scene.present.sum())} objects"


def leaks(stream: Iterable[Any], split: Split | CountSplit) -> Iterator[Any]:
    """Yield batches on that hold their `scenes`, up to the first scene that is not of the split."""
    before = 0
    for batch in stream:
        held = split.holds(batch.scenes)
        if not held.all():
            place = int((~held).nonzero()[0])
            what = split.unseen(batch.scenes[place : place + 1])
            raise ValueError(
                f"scene {before + place} of the stream leaks: "
                f"{what} is not among what split {split.name} shows"
            )
        before += len(held)
        yield batch


def at_most_one(
    factors: Sequence[Factor], out: Mapping[str, Collection[str]]
) -> tuple[Concepts, ...]:
    """Return the compositions in which at most one factor takes a concept that is out."""
    return tuple(
        which
        for which in compositions(factors)
        if sum(c in out[f.name] for f, c in zip(factors, which, strict=True)) <= 1
    )


def one_change(name: str, factors: tuple[Factor, ...]) -> Split:
    """Return the split that shows the first concepts of all factors and every single change."""
    out = {factor.name: factor.concepts[1:] for factor in factors}
    return Split(name, factors, at_most_one(factors, out))


@dataclass(frozen=True)
class Coverage:
    """How many compositions are seen: a base, all its single changes, then more in random order.

    An `order` is a replicate: it has its own base, its own `test` and `dev` compositions, unseen at
    every coverage, and its own order of the rest, in which what fewer see is part of what more see.
    Test and dev have each concept, and each number of changes from the base, in proportion to what
    lies outside the base and its single changes.
    """

    factors: tuple[Factor, ...]
    seen: int
    order: int = 0
    test: int = 24
    dev: int = 12

    def __post_init__(self) -> None:
        for name in ("test", "dev"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} has at least 1 composition; got {getattr(self, name)}")
        concepts = [len(factor.concepts) for factor in self.factors]
        star = 1 + sum(concepts) - len(concepts)
        most = len(compositions(self.factors)) - self.test - self.dev
        if not star <= self.seen <= most:
            raise ValueError(
                f"coverage is from {star} (a base and its single changes) to {most} (all but "
                f"{self.test} test and {self.dev} dev compositions); got {self.seen}"
            )

    def __repr__(self) -> str:
        every, held = len(compositions(self.factors)), f"{self.test} test and {self.dev} dev"
        return f"Coverage({self.seen} of {every} compositions seen, {held}, order {self.order})"

    @property
    def split(self) -> Split:
        """The split: what is neither seen nor test nor dev is left out."""
        test, dev, rest = _dealt(self.factors, self.order, self.test, self.dev)
        known = set(rest[: self.seen])
        grid = compositions(self.factors)
        seen = tuple(which for which in grid if which in known)
        name = f"coverage {self.seen} of {len(grid)}, order {self.order}"
        return Split(name, self.factors, seen, tuple(rest[self.seen :]), dev)


@cache
def _dealt(
    factors: tuple[Factor, ...], order: int, test: int, dev: int
) -> tuple[tuple[Concepts, ...], tuple[Concepts, ...], tuple[Concepts, ...]]:
    """Deal the compositions of an order into test, dev and the rest, as they come to be seen."""
    chance = random.Random(f"coverage {order}")
    base = tuple(chance.choice(factor.concepts) for factor in factors)
    changes = {
        which: sum(a != b for a, b in zip(which, base, strict=True))
        for which in compositions(factors)
    }
    star = sorted((which for which in changes if changes[which] <= 1), key=changes.__getitem__)
    open_ = [which for which in changes if changes[which] > 1]
    chance.shuffle(open_)
    dealt = []
    for count in (test, dev):
        part = _stratified(open_, changes, count, chance)
        open_ = [which for which in open_ if which not in part]
        dealt.append(tuple(which for which in changes if which in part))
    return dealt[0], dealt[1], (*star, *open_)


def _stratified(
    among: Sequence[Concepts], changes: Mapping[Concepts, int], count: int, chance: random.Random
) -> set[Concepts]:
    """Choose so many compositions, with every concept and number of changes in proportion.

    Random exchanges that do not make it worse, until no count is off by 1.
    """

    def counts(which: Sequence[Concepts]) -> Counter[tuple[int, object]]:
        seen = Counter((-1, changes[each]) for each in which)
        return seen + Counter(pair for each in which for pair in enumerate(each))

    share = {stratum: n * count / len(among) for stratum, n in counts(among).items()}

    def off(which: Sequence[Concepts]) -> list[float]:
        found = counts(which)
        return [(found[stratum] - wanted) ** 2 for stratum, wanted in share.items()]

    chosen, others = list(among[:count]), list(among[count:])
    best = off(chosen)
    for _ in range(100 * len(among)):
        if max(best) < 1 or not others:
            break
        here, there = chance.randrange(count), chance.randrange(len(others))
        chosen[here], others[there] = others[there], chosen[here]
        if sum(now := off(chosen)) > sum(best):
            chosen[here], others[there] = others[there], chosen[here]
        else:
            best = now
    return set(chosen)
