"""Told of K places, how many objects does a generator draw there?

Bradley 2025 (arXiv 2509.16447) counts by hand and names no criterion. Here a hit is a found object
paired one to one with a told place, its centre within a 21st of the image side (3 pixels of 64).
A sample succeeds when every told place is hit and, where the model was told of everything, no
more objects are found than told. Beside each number stand the same number for true renders of the
same scenes (`ceiling`) and for samples compared with the places of another one (`chance`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import fsum
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.measure.matching import RADIUS, matched
from recombine.measurement import Measurement, Number, student_t
from recombine.reader import Found, Reader

SAMPLES = 256
"""With fewer samples of a K, nothing is called K_max."""
LEAST = 0.5
"""K_max ends where the lower end of the interval of success falls below this."""
SENSITIVITY = (0.25, 0.75, 0.9)
"""Other ends, reported beside it."""
TRAINED = 0.9
"""A model is trained when it succeeds inside training at this share of the ceiling."""
HEARD = 0.4
"""How far above chance a hit rate lies when the condition is heard."""
SHEETS = (1, 3, 6, 9, 12)
"""The numbers of objects whose first samples are kept as images,"""
ON_A_SHEET = 8
"""so many of each,"""
DOTTED = 4
"""and of how many the places are kept, to be drawn as dots."""

Draw: TypeAlias = Callable[[Tensor, torch.Generator], Tensor]
"""One image in [0, 1] per row of the condition."""


@dataclass(frozen=True)
class Request:
    """Some scenes of one number of objects: where they are as told, and what they look like."""

    place: Float[Tensor, "batch object 2"]
    present: Bool[Tensor, "batch object"]
    condition: Float[Tensor, " batch *condition"]
    image: Float[Tensor, "batch 3 height width"]

    def __post_init__(self) -> None:
        # A sample is compared with the places of another one, and a mean needs a spread.
        if len(self.present) < 2:
            raise ValueError(f"length is measured on 2 samples or more; got {len(self.present)}")


@dataclass(frozen=True)
class Outcome:
    """Per image: how many places were told, how many of them are hit, how many objects found.

    `near` are told places with another one nearer than two radii, `near_hits` those of them hit.
    """

    told: Int[Tensor, " batch"]
    hits: Int[Tensor, " batch"]
    count: Int[Tensor, " batch"]
    near: Int[Tensor, " batch"]
    near_hits: Int[Tensor, " batch"]

    @property
    def hit_rate(self) -> Measurement:
        """Mean over images of the share of told places that are hit.

        Places of one image are hit or missed together, so the interval is Student's over images,
        cut to [0, 1]; an image that tells of no place has no share.
        """
        some = self.told > 0
        shares = (self.hits[some] / self.told[some]).tolist()
        low, high = student_t(shares)
        return Measurement(fsum(shares) / len(shares), max(low, 0.0), min(high, 1.0), n=len(shares))

    @property
    def all_hit(self) -> Measurement:
        """Share of images with every told place hit."""
        return self.success(strict=False)

    @property
    def mean_count(self) -> Measurement:
        """Mean number of objects found; fewer than none are not."""
        found = Measurement.mean(self.count.tolist())
        return replace(found, low=max(found.low or 0.0, 0.0))

    @property
    def extra(self) -> Measurement:
        """Mean number of objects found that hit no told place."""
        return Measurement.mean((self.count - self.hits).tolist())

    @property
    def by_room(self) -> dict[str, Measurement]:
        """Hit rates of told places with another one near, which one object could do for, and clear.

        Over places, as if those of an image were hit independently.
        """
        near, hits = int(self.near.sum()), int(self.near_hits.sum())
        counts = {
            "near": (hits, near),
            "clear": (int(self.hits.sum()) - hits, int(self.told.sum()) - near),
        }
        return {name: Measurement.rate(*each) for name, each in counts.items() if each[1]}

    def success(self, strict: bool) -> Measurement:
        """Share of images with every told place hit and, if strict, no more objects than told."""
        good = self.hits == self.told
        if strict:
            good = good & (self.count <= self.told)
        return Measurement.rate(int(good.sum()), len(good))


@dataclass(frozen=True)
class Expectation:
    """What the paper found and what is asked of K_max, declared before the run; ends included.

    At `heard_at` objects the hit rate is asked to be 0.9 of the ceiling and 0.4 above chance.
    """

    paper: int | None = None
    grade: str | None = None
    least: int | None = None
    most: int | None = None
    heard_at: int | None = None

    def __post_init__(self) -> None:
        if self.paper is not None and not self.grade:
            raise ValueError(f"a paper's value has a grade; got {self}")
        if self.least is not None and self.most is not None and self.least > self.most:
            raise ValueError(f"expected least <= most; got {self.least} and {self.most}")

    @property
    def asked(self) -> str | None:
        """What is asked of K_max, in words; None when nothing is."""
        ends = [
            f"{sign} {end}"
            for sign, end in ((">=", self.least), ("<=", self.most))
            if end is not None
        ]
        return " and ".join(ends) or None

    def verdict(self, k_max: int, unended: bool, inside: float) -> str | None:
        """Judge K_max; `unended` if no K failed, `inside` is the share of the ceiling in training.

        A model that fails counts only when it is trained; one that succeeds counts as it is.
        """
        least = self.paper if self.asked is None else self.least
        fails = (least is not None and k_max < least) or (
            self.most is not None and k_max <= self.most
        )
        if fails and inside < TRAINED:
            return f"undertrained: {inside:.3g} of the ceiling inside training, not {TRAINED}"
        unseen = f"no K failed up to {k_max}, the most measured"
        if fails and unended:
            return f"open: {unseen}"
        words = self._compared(k_max)
        return f"{words}; {unseen}" if words and unended else words

    def _compared(self, k_max: int) -> str | None:
        if self.asked is not None:
            low, high = self.least or 0, k_max if self.most is None else self.most
            return _judged(low <= k_max <= high, self.asked)
        if self.paper is None or k_max == self.paper:
            return None if self.paper is None else "as in the paper"
        return f"{'above' if k_max > self.paper else 'below'} the paper's {self.paper}"

    def heard(self, rate: float, ceiling: float, chance: float) -> str:
        """Judge the hit rate at `heard_at` objects."""
        good = rate >= TRAINED * ceiling and rate >= chance + HEARD
        return _judged(good, f">= {TRAINED} of the ceiling and {HEARD} above chance")


def _judged(good: bool, asked: str) -> str:
    return f"as asked ({asked})" if good else f"missed: asked {asked}"


@dataclass(frozen=True)
class Rule:
    """What the model was trained on, what counts as success, and what is expected of it.

    `objects` and `labels` are the most objects in a training scene and the most it was told of.
    Strict is for models told of everything: to others, objects that go unmentioned are legal.
    `batch` is the most images drawn at once.
    """

    objects: int
    labels: int
    strict: bool
    expected: Expectation = Expectation()
    batch: int = 1024

    def __post_init__(self) -> None:
        if not 1 <= self.labels <= self.objects:
            raise ValueError(f"expected 1 <= labels <= objects; got {self.labels}, {self.objects}")
        if self.batch < 1:
            raise ValueError(f"a batch holds at least 1 image; got {self.batch}")


def outcome(
    found: Found,
    place: Float[Tensor, "batch object 2"],
    present: Bool[Tensor, "batch object"],
    radius: float = RADIUS,
) -> Outcome:
    """Compare what was found with the told places."""
    pairs = matched(found.place.to(place), found.present.to(present.device), place, present, radius)
    hit, near = pairs >= 0, crowded(place, present, 2 * radius)
    counts = (each.sum(dim=1) for each in (near, near & hit))
    return Outcome(present.sum(dim=1), hit.sum(dim=1), found.count.to(present.device), *counts)


def crowded(
    place: Float[Tensor, "batch object 2"], present: Bool[Tensor, "batch object"], reach: float
) -> Bool[Tensor, "batch object"]:
    """Return which present places have another one nearer than this."""
    gap = (place[:, :, None] - place[:, None]).norm(dim=-1)
    other = ~torch.eye(place.shape[1], dtype=torch.bool, device=place.device)
    return ((gap < reach) & present[:, None] & other).any(dim=2) & present


def others(n: int, generator: torch.Generator) -> Int[Tensor, " n"]:
    """Return a partner for each of n, never itself: the next one on a random round."""
    order = torch.randperm(n, generator=generator, device=generator.device)
    partner = torch.empty_like(order)
    partner[order] = order.roll(1)
    return partner


def k_max(rates: Mapping[int, Measurement], least: float = LEAST, n: int = SAMPLES) -> int | None:
    """Return the largest K such that success at every k from 1 to K has a lower end >= `least`.

    None where it may not be called so: a k up to the first that fails is not measured, or on
    fewer than n samples. The largest K measured is a lower bound: no K failed.
    """
    reached = _reach({k: rate.low for k, rate in rates.items()}, least)
    needed = range(1, min(reached + 1, max(rates, default=0)) + 1)
    if not needed or any(k not in rates or rates[k].n < n for k in needed):
        return None
    return reached


def length(
    requests: Mapping[int, Request],
    draw: Draw,
    reader: Reader,
    rule: Rule,
    generator: torch.Generator,
) -> tuple[dict[str, Measurement], dict[str, list], dict[str, Tensor]]:
    """Draw what is requested for each K; return measurements, lists for figures, and images."""
    images = drawn(requests, draw, generator, rule.batch)
    curves: dict[str, list] = {
        "length_objects": sorted(requests),
        "length_trained_on": [rule.objects, rule.labels],
    }
    outcomes: dict[int, dict[str, Outcome]] = {}
    for k in sorted(requests):
        request, found = requests[k], reader(images[k])
        outcomes[k] = compared(request, found, reader, generator)
        curves[f"told@{k}"] = dots(request.place, request.present)
        curves[f"found@{k}"] = dots(found.place, found.present)
    sheets = {f"objects{k}": images[k][:ON_A_SHEET] for k in SHEETS if k in images}
    return measurements(outcomes, rule), curves, sheets


def drawn(
    requests: Mapping[int, Request], draw: Draw, generator: torch.Generator, batch: int
) -> dict[int, Tensor]:
    """Return the samples of each K, drawn together: small batches leave a GPU idle."""
    conditions = [requests[k].condition for k in sorted(requests)]
    told = torch.cat(conditions)
    parts = told.chunk(-(-len(told) // batch))
    images = torch.cat([draw(part, generator).clamp(0, 1) for part in parts])
    return dict(
        zip(sorted(requests), images.split([len(each) for each in conditions]), strict=True)
    )


def compared(
    request: Request, found: Found, reader: Reader, generator: torch.Generator
) -> dict[str, Outcome]:
    """Return the outcome of the samples, of true renders and of samples told of another scene."""
    partner = others(len(found), generator).to(request.present.device)
    return {
        "": outcome(found, request.place, request.present),
        "_ceiling": outcome(reader(request.image), request.place, request.present),
        "_chance": outcome(found, request.place[partner], request.present[partner]),
    }


def measurements(
    outcomes: Mapping[int, Mapping[str, Outcome]], rule: Rule
) -> dict[str, Measurement]:
    """Return every number by its name, those over all K first."""
    each: dict[str, Measurement] = {}
    for k, versions in outcomes.items():
        for whose, what in versions.items():
            each |= _at(k, whose, what, rule.strict)
    if (heard := rule.expected.heard_at) in outcomes:
        hits = [each[f"hit_rate{whose}@{heard}"] for whose in ("", "_ceiling", "_chance")]
        words = rule.expected.heard(*(hit.value for hit in hits))
        each[f"hit_rate@{heard}"] = replace(hits[0], verdict=words)
    return _overall(each, [k for k in outcomes if k > 0], rule) | each


def dots(
    place: Float[Tensor, "batch object 2"], present: Bool[Tensor, "batch object"]
) -> list[list[list[float]]]:
    """Return the places in the first few images as lists of (x, y)."""
    return [
        [[round(x, 4), round(y, 4)] for x, y in places[there].tolist()]
        for places, there in zip(place[:DOTTED], present[:DOTTED], strict=True)
    ]


def _at(k: int, whose: str, what: Outcome, strict: bool) -> dict[str, Measurement]:
    """Return the numbers of one K; with nothing told there is nothing to hit or to shuffle."""
    named = {}
    if whose != "_chance":
        named["count"] = what.mean_count
    if k > 0:
        named |= {"hit_rate": what.hit_rate, "all_hit": what.all_hit, "extra": what.extra}
        named |= {f"hit_rate_{room}": rate for room, rate in what.by_room.items()}
    if k > 0 or (strict and whose != "_chance"):
        named["success"] = what.success(strict)
    return {f"{name}{whose}@{k}": value for name, value in named.items()}


def _overall(
    each: Mapping[str, Measurement], measured: list[int], rule: Rule
) -> dict[str, Measurement]:
    """Return K_max, how far it is beyond training, and success inside training."""
    rates = {k: each[f"success@{k}"] for k in measured}
    inside = [_share(rates[k], each[f"success_ceiling@{k}"]) for k in measured if k <= rule.labels]
    found: dict[str, Measurement] = {}
    for least in (LEAST, *SENSITIVITY):
        if (reached := k_max(rates, least)) is not None:
            found["k_max" if least == LEAST else f"k_max@{least}"] = _ranged(rates, reached, least)
    if inside:
        found["success_inside"] = min(inside, key=lambda share: share.value)
    if reach := found.get("k_max"):
        trained = found["success_inside"].value
        expected, unended = rule.expected, reach.value == max(rates)
        verdict = expected.verdict(int(reach.value), unended, trained)
        found["k_max"] = replace(reach, paper=expected.paper, grade=expected.grade, verdict=verdict)
        found["beyond_objects"] = _each(reach, lambda end: end - rule.objects)
        found["beyond_labels"] = _each(reach, lambda end: end - rule.labels)
    return found


def _ranged(rates: Mapping[int, Measurement], reached: int, least: float) -> Measurement:
    """Return K_max with the K that the upper ends reach: the lower ends are its own rule."""
    high = _reach({k: rate.high for k, rate in rates.items()}, least)
    n = min(rate.n for k, rate in rates.items() if k <= reached + 1)
    return Measurement(reached, reached, high, n)


def _reach(ends: Mapping[int, Number | None], least: float) -> int:
    """Return the largest K up to which every end is measured and at least this."""
    reached = 0
    while (end := ends.get(reached + 1)) is not None and end >= least:
        reached += 1
    return reached


def _share(rate: Measurement, ceiling: Measurement) -> Measurement:
    """Return a rate relative to its ceiling, whose own error is left out; 0 if that is 0."""
    if ceiling.value == 0:
        return Measurement(0.0, None, None, rate.n)
    return _each(rate, lambda end: end / ceiling.value)


def _each(measured: Measurement, change: Callable[[Number], Number]) -> Measurement:
    """Return a measurement with its value and both ends changed alike."""
    low, high = (None if end is None else change(end) for end in (measured.low, measured.high))
    return replace(measured, value=change(measured.value), low=low, high=high)
