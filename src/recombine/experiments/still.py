"""The models of Farid et al. 2025 on shapes that stand still (docs/decisions/019).

8 layers and at most 4 M weights each, the same training. Tokenizers are of every composition, those
of `_seen` and `_large` (the paper's size) of what is seen: there seen codes at seen places draw few
new compositions (code_places.py). `_steered` models are told like a DiT (docs/decisions/020).

    recombine run still --seed 1            # a DiT on codes; for a GPU
    recombine run still:maskgit --tiny      # does it run at all?
"""

from dataclasses import replace

from recombine.experiment import Budget, Experiment
from recombine.experiments import jepa, objective
from recombine.experiments.objective import Composition
from recombine.experiments.tokenizer import CODES, LATENTS, VECTORS
from recombine.models.dit import DiT
from recombine.models.masked import Masked
from recombine.objectives.jepa import Jepa
from recombine.objectives.masked import MaskedCrossEntropy, MaskedDiffusion, Most
from recombine.train import cosine
from recombine.views import View
from recombine.worlds.shapes2d import Shapes2D

LOOKS = (1_000, 2_500, 4_000, *range(5_500, 10_001, 500))
TRAINING = Budget(10_000, 64, 1e-3, 200, decay=cosine, ema=0.995, milestones=LOOKS)


def standing(experiment: Experiment, view: View, question: str) -> Experiment:
    """Return the experiment on shapes that stand still."""
    assert isinstance(experiment.world, Shapes2D)
    how = {"world": experiment.world.still, "view": view, "budget": TRAINING, "seeds": (1, 2, 3)}
    return replace(experiment, question=f"{question} where shapes stand still?", **how)  # type: ignore[arg-type]


def on_seen(experiment: Experiment, view: View) -> Experiment:
    """Return the experiment on the tokenizer that has learned from what is seen."""
    question = f"{experiment.question.removesuffix('?')}, on a tokenizer of what is seen?"
    return replace(experiment, question=question, view=view)


vq = standing(objective.dit_vq, VECTORS, "Does a DiT on codes compose")
kl = standing(objective.dit_kl, LATENTS, "Does a DiT on latents compose")
mar = standing(objective.mar, LATENTS, "Does MAR compose")
givt = standing(objective.givt, LATENTS, "Does GIVT compose")
maskgit = standing(objective.maskgit, CODES, "Does MaskGIT compose")
with_jepa = replace(
    standing(jepa.normalised, CODES, "Does MaskGIT with JEPA compose"), asks=jepa.base.asks
)
steered = standing(objective.maskgit_steered, CODES, "Does MaskGIT told like a DiT compose")
mar_steered = standing(objective.mar_steered, LATENTS, "Does MAR told like a DiT compose")
givt_steered = standing(objective.givt_steered, LATENTS, "Does GIVT told like a DiT compose")
jepa_steered = replace(
    standing(objective.maskgit_steered, CODES, "Does MaskGIT told like a DiT, with JEPA, compose"),
    objective=with_jepa.objective,
    asks=with_jepa.asks,
)
vq_seen = on_seen(vq, objective.dit_vq.view)
kl_seen = on_seen(kl, objective.dit_kl.view)
mar_seen = on_seen(mar, objective.mar.view)
givt_seen = on_seen(givt, objective.givt.view)
maskgit_seen = on_seen(maskgit, objective.maskgit.view)
steered_seen = on_seen(steered, objective.maskgit.view)
with_jepa_seen = on_seen(with_jepa, objective.maskgit.view)
mar_steered_seen = on_seen(mar_steered, objective.mar.view)
assert isinstance(mar_steered_seen.objective, MaskedDiffusion)
mar_most_seen = replace(
    mar_steered_seen,
    question="Does MAR told like a DiT compose if most tokens are hidden, as its authors do?",
    objective=replace(mar_steered_seen.objective, portion=Most()),
)
givt_steered_seen = on_seen(givt_steered, objective.givt.view)


def large(seen: Experiment, question: str) -> Experiment:
    """Return the experiment with a network of the paper's size, one seed, not to be shipped."""
    assert isinstance(seen.network, DiT | Masked)
    network = replace(seen.network, width=384, layers=12, heads=6)
    how = {"network": network, "asks": (Composition(),), "seeds": (0,)}
    there = replace(seen, question=f"{question} where shapes stand still?", **how)  # type: ignore[arg-type]
    return on_seen(there, seen.view)


vq_large = large(vq_seen, "Does a DiT of the paper's size compose")
maskgit_large = large(maskgit_seen, "Does MaskGIT of the paper's size compose")
with_jepa_large = replace(
    large(with_jepa_seen, "Does MaskGIT of the paper's size compose with JEPA"),
    objective=Jepa(layers=(7, 9, 11), normalised=True)(MaskedCrossEntropy()),
)
