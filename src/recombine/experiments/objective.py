"""Does a discrete objective hurt composition? Same data, same probe, one thing varied.

Farid et al. 2025 (arXiv 2510.03075), RQ2: a DiT, MAR and GIVT model continuous latents, MaskGIT
codes. All see four of eight compositions of Shapes2D, told as labels, and are asked for all.

    recombine run objective:maskgit          # 10 minutes on one core
"""

from dataclasses import replace
from typing import Any

from recombine.condition import Conditioner, Labels, all_objects
from recombine.experiment import Budget, Experiment
from recombine.experiments.autoencoder import KL, VQ
from recombine.measure.composition import Composition
from recombine.models.dit import DiT
from recombine.models.entry import Vector
from recombine.models.heads import DiffusionHead, MixtureHead
from recombine.models.heads import LogitHead as CodeHead
from recombine.models.masked import Masked
from recombine.objectives.diffusion import Diffusion
from recombine.objectives.jepa import Jepa
from recombine.objectives.masked import MaskedCrossEntropy, MaskedDiffusion, MaskedMixture
from recombine.sample.heun import Sampler
from recombine.sample.unmask import Unmask
from recombine.train import cosine
from recombine.views import Codes, Latents
from recombine.worlds.shapes2d import BINARY, Shapes2D

LABELS = Labels((2, 2, 2))
NETWORK: dict[str, Any] = {"layers": 4, "width": 64, "heads": 4}
TRUNK = Masked(features=LABELS.features, **NETWORK)

dit_kl = Experiment(
    question="Does a DiT on the latents of a KL autoencoder compose?",
    world=Shapes2D(among=BINARY.seen),
    network=DiT(KL.latent, KL.side, entry=Vector(9), **NETWORK),
    budget=Budget(
        steps=5_000,
        batch=32,
        learning_rate=1e-3,
        warm_up=200,
        decay=cosine,
        ema=0.995,
        milestones=(1_000, 2_000, 3_000, 4_000, 5_000),
    ),
    asks=(Composition(),),
    headline=("accuracy@level2", "accuracy@level0"),
    conditioner=Conditioner(all_objects, LABELS),
    objective=Diffusion(sigma_data=1.0),
    sampler=Sampler(steps=18),
    view=Latents("tokenizer_kl", KL),
    seeds=(1,),
)
dit_vq = replace(
    dit_kl,
    question="Does a DiT on the code vectors of a VQ compose?",
    view=Latents("tokenizer_vq", VQ),
)
maskgit = replace(
    dit_kl,
    question="Does MaskGIT, a discrete objective, compose?",
    network=replace(TRUNK, head=CodeHead(VQ.codes or 0)),
    objective=MaskedCrossEntropy(),
    sampler=Unmask(),
    view=Codes("tokenizer_vq", VQ),
)
maskgit_jepa = replace(
    maskgit,
    question="Does MaskGIT compose with JEPA beside it?",
    objective=Jepa(layers=(1, 2, 3), normalised=True)(MaskedCrossEntropy()),
)
mar = replace(
    dit_kl,
    question="Does MAR, masked but continuous, compose?",
    network=replace(TRUNK, head=DiffusionHead(KL.latent, sigma_data=1.0)),
    objective=MaskedDiffusion(diffusion=Diffusion(sigma_data=1.0)),
    sampler=Unmask(descent=Sampler(steps=18)),
)
givt = replace(
    mar,
    question="Does GIVT, masked with a Gaussian mixture, compose?",
    network=replace(TRUNK, head=MixtureHead(KL.latent)),
    objective=MaskedMixture(),
    sampler=Unmask(),
)
