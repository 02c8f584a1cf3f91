"""Small masked models with every head, their objectives, tokens and conditions."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from recombine.models.heads import DiffusionHead, LogitHead, MixtureHead
from recombine.models.masked import Masked
from recombine.objectives.masked import MaskedCrossEntropy, MaskedDiffusion, MaskedMixture

CODES = Masked(side=4, factors=2, features=1, head=LogitHead(8), width=32, layers=2, heads=4)
MIXTURE = replace(CODES, head=MixtureHead(latent=3, components=5))
DENOISING = replace(CODES, head=DiffusionHead(latent=3, width=16))
OBJECTIVES = [
    (CODES, MaskedCrossEntropy()),
    (MIXTURE, MaskedMixture()),
    (DENOISING, MaskedDiffusion(draws=2)),
]
ADALN = replace(CODES, adaln=True)
each_model = pytest.mark.parametrize("declared", [CODES, MIXTURE, DENOISING, ADALN])
either_way = pytest.mark.parametrize("declared", [CODES, ADALN])
each_objective = pytest.mark.parametrize(("declared", "objective"), OBJECTIVES)


def tokens_of(declared: Masked, batch: int, rng: torch.Generator) -> Tensor:
    shape = (batch, *declared.shape)
    if isinstance(declared.head, LogitHead):
        return torch.randint(declared.head.count, shape, generator=rng)
    return torch.randn(shape, generator=rng)


def conditions(batch: int, rng: torch.Generator) -> Tensor:
    value = torch.randn(batch, 2, 1, generator=rng)
    return torch.cat([value, torch.ones(batch, 2, 1)], dim=2)
