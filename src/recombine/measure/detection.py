"""What a reader gets wrong: objects missed, made up, misplaced or misnamed."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.measure.matching import RADIUS, matched
from recombine.measurement import Measurement
from recombine.reader import Found
from recombine.scene import Factor

PIXELS = 64
"""Distances are told in pixels of an image of this side."""


@dataclass(frozen=True)
class Truth:
    """The objects that are there; places are from 0 to 1, as a reader gives them."""

    place: Float[Tensor, "batch object 2"]
    concepts: Int[Tensor, "batch object factor"]
    present: Bool[Tensor, "batch object"]


def reading_errors(
    found: Found, truth: Truth, factors: Sequence[Factor], suffix: str = ""
) -> dict[str, Measurement]:
    """Return the reader's rates: exact counts per image; precision, recall and concepts per object.

    Accuracies and the distance are over the objects that were found. Where nothing was found, or
    nothing is there to be found, the numbers about it are left out.
    """
    pairs = matched(found.place, found.present, truth.place, truth.present, RADIUS)
    hit, which = pairs >= 0, pairs.clamp(min=0)[..., None]
    hits, exact = int(hit.sum()), found.count == truth.present.sum(dim=1)
    measured = {"exact_count": Measurement.rate(int(exact.sum()), len(exact))}
    if pointed := int(found.present.sum()):
        measured["precision"] = Measurement.rate(hits, pointed)
    if objects := int(truth.present.sum()):
        measured["recall"] = Measurement.rate(hits, objects)
    if hits:
        seen = found.concepts.gather(1, which.expand(-1, -1, len(factors)))
        right = (seen == truth.concepts)[hit].sum(dim=0).tolist()
        for factor, count in zip(factors, right, strict=True):
            measured[f"{factor.name}_accuracy"] = Measurement.rate(count, hits)
    if hits > 1:
        gap = found.place.gather(1, which.expand(-1, -1, 2)) - truth.place
        far = gap[hit].square().sum(dim=-1).sqrt() * PIXELS
        measured["distance"] = Measurement.mean(far.tolist())
    return {f"{name}{suffix}": each for name, each in measured.items()}


def joined_found(parts: Sequence[Found]) -> Found:
    """Return what was found in several batches, by the same reader, as one."""
    names = ("place", "concepts", "confidence", "present")
    return Found(*(torch.cat([getattr(part, name) for part in parts]) for name in names))


def joined_truth(parts: Sequence[Truth]) -> Truth:
    """Return the truth of several batches as one; those with fewer objects get absent ones."""
    objects = max(part.present.shape[1] for part in parts)

    def together(name: str) -> Tensor:
        values = [getattr(part, name) for part in parts]
        missing = [objects - value.shape[1] for value in values]
        grown = [
            torch.cat([value, value.new_zeros(len(value), more, *value.shape[2:])], dim=1)
            for value, more in zip(values, missing, strict=True)
        ]
        return torch.cat(grown)

    return Truth(together("place"), together("concepts"), together("present"))
