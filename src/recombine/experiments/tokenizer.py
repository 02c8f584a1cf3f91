"""Does the tokenizer decide whether a DiT composes? Farid et al. 2025, RQ1.

The models are those of experiments/objective.py; only what the DiT sees differs.

    recombine run tokenizer:all --seeds 0-2
"""

from dataclasses import replace

from recombine.experiments import objective
from recombine.experiments.autoencoder import VQ
from recombine.views import Latents

kl, vq, pixels = objective.dit_kl, objective.dit_vq, objective.dit_pixels
vq_all = replace(
    vq,
    question="Does a DiT compose better on codes that were learned from every composition?",
    view=Latents("tokenizer_vq_all", VQ),
    asks=(objective.Composition(),),
)
