"""What decides whether MaskGIT composes, its size or its training? Each is changed alone.

Of experiments/objective.py a MaskGIT of 8 layers composes and three seeds of one of 4 did not, but
the latter is also trained on a thirtieth of the images. Here are the other two of four: `_narrow`,
a small network in the long training, and `_short`, a larger one in the short (docs/decisions/014).

    recombine run setting:maskgit_narrow --seed 0     # for a GPU: 20,000 steps of 256 images
    recombine run setting:maskgit_short --seed 0
"""

from dataclasses import replace

from recombine.experiment import Experiment
from recombine.experiments import objective
from recombine.experiments.objective import SHORT, narrowed

# Seed 0 is the trial by which a setting is chosen.
CONFIRMED = (1, 2, 3)


def narrow(experiment: Experiment, question: str) -> Experiment:
    """Return the experiment with a small network, trained as long."""
    return replace(experiment, question=question, network=narrowed(experiment), seeds=CONFIRMED)


def short(experiment: Experiment, question: str) -> Experiment:
    """Return the experiment with the training of small networks."""
    return replace(experiment, question=question, budget=SHORT, seeds=CONFIRMED)


maskgit_narrow = narrow(objective.maskgit, "Does a small MaskGIT compose when trained for long?")
dit_vq_narrow = narrow(objective.dit_vq, "Does a small DiT on codes compose when trained for long?")
dit_kl_narrow = narrow(
    objective.dit_kl, "Does a small DiT on latents compose when trained for long?"
)
maskgit_short = short(objective.maskgit, "Does a larger MaskGIT compose after little training?")
dit_vq_short = short(objective.dit_vq, "Does a larger DiT on codes compose after little training?")
dit_kl_short = short(
    objective.dit_kl, "Does a larger DiT on latents compose after little training?"
)
