"""Does incomplete conditioning hurt composition? Farid et al. 2025, RQ3.

A DiT on the code vectors of a VQ is told the actual values of each picture (`full`) or labels; some
factors may go untold in training, with a proper null or by the mistakes of the authors' code.

`_small` ones are small networks (experiments/objective.py); told labels, that is its dit_vq_small.
`_still` ones are of `still`, on codes of what is seen; told labels, that is its vq_seen.

    recombine run conditioning:all --seeds 0-2
    recombine run conditioning:full_small --seeds 1-3     # a quarter of an hour a seed on one core
"""

from dataclasses import replace

from recombine.condition import Actual, Conditioner, Forgetful, everything
from recombine.experiment import Experiment
from recombine.experiments import objective, still
from recombine.experiments.objective import LABELS, Composition
from recombine.measure.composition import Expectation
from recombine.models.dit import DiT
from recombine.models.entry import Vector

assert isinstance(objective.dit_vq.network, DiT)

labels = replace(
    objective.dit_vq,
    question="Told labels, does a DiT compose?",
    asks=(Composition(expected=Expectation(0.63, "figure")),),
)
full = replace(
    labels,
    question="Told the actual size and colour, does a DiT compose?",
    network=replace(objective.dit_vq.network, entry=Vector(3 * (Actual().features + 1))),
    conditioner=Conditioner(everything, Actual()),
    asks=(Composition(expected=Expectation(1.0, "figure")),),
)
labels_dropout = replace(
    labels,
    question="Told labels of which some are left out, does it?",
    conditioner=Forgetful(everything, LABELS),
    asks=(Composition(expected=Expectation(0.0, "figure")),),
)
full_dropout = replace(
    full,
    question="Told actual values of which some are left out, does it?",
    conditioner=Forgetful(everything, Actual()),
    asks=(Composition(expected=Expectation(0.0, "figure")),),
)
labels_dropout_as_zero = replace(
    labels_dropout,
    question="And if a label that is left out is written as the first one?",
    conditioner=Forgetful(everything, LABELS, as_zero=True),
    asks=(Composition(),),
)
full_dropout_as_zero = replace(
    full_dropout,
    question="And if a value that is left out is written as 0?",
    conditioner=Forgetful(everything, Actual(), as_zero=True),
    asks=(Composition(),),
)
labels_dropout_when_sampling = replace(
    labels_dropout,
    question="And if labels are left out of what is asked for, too?",
    conditioner=Forgetful(everything, LABELS, when_sampling=True),
    asks=(Composition(),),
)
full_dropout_when_sampling = replace(
    full_dropout,
    question="And if values are left out of what is asked for, too?",
    conditioner=Forgetful(everything, Actual(), when_sampling=True),
    asks=(Composition(),),
)

# The same with small networks.
full_small = objective.small(full, "Does a small DiT compose when told the actual size and colour?")
labels_dropout_small = objective.small(
    labels_dropout, "Does a small DiT compose when one label in ten is left out in training?"
)
full_dropout_small = objective.small(
    full_dropout, "Does a small DiT compose when one actual value in ten is left out in training?"
)
labels_dropout_as_zero_small = objective.small(
    labels_dropout_as_zero, "Does it when labels left out are written as the first one?"
)
full_dropout_as_zero_small = objective.small(
    full_dropout_as_zero, "Does it when values left out are written as 0?"
)
labels_dropout_when_sampling_small = objective.small(
    labels_dropout_when_sampling, "Does it when labels are left out of what is asked for, too?"
)
full_dropout_when_sampling_small = objective.small(
    full_dropout_when_sampling, "Does it when values are left out of what is asked for, too?"
)


# The same where shapes stand still.
def standing(experiment: Experiment, question: str) -> Experiment:
    """Return the experiment on shapes that stand still, on codes of what is seen."""
    there = still.standing(experiment, experiment.view, question)
    return still.on_seen(there, experiment.view)


full_still = standing(full, "Told the actual size and colour, does a DiT compose")
labels_dropout_still = standing(labels_dropout, "With one label in ten untold, does a DiT compose")
full_dropout_still = standing(full_dropout, "With one value in ten untold, does a DiT compose")
full_dropout_as_zero_still = standing(
    full_dropout_as_zero, "With values left out written as 0, does a DiT compose"
)
