"""How well does a reader of own images read those that were kept for testing, and what is refused?

Every second image decides from which value of its own doubt on the reader says "none of these";
all rates are of the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import floor
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.data import LabelledFiles
from recombine.measure.subject import Findings, Subject, inapplicable
from recombine.measurement import Measurement
from recombine.scene import Factor
from recombine.worlds.files.debris import KINDS, broken

_BATCH = 256


@dataclass(frozen=True)
class HeldOutError:
    """Read all test images, or `most` of them; at least the share `accepted` is to be accepted."""

    accepted: float = 0.99
    most: int | None = None

    name: ClassVar[str] = "held_out_error"

    def __post_init__(self) -> None:
        if not 0 < self.accepted < 1:
            raise ValueError(f"the share to be accepted is between 0 and 1; got {self.accepted}")

    def __call__(self, subject: Subject, generator: torch.Generator) -> Findings:
        """Read, calibrate, and refuse."""
        network, world = subject.training.network, subject.training.world
        if not getattr(network, "rejects", False):
            raise inapplicable(self.name, "readers that can refuse an image", network)
        if not isinstance(world, LabelledFiles):
            raise inapplicable(self.name, "files with labels", world)
        reader = network.factor_reader(subject.denoiser)
        files: Any = world
        tested = replace(files, part="test", among=())
        known, rest = halves(len(tested), self.most, subject.device)
        doubts = torch.cat([reader(tested.image_of(each)).doubt for each in known.split(_BATCH)])
        threshold = lowest(-doubts, self.accepted)
        reader = replace(reader, threshold=threshold)
        right, kept = [], []
        refused: dict[str, list[Tensor]] = {kind: [] for kind in KINDS}
        for number in rest.split(_BATCH):
            images, true = tested.image_of(number), tested.scenes_of(number).concepts[:, 0]
            read = reader(images)
            right.append(read.concepts == true)
            kept.append(read.valid)
            for kind in KINDS:
                refused[kind].append(~reader(broken(kind, images, true, generator)).valid)
        rates = {kind: torch.cat(each) for kind, each in refused.items()}
        found = {
            **errors(world.factors, torch.cat(right)),
            "accepted": _rate(torch.cat(kept)),
            **rejections(rates),
            "threshold": Measurement(threshold, None, None, n=len(known)),
        }
        return Findings(found, alarms=tuple(self._alarms(found["accepted"], len(known))))

    def _alarms(self, accepted: Measurement, calibrated: int) -> list[str]:
        share = f"{self.accepted:g}"
        alarms = []
        if (needed := round(1 / (1 - self.accepted)) - 1) > calibrated:
            alarms.append(
                f"{calibrated} images decide what is accepted; {needed} are needed to promise "
                f"{share} of new images"
            )
        if accepted.high is not None and accepted.high < self.accepted:
            alarms.append(f"{accepted.value:.3f} of new images are accepted instead of {share}")
        return alarms

    def tiny(self) -> "HeldOutError":
        """Return the same measurement of a few images."""
        return replace(self, most=32)


def halves(
    count: int, most: int | None, device: torch.device
) -> tuple[Int[Tensor, " known"], Int[Tensor, " rest"]]:
    """Return the numbers of the files that calibrate, and of those that are reported."""
    if count < 2:
        raise ValueError(f"2 images for testing are needed or more; got {count}")
    taken = min(count, most or count)
    number = torch.arange(taken, device=device) * count // taken
    return number[::2], number[1::2]


def lowest(validity: Float[Tensor, " image"], accepted: float) -> float:
    """Return the least validity to accept: a new image has it with this probability, or more.

    Of n images and a new one each is as likely the k-th smallest. So the k-th smallest of the n is
    exceeded with probability 1 - k / (n + 1) (split conformal prediction, Vovk et al. 2005). It is
    never above 0, where the reader holds both for equally likely.
    """
    k = max(floor((1 - accepted) * (len(validity) + 1) + 1e-9), 1)
    return min(float(validity.sort().values[k - 1]), 0.0)


def errors(
    factors: tuple[Factor, ...], right: Bool[Tensor, "image factor"]
) -> dict[str, Measurement]:
    """Return how often any factor is misread, and each; images that are refused count as well."""
    each = {f"error@{f.name}": _rate(~good) for f, good in zip(factors, right.T, strict=True)}
    return {"error": _rate(~right.all(dim=1)), **each}


def rejections(refused: Mapping[str, Bool[Tensor, " image"]]) -> dict[str, Measurement]:
    """Return the share of debris that is refused, of all kinds and of each."""
    each = {f"rejected@{kind}": _rate(found) for kind, found in refused.items()}
    return {"rejected": _rate(torch.cat(list(refused.values()))), **each}


def _rate(good: Bool[Tensor, " image"]) -> Measurement:
    return Measurement.rate(int(good.sum()), len(good))
