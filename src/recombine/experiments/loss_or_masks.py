"""A MaskGIT names codes and learns from masks, a DiT does neither: which of the two matters?

Here is what is between: the DiT of `jitter` on code vectors, with the same noise
and sampler, that names codes (models/voter.py). `named` learns by cross-entropy, as MaskGIT does;
`squared` is the same network with the DiT's squared error, of the mean over its votes. Shapes stand
still, tokenizers are of what is seen; `_even`: errors count alike at all noise levels, as in
`named` (docs/decisions/023).

    recombine run loss_or_masks:named --seed 1      # 10 minutes on one core
    recombine run loss_or_masks:squared --seed 1
"""

from dataclasses import replace

from recombine.experiment import Experiment
from recombine.experiments import jitter
from recombine.experiments.objective import Composition
from recombine.models.dit import DiT
from recombine.models.voter import Votes
from recombine.objectives.codes import CodeDiffusion
from recombine.views import Latents


def voting(experiment: Experiment, learned_by: CodeDiffusion, question: str) -> Experiment:
    """Return the experiment of a DiT on code vectors, by votes."""
    assert isinstance(experiment.network, DiT)
    assert isinstance(experiment.view, Latents)
    network = Votes(experiment.network, experiment.view)
    how = {"network": network, "objective": learned_by, "asks": (Composition(),)}
    return replace(experiment, question=question, **how)  # type: ignore[arg-type]


named = voting(
    jitter.vq_still_seen_small,
    CodeDiffusion(),
    "Does a small DiT that names codes, by cross-entropy, compose from shapes that stand still?",
)
squared = voting(
    jitter.vq_still_seen_small,
    CodeDiffusion(named=False),
    "Does a small DiT that names codes, by squared error, compose from shapes that stand still?",
)
squared_even = voting(
    jitter.vq_still_seen_small,
    CodeDiffusion(named=False, weighed=False),
    "Does it, by squared error, if all noise levels count alike, as by cross-entropy?",
)
