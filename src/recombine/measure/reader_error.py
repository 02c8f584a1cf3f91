"""How well does a reader of single objects read fresh renders, as they are and with noise?

It learns from every composition, held-out ones included, so that it can name what it sees.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from recombine.measure.composition import accuracies
from recombine.measure.renders import fresh, single_object_world
from recombine.measure.subject import Findings, Subject, inapplicable
from recombine.measurement import Measurement
from recombine.split import Split
from recombine.worlds.shapes2d import BINARY


@dataclass(frozen=True)
class ReaderError:
    """Read so many fresh renders of every composition, also with `noise` on them."""

    split: Split = BINARY
    samples: int = 256
    noise: float = 0.05

    name: ClassVar[str] = "reader_error"

    def __call__(self, subject: Subject, generator: torch.Generator) -> Findings:
        """Render, read and compare."""
        network = subject.training.network
        if not hasattr(network, "factor_reader"):
            raise inapplicable(self.name, "readers of single objects", network)
        world = single_object_world(self.name, subject.training, self.split)
        reader = network.factor_reader(subject.denoiser)
        plain, with_noise = {}, {}
        for which in self.split.compositions:
            images = fresh(world, which, self.samples, subject.device)
            noise = torch.randn(images.shape, generator=generator, device=generator.device)
            plain[which] = reader(images)
            with_noise[which] = reader(images + self.noise * noise.to(images.device))
        found = accuracies(self.split, plain) | accuracies(self.split, with_noise, "_noisy")
        return Findings(overall(found, "") | overall(found, "_noisy") | found)

    def tiny(self) -> "ReaderError":
        """Return the same measurement with few samples."""
        return replace(self, samples=2)


def overall(found: Mapping[str, Measurement], whose: str) -> dict[str, Measurement]:
    """Return the rate over all levels."""
    levels = [each for name, each in found.items() if name.startswith(f"accuracy{whose}@level")]
    right = sum(round(each.value * each.n) for each in levels)
    return {f"accuracy{whose}": Measurement.rate(right, sum(each.n for each in levels))}
