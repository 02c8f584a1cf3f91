"""The models of Farid et al. 2025 on shapes that stand still, where MaskGIT fails (decision 019).

8 layers and at most 4 M weights each, the same training; tokenizers of every composition, `_seen`
of what is seen: there MaskGIT lacks codes where it would need them (experiments/code_places.py).

    recombine run still --seed 1            # a DiT on codes; for a GPU
    recombine run still:maskgit --tiny      # does it run at all?
"""

from dataclasses import replace

from recombine.experiment import Budget, Experiment
from recombine.experiments import jepa, objective
from recombine.experiments.tokenizer import CODES, LATENTS, VECTORS
from recombine.train import cosine
from recombine.views import View
from recombine.worlds.shapes2d import Shapes2D

LOOKS = (1_000, 2_500, 4_000, *range(5_500, 10_001, 500))
TRAINING = Budget(10_000, 64, 1e-3, 200, decay=cosine, ema=0.995, milestones=LOOKS)
PLACE = "where shapes stand still?"


def of(experiment: Experiment, view: View, question: str) -> Experiment:
    """Return the experiment on shapes that stand still."""
    assert isinstance(experiment.world, Shapes2D)
    world = replace(experiment.world, place_jitter=0.0)
    how = {"world": world, "view": view, "budget": TRAINING, "seeds": (1, 2, 3)}
    return replace(experiment, question=question, **how)  # type: ignore[arg-type]


def of_seen(experiment: Experiment, view: View, question: str) -> Experiment:
    """Return the experiment on the tokenizer that has learned from what is seen."""
    return replace(experiment, question=f"{question}, on a tokenizer of what is seen?", view=view)


def moving(experiment: Experiment, question: str) -> Experiment:
    """Return the experiment on shapes whose place varies."""
    return replace(experiment, question=question, world=objective.maskgit.world)


vq = of(objective.dit_vq, VECTORS, f"Does a DiT on codes compose {PLACE}")
kl = of(objective.dit_kl, LATENTS, f"Does a DiT on latents compose {PLACE}")
mar = of(objective.mar, LATENTS, f"Does MAR compose {PLACE}")
givt = of(objective.givt, LATENTS, f"Does GIVT compose {PLACE}")
maskgit = of(objective.maskgit, CODES, f"Does MaskGIT compose {PLACE}")
with_jepa = replace(
    of(jepa.normalised, CODES, f"Does MaskGIT with JEPA compose {PLACE}"), asks=jepa.base.asks
)
steered = of(objective.maskgit_steered, CODES, f"Does MaskGIT told like a DiT compose {PLACE}")
vq_tokens = of(objective.dit_vq_tokens, VECTORS, f"Does a DiT told like a MaskGIT compose {PLACE}")
maskgit_moving = moving(maskgit, "Does MaskGIT compose after this training where places vary?")
vq_moving = moving(vq, "Does a DiT on codes compose after this training where places vary?")
vq_seen = of_seen(vq, objective.dit_vq.view, "Does a DiT on codes compose")
kl_seen = of_seen(kl, objective.dit_kl.view, "Does a DiT on latents compose")
mar_seen = of_seen(mar, objective.mar.view, "Does MAR compose")
givt_seen = of_seen(givt, objective.givt.view, "Does GIVT compose")
maskgit_seen = of_seen(maskgit, objective.maskgit.view, "Does MaskGIT compose")
with_jepa_seen = of_seen(with_jepa, objective.maskgit.view, "Does MaskGIT with JEPA compose")
