"""What keeps a small MaskGIT composing? Codes of what is seen (docs/decisions/020).

Some seeds learn to compose and lose it again late in training, with JEPA and without. Here is what
might keep it: weights that decay, blocks that are hidden. Neither was shown to.

    recombine run repair --seed 0                 # 10 to 20 minutes on one core
    recombine run repair:jepa_steered --tiny      # does it run at all?
"""

from dataclasses import replace

from recombine.experiment import Experiment
from recombine.experiments import jepa, objective
from recombine.objectives.masked import Blocks, MaskedCrossEntropy


def decayed(experiment: Experiment, question: str, weight_decay: float = 1.0) -> Experiment:
    """Return the experiment with weights that decay."""
    budget = replace(experiment.budget, weight_decay=weight_decay)
    return replace(experiment, question=question, budget=budget)


WORDS = "compose when its weights decay"
base = decayed(jepa.small, f"Does a small MaskGIT with JEPA {WORDS}?")
less = decayed(jepa.small, "Does it when they decay a third as fast?", 0.3)
more = decayed(jepa.small, "Does it when they decay three times as fast?", 3.0)
maskgit = decayed(objective.maskgit_small, f"Does a small MaskGIT {WORDS}?")
maskgit_less = decayed(
    objective.maskgit_small, "Does a small MaskGIT when they decay a third as fast?", 0.3
)
jepa_steered = decayed(
    jepa.steered_small, f"Does a small MaskGIT told like a DiT, with JEPA, {WORDS}?"
)
blocks = replace(
    jepa.small,
    question="Does a small MaskGIT with JEPA compose when blocks are hidden?",
    objective=jepa.NORMALISED(MaskedCrossEntropy(Blocks())),
)
