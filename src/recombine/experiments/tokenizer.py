"""Does the tokenizer decide whether a model composes? Farid et al. 2025, RQ1.

The models are those of experiments/objective.py; only what they see differs. `_all` tokenizers were
learned from every composition, the others from what models see (docs/decisions/015).

    recombine run tokenizer:vq_all --seed 0                # minutes on a GPU
    recombine run tokenizer:maskgit_all_small --seed 1     # 10 to 20 minutes on one core
"""

from dataclasses import replace

from recombine.experiment import Experiment
from recombine.experiments import jepa, objective
from recombine.experiments.autoencoder import KL, VQ
from recombine.experiments.setting import short
from recombine.views import Codes, Latents

kl, vq, pixels = objective.dit_kl, objective.dit_vq, objective.dit_pixels
LATENTS, VECTORS = Latents("tokenizer_kl_all", KL), Latents("tokenizer_vq_all", VQ)
CODES = Codes("tokenizer_vq_all", VQ)
WORDS = "on a tokenizer of every composition"


def of_all(experiment: Experiment, view: Codes | Latents, question: str) -> Experiment:
    """Return the experiment on a tokenizer that was learned from every composition."""
    return replace(experiment, question=f"{question} {WORDS}?", view=view)


kl_all = of_all(kl, LATENTS, "Does a DiT compose on latents,")
vq_all = of_all(vq, VECTORS, "Does a DiT compose on codes,")
maskgit_all = of_all(objective.maskgit, CODES, "Does MaskGIT compose")
kl_all_small = of_all(objective.dit_kl_small, LATENTS, "Does a small DiT compose on latents,")
vq_all_small = of_all(objective.dit_vq_small, VECTORS, "Does a small DiT compose on codes,")
maskgit_all_small = of_all(objective.maskgit_small, CODES, "Does a small MaskGIT compose")
jepa_all_small = of_all(jepa.small, CODES, "Does a small MaskGIT with JEPA compose")
mar_all_small = of_all(objective.mar_small, LATENTS, "Does a small MAR compose")
givt_all_small = of_all(objective.givt_small, LATENTS, "Does a small GIVT compose")
maskgit_steered_all_small = of_all(
    objective.maskgit_steered_small, CODES, "Does a small MaskGIT told like a DiT compose"
)
vq_tokens_all_small = of_all(
    objective.dit_vq_tokens_small,
    VECTORS,
    "Does a small DiT on codes, told like a MaskGIT, compose",
)
kl_tokens_all_small = of_all(
    objective.dit_kl_tokens_small,
    LATENTS,
    "Does a small DiT on latents, told like a MaskGIT, compose",
)
mar_steered_all_small = of_all(
    objective.mar_steered_small, LATENTS, "Does a small MAR told like a DiT compose"
)
givt_steered_all_small = of_all(
    objective.givt_steered_small, LATENTS, "Does a small GIVT told like a DiT compose"
)
SOON = f"compose after little training {WORDS}?"
kl_all_short = short(kl_all, f"Does a larger DiT on latents {SOON}")
vq_all_short = short(vq_all, f"Does a larger DiT on codes {SOON}")
maskgit_all_short = short(maskgit_all, f"Does a larger MaskGIT {SOON}")
