"""What a detector gets wrong: objects missed, made up, misplaced or taken for others.

It is measured on renders it never saw, where every object shows at least 12 pixels at 64 px: per
number of objects at 64 px with the camera at its place, and at 128 px with camera and lamps
jittered. The numbers without @ are over 0 to 9 objects at 64 px, as the length study needs them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from recombine.measure.matching import RADIUS, matched
from recombine.measure.subject import Findings, Subject, inapplicable
from recombine.measurement import Measurement
from recombine.reader import Found, Reader
from recombine.render.camera import places
from recombine.scene import Factor, Scenes, concatenate
from recombine.worlds.clevr import Clevr, shows

PIXELS = 64
"""Distances are in pixels of an image of this side."""
FRESH = 10_007
"""The seed of the scenes; no training has it."""
SHOWN = (64, 12)
"""A side in pixels, and how many of them every object of a scene shows at least."""
HEADLINE = ("exact_count", "precision", "recall")


@dataclass(frozen=True)
class Panel:
    """Fresh scenes to read: so many `samples` for each number of `objects`.

    Rates over all are over scenes of at most `pooled` objects; `suffix` ends every name.
    """

    world: Clevr
    samples: int
    objects: tuple[int, ...]
    pooled: int
    suffix: str = ""

    def __call__(self, reader: Reader, device: torch.device) -> dict[str, Measurement]:
        """Render, read and compare."""
        measured: dict[str, Measurement] = {}
        pooled = []
        for count in self.objects:
            scenes = fresh(replace(self.world, objects=(count, count)), self.samples, device)
            found, truth = reader(self.world.image(scenes)), truth_of(scenes)
            errors = reading_errors(found, truth, Clevr.factors, f"{self.suffix}@{count}")
            measured |= {name: each for name, each in errors.items() if name.startswith(HEADLINE)}
            if count <= self.pooled:
                pooled.append((found, truth))
        founds, truths = zip(*pooled, strict=True)
        # A reader that finds nothing at all has this number too, as the headline names it.
        unknown = {f"precision{self.suffix}": Measurement(0.0, 0.0, 1.0, n=1)}
        overall = reading_errors(together(founds), together(truths), Clevr.factors, self.suffix)
        return unknown | overall | measured


@dataclass(frozen=True)
class DetectorError:
    """Rates of a detector on fresh renders, for each number of objects.

    Objects below the `threshold` in confidence are left out; None is the reader's own.
    """

    panels: tuple[Panel, ...] = (
        Panel(Clevr(size=64, margin=False), 256, tuple(range(13)), pooled=9),
        Panel(Clevr(size=128, margin=False, jitter=True), 128, tuple(range(1, 11)), 10, "@128px"),
    )
    threshold: float | None = None

    name: ClassVar[str] = "detector_error"

    def __call__(self, subject: Subject, generator: torch.Generator) -> Findings:
        """Read every panel."""
        del generator
        network = subject.training.network
        if not hasattr(network, "object_reader"):
            raise inapplicable(self.name, "detectors of objects", network)
        reader = network.object_reader(subject.denoiser, self.threshold)
        measurements: dict[str, Measurement] = {}
        for panel in self.panels:
            measurements |= panel(reader, subject.device)
        return Findings(measurements)

    @property
    def size(self) -> int:
        """The number of pixels that are rendered and read."""
        return sum(each.samples * len(each.objects) * each.world.size**2 for each in self.panels)

    def quick(self) -> "DetectorError":
        """Return the same measurement with fewer images."""
        panels = (replace(each, samples=min(each.samples, 32)) for each in self.panels)
        return replace(self, panels=tuple(panels))

    def tiny(self) -> "DetectorError":
        """Return the same measurement on few scenes."""
        panels = (replace(each, samples=4, objects=each.objects[:2]) for each in self.panels)
        return replace(self, panels=tuple(panels))


def fresh(world: Clevr, samples: int, device: torch.device | str = "cpu") -> Scenes:
    """Return the first scenes of a seed of their own in which every object shows enough."""
    kept: list[Scenes] = []
    first = 0
    while sum(map(len, kept)) < samples:
        index = torch.arange(first, first + samples, device=device)
        scenes = world.scenes(index, FRESH)
        kept.append(scenes[shows(scenes, *SHOWN)])
        first += samples
    return concatenate(kept)[:samples]


def truth_of(scenes: Scenes) -> Found:
    """Return what a reader should find in renders of these scenes."""
    return Found(places(scenes)[0], scenes.concepts, scenes.present.float(), scenes.present)


def reading_errors(
    found: Found, truth: Found, factors: Sequence[Factor], suffix: str = ""
) -> dict[str, Measurement]:
    """Return the reader's rates: exact counts per image; precision, recall and concepts per object.

    Accuracies and the distance are over the objects that were detected. Where nothing was detected,
    or nothing is there to be detected, the numbers about it are left out.
    """
    pairs = matched(found.place, found.present, truth.place, truth.present, RADIUS)
    hit, which = pairs >= 0, pairs.clamp(min=0)[..., None]
    hits, exact = int(hit.sum()), found.count == truth.present.sum(dim=1)
    measured = {"exact_count": Measurement.rate(int(exact.sum()), len(exact))}
    if detected := int(found.present.sum()):
        measured["precision"] = Measurement.rate(hits, detected)
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


def together(parts: Sequence[Found]) -> Found:
    """Return the objects of several batches as one; those with fewer objects get absent ones."""
    objects = max(part.present.shape[1] for part in parts)

    def joined(name: str) -> Tensor:
        values = [getattr(part, name) for part in parts]
        missing = [objects - value.shape[1] for value in values]
        grown = [
            torch.cat([value, value.new_zeros(len(value), more, *value.shape[2:])], dim=1)
            for value, more in zip(values, missing, strict=True)
        ]
        return torch.cat(grown)

    return Found(*map(joined, ("place", "concepts", "confidence", "present")))
