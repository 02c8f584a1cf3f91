"""Does a masked model compose if it must say one point for a token, and not a vote over many?

Told to draw a small triangle, having seen only small circles and large triangles, a head that
names codes can say "either". A point cannot favour two codes that lie apart without those between
(docs/decisions/022). Here MaskGIT scores codes by their distance from a point, GIVT has one
Gaussian; all else is as in `still`: 8 layers, shapes that stand still, tokenizers of what is seen.
`_small` networks are those of `jitter`, `_moving_small` ones those of `objective` and `jepa`, where
places vary. By likelihood it is no repair: where shapes stand still MaskGIT does not compose so
told by tokens, and told by adaLN it has all of level 1, not of level 2. In `squared` ones points
and means learn by squared error (docs/decisions/023, 024).

    recombine run points --seed 1               # 40 s on an H200
    recombine run points:near_small --seed 1    # a quarter of an hour on one core
"""

from dataclasses import replace

from recombine.experiment import Experiment
from recombine.experiments import jepa, jitter, objective, still
from recombine.experiments.autoencoder import KL
from recombine.experiments.objective import Composition
from recombine.models.heads import Apart, Gaussian, Head, Mixture, Near
from recombine.models.masked import Masked
from recombine.objectives.jepa import Jepa
from recombine.objectives.masked import MaskedMean, MaskedPoint
from recombine.views import Codes


def with_head(experiment: Experiment, head: Head, question: str) -> Experiment:
    """Return the experiment with another head, all else the same."""
    assert isinstance(experiment.network, Masked)
    network = replace(experiment.network, head=head)
    return replace(experiment, question=question, network=network, asks=(Composition(),))


def near(experiment: Experiment, question: str) -> Experiment:
    """Return the experiment of a MaskGIT that scores codes by their distance from a point."""
    assert isinstance(experiment.view, Codes)
    return with_head(experiment, Near(experiment.view), f"{question} by points?")


def by_squares(experiment: Experiment, question: str) -> Experiment:
    """Return the experiment of a MaskGIT whose points learn by squared error, not likelihood."""
    network, view = experiment.network, experiment.view
    assert isinstance(network, Masked)
    assert isinstance(network.head, Near)
    assert isinstance(view, Codes)
    how = {"network": replace(network, head=Apart(network.head)), "asks": (Composition(),)}
    words = f"{question} by points and squared error?"
    return replace(experiment, question=words, objective=MaskedPoint(book=view), **how)  # type: ignore[arg-type]


def and_jepa(experiment: Experiment, beside: Jepa, question: str) -> Experiment:
    """Return the experiment with JEPA beside it, asked as much as MaskGIT with JEPA."""
    assert isinstance(experiment.objective, MaskedPoint)
    words = f"{question} by points and squared error?"
    how = {"objective": beside(experiment.objective), "asks": jepa.base.asks}
    return replace(experiment, question=words, **how)  # type: ignore[arg-type]


def one(experiment: Experiment, question: str) -> Experiment:
    """Return the experiment of a GIVT that has a single Gaussian."""
    return with_head(experiment, Mixture(KL.latent, components=1), question)


def one_by_squares(experiment: Experiment, question: str) -> Experiment:
    """Return the experiment of a GIVT whose single Gaussian has its mean by squared error."""
    return replace(with_head(experiment, Gaussian(KL.latent), question), objective=MaskedMean())


base = near(still.maskgit_seen, "Does MaskGIT compose")
with_jepa = replace(
    near(still.with_jepa_seen, "Does MaskGIT with JEPA compose"), asks=jepa.base.asks
)
steered = near(still.steered_seen, "Does MaskGIT told like a DiT compose")
jepa_steered = replace(
    steered,
    question="Does MaskGIT told like a DiT, with JEPA, compose by points?",
    objective=with_jepa.objective,
    asks=with_jepa.asks,
)
one_gaussian = one(still.givt_seen, "Does GIVT compose with one Gaussian?")
near_small = near(jitter.maskgit_still_seen_small, "Does a small MaskGIT compose")
steered_small = near(
    jitter.steered_still_seen_small, "Does a small MaskGIT told like a DiT compose"
)
one_gaussian_small = one(
    jitter.givt_still_seen_small, "Does a small GIVT compose with one Gaussian?"
)
MOVING = "Where places vary, does a small MaskGIT told like a DiT, with JEPA, compose"
squared = by_squares(steered, "Does MaskGIT told like a DiT compose")
squared_small = by_squares(steered_small, "Does a small MaskGIT told like a DiT compose")
near_moving_small = near(objective.maskgit_small, "Where places vary, does a small MaskGIT compose")
squared_jepa = and_jepa(
    squared, Jepa(normalised=True), "Does MaskGIT told like a DiT, with JEPA, compose"
)
squared_jepa_small = and_jepa(
    squared_small, jepa.NORMALISED, "Does a small MaskGIT told like a DiT, with JEPA, compose"
)
squared_jepa_moving_small = and_jepa(
    by_squares(near(objective.maskgit_steered_small, MOVING), MOVING), jepa.NORMALISED, MOVING
)


def ablated(beside: Jepa, question: str) -> Experiment:
    """Return the small MaskGIT of squares with another JEPA beside it."""
    return replace(and_jepa(squared_small, beside, question), asks=squared_small.asks)


squared_jepa_small_light = ablated(
    replace(jepa.NORMALISED, weight=0.2), "With a third of JEPA's weight, does a small one compose"
)
squared_jepa_small_heavy = ablated(
    replace(jepa.NORMALISED, weight=2.0), "With three times its weight, does a small one compose"
)
squared_jepa_small_last = ablated(
    replace(jepa.NORMALISED, layers=(3,)), "With the last layer's states, does a small one compose"
)
squared_jepa_small_early = ablated(
    replace(jepa.NORMALISED, layers=(1,)), "With an early layer's states, does a small one compose"
)
jepa_steered_small = replace(
    steered_small,
    question="Does a small MaskGIT told like a DiT, with JEPA, compose by points?",
    objective=jepa.small.objective,
    asks=jepa.base.asks,
)
jepa_moving_small = near(jepa.small, "Where places vary, does a small MaskGIT with JEPA compose")
one_gaussian_steered_small = one(
    jitter.givt_steered_still_seen_small,
    "Does a small GIVT told like a DiT compose with one Gaussian?",
)
givt_squared = one_by_squares(
    still.givt_steered_seen, "Does GIVT told like a DiT compose by squared error?"
)
givt_squared_small = one_by_squares(
    jitter.givt_steered_still_seen_small,
    "Does a small GIVT told like a DiT compose by squared error?",
)
givt_squared_jepa_small = replace(
    givt_squared_small,
    question="Does a small GIVT told like a DiT, with JEPA, compose by squared error?",
    objective=jepa.NORMALISED(MaskedMean()),
    asks=objective.givt.asks,
)
