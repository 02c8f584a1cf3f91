"""How well do readers of single objects read fresh renders, and do they refuse what is none?

A probe learns from every composition, held-out ones included, so that it can name what it sees.
Beside a probe of Shapes2D stands the reader by rendering, and how far the two agree.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from recombine.measure.agreement import kappa, verdicts
from recombine.measure.fit import Fit
from recombine.measure.held_out_error import lowest
from recombine.measure.renders import SingleObjectWorld, fresh
from recombine.measure.subject import Findings, Subject, inapplicable
from recombine.measurement import Measurement
from recombine.reader import FactorReader, Reading
from recombine.render.raster import blurred
from recombine.scene import Concepts, compositions, concept_rows
from recombine.worlds.debris import DEBRIS, debris
from recombine.worlds.shapes2d import Shapes2D

ACCEPTED, CALIBRATING = 0.99, 8
"""A probe that rejects accepts this share of true renders; so many of each composition decide."""
DEBRIS_SEED = 10_067
"""The seed of debris that readers are measured on; none has learned from it."""


@dataclass(frozen=True)
class ReaderError:
    """Read so many fresh renders of every composition, with `noise` and behind a `blur`, too.

    Of every kind of debris so many images are read.
    """

    samples: int = 16
    noise: float = 0.05
    blur: float = 1.5
    of_debris: int = 200

    name: ClassVar[str] = "reader_error"

    def __call__(self, subject: Subject, generator: torch.Generator) -> Findings:
        """Render, read and compare."""
        network, world = subject.training.network, subject.training.world
        if not hasattr(network, "factor_reader"):
            raise inapplicable(self.name, "readers of single objects", network)
        if not isinstance(world, SingleObjectWorld):
            raise inapplicable(self.name, "worlds of one object", world)
        which = world.among or tuple(compositions(world.factors))
        images = torch.cat([fresh(world, each, self.samples, subject.device) for each in which])
        noise = torch.randn(images.shape, generator=generator, device=generator.device)
        ways = {
            "": images,
            "_noisy": (images + self.noise * noise.to(images)).clamp(0, 1),
            "_blurred": 1 - blurred(1 - images, self.blur),
        }
        true = concept_rows(world.factors, which).to(images.device)
        true = true.repeat_interleave(self.samples, dim=0)
        reader, found = network.factor_reader(subject.denoiser), {}
        if getattr(network, "rejects", False):
            reader, found["threshold"] = self._calibrated(reader, which, world, subject.device)
        read = {way: reader(each) for way, each in ways.items()}
        found |= self._right(read, true, which, world)
        if isinstance(world, Shapes2D):
            fitted = {way: Fit(world)(each) for way, each in ways.items()}
            found |= self._right(fitted, true, which, world, "_fit")
            found |= self._beside(reader, Fit(world), read[""], fitted[""], world)
        return Findings(found)

    def _calibrated(
        self,
        reader: Any,
        which: tuple[Concepts, ...],
        world: SingleObjectWorld,
        device: torch.device,
    ) -> tuple[Any, Measurement]:
        """Return the reader with the threshold that accepts ACCEPTED of other true renders."""
        first = self.samples
        images = torch.cat([fresh(world, each, CALIBRATING, device, first) for each in which])
        threshold = lowest(-reader(images).doubt, ACCEPTED)
        return replace(reader, threshold=threshold), Measurement(threshold, None, None, len(images))

    def _beside(
        self,
        probe: FactorReader,
        fit: FactorReader,
        read: Reading,
        fitted: Reading,
        world: Shapes2D,
    ) -> dict[str, Measurement]:
        """Measure what the probe and the reader by rendering refuse, and how far they agree."""
        found = {}
        index = torch.arange(self.of_debris, device=read.concepts.device)
        of_probe, of_fit = [verdicts(read)], [verdicts(fitted)]
        for kind in DEBRIS:
            images = debris(world, kind, index, DEBRIS_SEED)
            of_probe.append(verdicts(probe(images)))
            of_fit.append(verdicts(fit(images)))
            for whose, rows in (("", of_probe[-1]), ("_fit", of_fit[-1])):
                found[f"rejected{whose}@{kind}"] = _rate(rows < 0)
        return found | {"kappa": kappa(torch.cat(of_probe), torch.cat(of_fit))}

    def _right(
        self,
        read: Mapping[str, Reading],
        true: Tensor,
        which: tuple[Concepts, ...],
        world: SingleObjectWorld,
        whose: str = "",
    ) -> dict[str, Measurement]:
        """Return how often renders are valid, each factor is right, and all of it."""
        found = {}
        for way, each in read.items():
            right = each.concepts == true
            good = right.all(dim=1) & each.valid
            found[f"accuracy{whose}{way}"] = _rate(good)
            found[f"valid{whose}{way}"] = _rate(each.valid)
            for factor, mine in zip(world.factors, right.unbind(dim=1), strict=True):
                found[f"{factor.name}_right{whose}{way}"] = _rate(mine)
            parts = good.split(self.samples) if not way else ()
            for composition, mine in zip(which, parts, strict=False):
                found[f"accuracy{whose}@{'-'.join(composition)}"] = _rate(mine)
        return found

    def tiny(self) -> "ReaderError":
        """Return the same measurement with few samples."""
        return replace(self, samples=1, of_debris=2)


def _rate(good: Tensor) -> Measurement:
    return Measurement.rate(int(good.sum()), len(good))
