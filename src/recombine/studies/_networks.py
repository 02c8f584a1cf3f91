"""The cells of the factorial: loss x corruption x conditioning on the same code vectors.

All networks have the width, the layers and the attention heads of the others. What a head or the
conditioning costs is made up for by the neurons of the MLPs, so that parameters are within 2 %.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from recombine.condition import Labels
from recombine.denoiser import Objective
from recombine.models.blocks import parameters_of
from recombine.models.code_denoiser import CodeDenoiser
from recombine.models.dit import DiT
from recombine.models.entry import FactorRows, Vector
from recombine.models.heads import DiffusionHead, DistanceHead, Head, LogitHead, MixtureHead
from recombine.models.masked import Masked
from recombine.objectives.codes import CodeDiffusion
from recombine.objectives.diffusion import Diffusion
from recombine.objectives.masked import (
    MaskedCrossEntropy,
    MaskedDiffusion,
    MaskedMixture,
    MaskedSquaredError,
)
from recombine.sample.heun import Sampler
from recombine.sample.unmask import Unmask
from recombine.views import Codes, Latents

Combination: TypeAlias = tuple[str, str, str]
"""Corruption, loss and conditioning."""

WIDTH, LAYERS, HEADS = 96, 8, 4
INNER: Mapping[Combination, int] = {
    ("noise", "squared", "adaln"): 256,
    ("noise", "squared", "tokens"): 256,
    ("noise", "cross_entropy", "adaln"): 240,
    ("noise", "cross_entropy", "tokens"): 240,
    ("masks", "squared", "adaln"): 264,
    ("masks", "squared", "tokens"): 568,
    ("masks", "cross_entropy", "adaln"): 232,
    ("masks", "cross_entropy", "tokens"): 536,
    ("masks", "cross_entropy_of_vectors", "adaln"): 264,
    ("masks", "cross_entropy_of_vectors", "tokens"): 568,
    ("masks", "likelihood", "adaln"): 248,
    ("masks", "likelihood", "tokens"): 552,
    ("masks", "token_diffusion", "adaln"): 208,
    ("masks", "token_diffusion", "tokens"): 512,
}
"""The neurons of each MLP, in multiples of 8, for 1.18 million parameters."""

DENOISING = Diffusion(sigma_data=1.0)
DESCENT = Sampler(steps=18)


@dataclass(frozen=True)
class Ingredients:
    """What a cell of the factorial puts into a training, and how its model is sampled."""

    network: DiT | CodeDenoiser | Masked
    objective: Objective
    view: Latents | Codes
    sampler: Sampler | Unmask

    @property
    def parameters(self) -> int:
        """How many numbers the network learns, without the predictors of JEPA."""
        return parameters_of(self.network)

    def forward_flops(self, labels: Labels) -> int:
        """Return the floating-point operations of the loss of one image, without the gradient."""
        of = self.network.of if isinstance(self.network, CodeDenoiser) else self.network
        shape = of.shape if isinstance(of, Masked) else (of.channels, of.size, of.size)
        whole = isinstance(self.view, Codes)
        image = torch.zeros(1, *shape, dtype=torch.long if whole else torch.float32)
        condition = torch.zeros(1, len(labels.values), labels.features + 1)
        model, draws = self.objective.wrap(self.network.build()), torch.Generator()
        # The counter knows plain attention on every device.
        with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
            self.objective(model, image, condition, generator=draws)
        return int(counter.get_total_flops())


def factorial(vectors: Latents, labels: Labels) -> dict[Combination, Ingredients]:
    """Return all cells, in the code vectors of this view and conditioned on such labels."""
    return {each: parts(each, vectors, labels) for each in INNER}


def parts(combination: Combination, vectors: Latents, labels: Labels) -> Ingredients:
    """Return one cell: for MAR and GIVT as published the view may be of KL latents."""
    corruption, loss, conditioning = combination
    rows = FactorRows(len(labels.values), labels.features)
    inner, latent, side = INNER[combination], vectors.of.latent, vectors.of.side
    if corruption == "noise":
        row = Vector(rows.factors * (rows.features + 1))
        entry = row if conditioning == "adaln" else rows
        dit = DiT(latent, side, 1, entry, WIDTH, LAYERS, HEADS, inner)
        if loss == "squared":
            return Ingredients(dit, DENOISING, vectors, DESCENT)
        of = CodeDenoiser(dit, vectors)
        return Ingredients(of, CodeDiffusion(diffusion=DENOISING), vectors, DESCENT)
    head, objective = _masked(loss, vectors)
    adaln = conditioning == "adaln"
    masked = Masked(side, rows.factors, rows.features, head, WIDTH, LAYERS, HEADS, adaln, inner)
    view = Codes(vectors.name, vectors.of) if masked.discrete else vectors
    return Ingredients(masked, objective, view, Unmask(descent=DESCENT))


def _masked(loss: str, vectors: Latents) -> tuple[Head, Objective]:
    """Return the head and the objective of a masked model."""
    latent = vectors.of.latent
    match loss:
        case "squared":
            return DistanceHead(vectors, separate=True), MaskedSquaredError(book=vectors)
        case "cross_entropy":
            return LogitHead(vectors.of.codes or 0), MaskedCrossEntropy()
        case "cross_entropy_of_vectors":
            return DistanceHead(vectors), MaskedCrossEntropy()
        case "likelihood":
            return MixtureHead(latent), MaskedMixture()
        case "token_diffusion":
            head = DiffusionHead(latent, width=64, sigma_data=DENOISING.sigma_data)
            return head, MaskedDiffusion(diffusion=DENOISING)
    raise ValueError(f"no masked model has the loss {loss!r}")
