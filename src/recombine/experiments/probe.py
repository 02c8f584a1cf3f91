"""How well does a small network read the factors of single objects?

    recombine run probe --tiny         # does it run at all? seconds on a CPU
    recombine run probe                # the reader of the shapes2d study; minutes on a CPU
    recombine run probe:linear         # the papers' own, linear in the pixels

It learns from every composition, held-out ones included, so that it can name what it sees; what it
reads says nothing about itself. Measured on renders it never saw, as they are and with noise.
"""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeAlias

import torch

from recombine.condition import Conditioner, all_objects
from recombine.experiment import Budget, Experiment, Findings, Trained
from recombine.measure.composition import accuracies
from recombine.measurement import Measurement
from recombine.models.probe import Probe, ProbeReader
from recombine.objectives.classification import Classification, concepts
from recombine.scene import Concepts
from recombine.split import Split
from recombine.train import cosine
from recombine.views import Unchanged
from recombine.worlds.files.celeba import CELEBA, CelebA
from recombine.worlds.shapes2d import BINARY, FewShapes2D, Shapes2D
from recombine.worlds.shapes3d import SHAPES3D_240, Shapes3D

FRESH = 10_037
"""The seed of the scenes it is measured on; no training has it."""
FACES = CelebA(Path("celeba"))
"""Where the files of CelebA are looked for: in the folder `celeba` where a command is run."""

Single: TypeAlias = Shapes2D | Shapes3D | CelebA
"""Worlds of one object, or face, to an image."""


@dataclass(frozen=True)
class ProbeError:
    """Read so many fresh renders of every composition, also with `noise` on them."""

    split: Split
    samples: int = 256
    noise: float = 0.05

    def __call__(self, trained: Trained, generator: torch.Generator) -> Findings:
        """Render, mar, read and compare."""
        network, world = trained.experiment.network, trained.experiment.world
        assert isinstance(network, Probe)
        assert isinstance(world, Single)
        reader = ProbeReader(trained.denoiser, network)
        plain, marred = {}, {}
        for which in self.split.compositions:
            images = fresh(world, which, self.samples, trained.device)
            noise = torch.randn(images.shape, generator=generator, device=generator.device)
            plain[which] = reader(images)
            marred[which] = reader(images + self.noise * noise.to(images.device))
        found = accuracies(self.split, plain) | accuracies(self.split, marred, "_noisy")
        return Findings(overall(found, "") | overall(found, "_noisy") | found)

    def tiny(self) -> "ProbeError":
        """Return the same question with few samples."""
        return replace(self, samples=2)


def overall(found: dict[str, Measurement], whose: str) -> dict[str, Measurement]:
    """Return the rate over all levels."""
    levels = [each for name, each in found.items() if name.startswith(f"accuracy{whose}@level")]
    right = sum(round(each.value * each.n) for each in levels)
    return {f"accuracy{whose}": Measurement.rate(right, sum(each.n for each in levels))}


def fresh(
    world: Single, which: Concepts, samples: int, device: torch.device, first: int = 0
) -> torch.Tensor:
    """Return renders, or faces, of a composition that no training has seen, from a number on."""
    number = torch.arange(first, first + samples, device=device)
    if isinstance(world, CelebA):
        return tested(world, which).image_of(number)
    only = replace(world.endless if isinstance(world, FewShapes2D) else world, among=(which,))
    return only.image(only.scenes(number, FRESH))


@cache
def tested(faces: CelebA, which: Concepts) -> CelebA:
    """Return the faces of a composition that are kept for testing; their list is read once."""
    return replace(faces, part="test", among=(which,))


base = Experiment(
    question="Which shape, size and colour does a small network see in a picture of Shapes2D?",
    world=Shapes2D(),
    network=Probe(),
    budget=Budget(steps=1_500, batch=128, learning_rate=1e-3, warm_up=50, decay=cosine, ema=0.99),
    asks=(ProbeError(BINARY),),
    headline=("accuracy", "accuracy_noisy"),
    conditioner=Conditioner(all_objects, concepts),
    objective=Classification(),
    view=Unchanged(),
    seeds=(0,),
)
linear = replace(
    base,
    question="What does a probe that is linear in the pixels see there?",
    network=Probe(linear=True),
)
shapes3d = replace(
    base,
    question="Which hue, shape and scale does a small network see in a picture of Shapes3D?",
    world=Shapes3D(among=(*SHAPES3D_240.seen, *SHAPES3D_240.held_out)),
    network=Probe(64, Shapes3D.factors),
    objective=Classification(tuple(len(factor.concepts) for factor in Shapes3D.factors)),
    asks=(ProbeError(SHAPES3D_240, samples=16),),
)
celeba = replace(
    base,
    question="Which sex, smile and hair does a small network see in a face?",
    world=replace(FACES, among=(*CELEBA.seen, *CELEBA.held_out)),
    network=Probe(FACES.size, CelebA.factors),
    asks=(ProbeError(CELEBA, samples=64),),
)
