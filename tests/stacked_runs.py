"""Small runs of every family that are stacked, and the same runs one by one."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from recombine.models.code_denoiser import CodeDenoiser
from recombine.models.dit import DiT
from recombine.models.entry import FactorRows, Tokens, Vector
from recombine.models.heads import DiffusionHead, DistanceHead, LogitHead, MixtureHead
from recombine.models.masked import Masked
from recombine.models.mlp import MLP
from recombine.objectives.codes import CodeDiffusion
from recombine.objectives.diffusion import Diffusion, Dropout, StepDiffusion
from recombine.objectives.jepa import Jepa, JepaObjective
from recombine.objectives.masked import (
    MaskedCrossEntropy,
    MaskedDiffusion,
    MaskedMixture,
    MaskedSquaredError,
    MostHidden,
)
from recombine.train import Step, Taken, Weights, train
from subjects import perturbed

CODES, SIDE, RUNS = 12, 4, 3
RATES, CLIPS, AVERAGES = (1e-3, 3e-3, 5e-4), (0.3, 1.0, 5.0), (0.9, 0.5, 0.8)
"""Of each run; the first clip is far below the norm of most gradients."""


@dataclass(frozen=True)
class Book:
    """Vectors of codes that no tokenizer has made."""

    def vectors(self) -> Tensor:
        return torch.randn(CODES, 3, generator=torch.Generator().manual_seed(5))


@dataclass(frozen=True)
class Family:
    """A network with an objective, and the shape of its condition."""

    network: Any
    objective: Any
    condition: tuple[int, ...] = (2, 3)

    @property
    def discrete(self) -> bool:
        return isinstance(self.network, Masked) and self.network.discrete


def masked(head: Any, adaln: bool = False) -> Masked:
    sizes = {"side": SIDE, "factors": 2, "features": 2, "width": 16, "layers": 2, "heads": 2}
    return Masked(head=head, adaln=adaln, **sizes)


def dit(entry: Any) -> DiT:
    return DiT(3, SIDE, entry=entry, width=16, layers=2, heads=2)


JEPA = Jepa(layers=(0, 1))
VECTORS = DistanceHead(Book(), separate=True)
MAR = DiffusionHead(3, blocks=1, width=16)
FAMILIES = {
    "dit": Family(dit(Vector(6)), Diffusion(sigma_data=1.0)),
    "dit_dropout": Family(dit(Vector(6)), Diffusion(dropout=Dropout(torch.zeros_like, 0.5))),
    "dit_prefix": Family(dit(FactorRows(2, 2)), Diffusion(sigma_data=1.0)),
    "dit_attends": Family(dit(Tokens(3, 2)), Diffusion(sigma_data=1.0)),
    "dit_jepa": Family(dit(Vector(6)), JEPA(Diffusion(sigma_data=1.0))),
    "maskgit": Family(masked(LogitHead(CODES)), MaskedCrossEntropy()),
    "maskgit_adaln": Family(masked(LogitHead(CODES), True), MaskedCrossEntropy()),
    "maskgit_jepa": Family(masked(LogitHead(CODES)), JEPA(MaskedCrossEntropy())),
    "distance": Family(masked(DistanceHead(Book())), MaskedCrossEntropy()),
    "squared": Family(masked(VECTORS, True), MaskedSquaredError(book=Book())),
    "squared_jepa": Family(masked(VECTORS), JEPA(MaskedSquaredError(book=Book()))),
    "givt": Family(masked(MixtureHead(3, 4)), MaskedMixture()),
    "givt_adaln": Family(masked(MixtureHead(3, 4), True), MaskedMixture()),
    "givt_jepa": Family(masked(MixtureHead(3, 4), True), JEPA(MaskedMixture())),
    "mar": Family(masked(MAR), MaskedDiffusion(MostHidden(), draws=2)),
    "mar_adaln": Family(masked(MAR, True), MaskedDiffusion(draws=2)),
    "mar_jepa": Family(masked(MAR), JEPA(MaskedDiffusion(draws=2))),
    "codes": Family(CodeDenoiser(dit(Vector(6)), Book()), CodeDiffusion()),
    "codes_squared": Family(CodeDenoiser(dit(Vector(6)), Book()), CodeDiffusion(False)),
    "codes_even": Family(CodeDenoiser(dit(FactorRows(2, 2)), Book()), CodeDiffusion(False, weighed=False)),
    "points": Family(MLP(3 * SIDE**2, 6, width=16), StepDiffusion()),
}


def doubled(image: Tensor) -> Tensor:
    """See twice the image: a view that is no identity."""
    return 2 * image


def started(family: Family, device: str = "cpu") -> list[Step]:
    """Return the steps of the runs, each with weights and random numbers of its own."""
    steps = []
    for run in range(RUNS):
        torch.manual_seed(run)
        network = perturbed(family.objective.wrap(family.network.build()).to(device))
        weights = Weights.of(network, AVERAGES[run], weight_decay=0.1)
        rng = torch.Generator(device).manual_seed(10 + run)
        average = weights.average.module if isinstance(family.objective, JepaObjective) else None
        view = None if family.discrete else doubled
        steps.append(Step(weights, family.objective, CLIPS[run], rng, average=average, view=view))
    return steps


def batches(family: Family, run: int, device: str = "cpu") -> Iterator[tuple[Tensor, Tensor]]:
    """Return the images and conditions of a run; those of each run are its own."""
    rng = torch.Generator().manual_seed(100 + run)
    while True:
        shape = (6, *((SIDE, SIDE) if family.discrete else (3, SIDE, SIDE)))
        latents = torch.randn(shape, generator=rng) / 2
        image = torch.randint(CODES, shape, generator=rng) if family.discrete else latents
        condition = torch.randn(6, *family.condition, generator=rng)
        condition[..., -1] = (condition[..., -1] > -0.5).float()
        yield image.to(device), condition.to(device)


def together(family: Family, device: str = "cpu") -> Iterator[tuple[Tensor, Tensor]]:
    """Return the batches of all runs, stacked."""
    for each in zip(*(batches(family, run, device) for run in range(RUNS)), strict=True):
        images, conditions = zip(*each, strict=True)
        yield torch.stack(images), torch.stack(conditions)


def rates(at: int) -> list[float]:
    return [rate / at**0.5 for rate in RATES]


def alone(family: Family, count: int, device: str = "cpu") -> tuple[Tensor, list[Step]]:
    """Take the steps of each run by itself; return its losses and its end."""
    steps, losses = started(family, device), []
    for run, step in enumerate(steps):
        taken = train(step, batches(family, run, device), lambda at, run=run: rates(at)[run], range(1, count + 1))
        losses.append(torch.stack([each.loss for each in taken]))
    return torch.stack(losses, dim=1), steps


def losses_of(taken: Iterator[Taken]) -> Tensor:
    return torch.stack([each.loss for each in taken])
