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

F32 = torch.float32
CODES, SIDE, RUNS = 12, 4, 2
RATES, CLIPS, AVERAGES = (1e-3, 3e-3), (0.3, 5.0), (0.9, 0.5)
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
HEADS = {
    "maskgit": (LogitHead(CODES), MaskedCrossEntropy()),
    "distance": (DistanceHead(Book()), MaskedCrossEntropy()),
    "squared": (DistanceHead(Book(), separate=True), MaskedSquaredError(book=Book())),
    "givt": (MixtureHead(3, 4), MaskedMixture()),
    "mar": (DiffusionHead(3, blocks=1, width=16), MaskedDiffusion(MostHidden(), draws=2)),
}
DIFFUSION = Diffusion(sigma_data=1.0)
CODE_DENOISER = CodeDenoiser(dit(Vector(6)), Book())
FAMILIES = {
    "dit": Family(dit(Vector(6)), DIFFUSION),
    "dit_dropout": Family(dit(Vector(6)), Diffusion(dropout=Dropout(torch.zeros_like, 0.5))),
    "dit_prefix": Family(dit(FactorRows(2, 2)), DIFFUSION),
    "dit_attends": Family(dit(Tokens(3, 2)), DIFFUSION),
    "dit_jepa": Family(dit(Vector(6)), JEPA(DIFFUSION)),
    "codes": Family(CODE_DENOISER, CodeDiffusion()),
    "codes_squared": Family(CODE_DENOISER, CodeDiffusion(False, weighed=False)),
    "points": Family(MLP(3 * SIDE**2, 6, width=16), StepDiffusion()),
} | {
    f"{name}{'_adaln' * adaln}{'_jepa' * jepa}": Family(
        masked(head, adaln), JEPA(objective) if jepa else objective
    )
    for name, (head, objective) in HEADS.items()
    for adaln in (False, True)
    for jepa in (False, True)
}


def doubled(image: Tensor) -> Tensor:
    """See twice the image: a view that is no identity."""
    return 2 * image


def started(family: Family, device: str = "cpu", dtype: torch.dtype = F32) -> list[Step]:
    """Return the steps of the runs, each with weights and random numbers of its own."""
    steps = []
    for run in range(RUNS):
        torch.manual_seed(run)
        network = perturbed(family.objective.wrap(family.network.build())).to(device, dtype)
        weights = Weights.of(network, AVERAGES[run], weight_decay=0.1)
        rng = torch.Generator(device).manual_seed(10 + run)
        average = weights.average.module if isinstance(family.objective, JepaObjective) else None
        view = None if family.discrete else doubled
        steps.append(Step(weights, family.objective, CLIPS[run], rng, average=average, view=view))
    return steps


def batches(
    family: Family, run: int, device: str = "cpu", dtype: torch.dtype = F32
) -> Iterator[tuple[Tensor, Tensor]]:
    """Return the images and conditions of a run; those of each run are its own."""
    rng = torch.Generator().manual_seed(100 + run)
    while True:
        shape = (5, *((SIDE, SIDE) if family.discrete else (3, SIDE, SIDE)))
        latents = torch.randn(shape, generator=rng).to(dtype) / 2
        image = torch.randint(CODES, shape, generator=rng) if family.discrete else latents
        condition = torch.randn(5, *family.condition, generator=rng).to(dtype)
        condition[..., -1] = (condition[..., -1] > -0.5).to(dtype)
        yield image.to(device), condition.to(device)


def together(
    family: Family, device: str = "cpu", dtype: torch.dtype = F32
) -> Iterator[tuple[Tensor, Tensor]]:
    """Return the batches of all runs, stacked."""
    for each in zip(*(batches(family, run, device, dtype) for run in range(RUNS)), strict=True):
        images, conditions = zip(*each, strict=True)
        yield torch.stack(images), torch.stack(conditions)


def rates(at: int) -> list[float]:
    return [rate / at**0.5 for rate in RATES]


def alone(
    family: Family, count: int, device: str = "cpu", dtype: torch.dtype = F32
) -> tuple[Tensor, list[Step]]:
    """Take the steps of each run by itself; return its losses and its end."""
    steps, losses = started(family, device, dtype), []
    for run, step in enumerate(steps):
        given = batches(family, run, device, dtype)
        taken = train(step, given, lambda at, run=run: rates(at)[run], range(1, count + 1))
        losses.append(losses_of(taken))
    return torch.stack(losses, dim=1), steps


def losses_of(taken: Iterator[Taken]) -> Tensor:
    return torch.stack([each.loss for each in taken])
