"""Conditioned on K places, how many objects does a generator draw there?

Bradley 2025 (arXiv 2509.16447) counts by hand and names no criterion. Here a hit is a detected
object paired one to one with a requested place, its centre within a 21st of the image side (3
pixels of 64). A sample succeeds when every requested place is hit and, where the model is
conditioned on all objects, no more objects are detected than requested. Beside each number stand
the same number for true renders of the same scenes (`ceiling`) and for samples compared with the
places of another one (`chance`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.measure.matching import RADIUS, matched, partners
from recombine.measure.subject import Findings
from recombine.measurement import Measurement, Number
from recombine.reader import Found, Reader

BATCH = 1024
"""The most images sampled at once."""
SAMPLES = 256
"""With fewer samples of a K, nothing is called K_max."""
LEAST = 0.5
"""K_max ends where the lower end of the interval of success falls below this."""
SENSITIVITY = (0.25, 0.75, 0.9)
"""Other ends, reported beside it."""
SHEETS = (1, 3, 6, 9, 12)
"""The numbers of objects whose first samples are kept as images,"""
ON_A_SHEET = 8
"""so many of each,"""
MARKED = 4
"""and of how many the places are kept, to be marked in the pictures."""

DrawImages: TypeAlias = Callable[[Tensor, torch.Generator], Tensor]
"""One image per row of the condition."""


@dataclass(frozen=True)
class Request:
    """Scenes of one number of objects: the requested places, the condition, the true renders."""

    place: Float[Tensor, "batch object 2"]
    present: Bool[Tensor, "batch object"]
    condition: Float[Tensor, " batch *condition"]
    image: Float[Tensor, "batch 3 height width"]


@dataclass(frozen=True)
class Outcome:
    """Per image: how many places are requested, how many are hit, how many objects are detected.

    `near` are requested places with another one nearer than two radii, `near_hits` those hit.
    """

    requested: Int[Tensor, " batch"]
    hits: Int[Tensor, " batch"]
    count: Int[Tensor, " batch"]
    near: Int[Tensor, " batch"]
    near_hits: Int[Tensor, " batch"]

    @property
    def hit_rate(self) -> Measurement:
        """Mean over images of the share of requested places that are hit.

        Places of one image are hit or missed together, so the interval is Student's over images,
        clipped to [0, 1]; an image without a requested place has no share.
        """
        some = self.requested > 0
        shares = (self.hits[some] / self.requested[some]).tolist()
        return Measurement.mean(shares).clipped(most=1.0)

    @property
    def all_hit(self) -> Measurement:
        """Share of images with every requested place hit."""
        return self.success(strict=False)

    @property
    def mean_count(self) -> Measurement:
        """Mean number of detected objects; the interval is clipped at 0."""
        return Measurement.mean(self.count.tolist()).clipped()

    @property
    def extra(self) -> Measurement:
        """Mean number of detected objects that hit no requested place."""
        return Measurement.mean((self.count - self.hits).tolist())

    @property
    def by_room(self) -> dict[str, Measurement]:
        """Hit rates of requested places with another one near, which one object may hit, and clear.

        Over places, as if those of an image were hit independently.
        """
        near, hits = int(self.near.sum()), int(self.near_hits.sum())
        counts = {
            "near": (hits, near),
            "clear": (int(self.hits.sum()) - hits, int(self.requested.sum()) - near),
        }
        return {name: Measurement.rate(*each) for name, each in counts.items() if each[1]}

    def success(self, strict: bool) -> Measurement:
        """Share of images with every requested place hit and, if strict, no further object."""
        good = self.hits == self.requested
        if strict:
            good = good & (self.count <= self.requested)
        return Measurement.rate(int(good.sum()), len(good))


@dataclass(frozen=True)
class Rule:
    """What the model was trained on, and what counts as success.

    `objects` and `labels` are the most objects in a training scene and the most it was conditioned
    on. Strict is for models conditioned on all objects: others may add some.
    """

    objects: int
    labels: int
    strict: bool


def outcome(
    found: Found, place: Float[Tensor, "batch object 2"], present: Bool[Tensor, "batch object"]
) -> Outcome:
    """Compare detected objects with the requested places."""
    pairs = matched(found.place.to(place), found.present.to(present.device), place, present, RADIUS)
    hit, near = pairs >= 0, crowded(place, present, 2 * RADIUS)
    counts = (each.sum(dim=1) for each in (near, near & hit))
    return Outcome(present.sum(dim=1), hit.sum(dim=1), found.count.to(present.device), *counts)


def crowded(
    place: Float[Tensor, "batch object 2"], present: Bool[Tensor, "batch object"], reach: float
) -> Bool[Tensor, "batch object"]:
    """Return which present places have another one nearer than this."""
    gap = (place[:, :, None] - place[:, None]).norm(dim=-1)
    other = ~torch.eye(place.shape[1], dtype=torch.bool, device=place.device)
    return ((gap < reach) & present[:, None] & other).any(dim=2) & present


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
    draw: DrawImages,
    reader: Reader,
    rule: Rule,
    generator: torch.Generator,
) -> Findings:
    """Sample what is requested for each K, and compare; the places of a few images are kept."""
    images = drawn(requests, draw, generator)
    arrays: dict[str, Tensor] = {}
    outcomes: dict[int, dict[str, Outcome]] = {}
    for k in sorted(requests):
        request, found = requests[k], reader(images[k])
        outcomes[k] = compared(request, found, reader, generator)
        arrays[f"requested@{k}"] = marked(request.place, request.present)
        arrays[f"detected@{k}"] = marked(found.place, found.present)
    sheets = {f"objects{k}": images[k][:ON_A_SHEET] for k in SHEETS if k in images}
    return Findings(measurements(outcomes, rule), images=sheets, arrays=arrays)


def drawn(
    requests: Mapping[int, Request], draw: DrawImages, generator: torch.Generator
) -> dict[int, Tensor]:
    """Return the samples of each K, made together: small batches leave a GPU idle."""
    conditions = {k: requests[k].condition for k in sorted(requests)}
    sizes = [len(each) for each in conditions.values()]
    parts = torch.cat([*conditions.values()]).chunk(-(-sum(sizes) // BATCH))
    images = torch.cat([draw(part, generator).clamp(0, 1) for part in parts])
    return dict(zip(conditions, images.split(sizes), strict=True))


def compared(
    request: Request, found: Found, reader: Reader, generator: torch.Generator
) -> dict[str, Outcome]:
    """Return the outcome of samples, of true renders, and of samples beside another's request."""
    partner = partners(len(found), generator).to(request.present.device)
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
    return _overall(each, [k for k in outcomes if k > 0], rule) | each


def marked(
    place: Float[Tensor, "batch object 2"], present: Bool[Tensor, "batch object"]
) -> Float[Tensor, "image object 2"]:
    """Return the places (x, y) in the first few images; NaN for an absent object."""
    kept = place[:MARKED].masked_fill(~present[:MARKED, :, None], torch.nan)
    return kept.cpu().half()


def _at(k: int, whose: str, what: Outcome, strict: bool) -> dict[str, Measurement]:
    """Return the numbers of one K; without requested places there are no hits."""
    found = {}
    if whose != "_chance":
        found["count"] = what.mean_count
    if k > 0:
        found |= {"hit_rate": what.hit_rate, "all_hit": what.all_hit, "extra": what.extra}
        found |= {f"hit_rate_{room}": rate for room, rate in what.by_room.items()}
    if k > 0 or (strict and whose != "_chance"):
        found["success"] = what.success(strict)
    return {f"{name}{whose}@{k}": value for name, value in found.items()}


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
        found["beyond_objects"] = reach.mapped(lambda end: end - rule.objects)
        found["beyond_labels"] = reach.mapped(lambda end: end - rule.labels)
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
    return rate.mapped(lambda end: end / ceiling.value)
