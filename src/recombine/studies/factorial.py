"""Is it the loss? Every combination of corruption, loss and conditioning, on the same code vectors.

Farid et al. 2025 compare models that differ in corruption (noise or masks), loss, conditioning and
targets at once. Here they vary one by one: all networks see or predict the vectors of the same 256
codes, have 1.18 M weights within 1 %, and are trained on 18 of 96 compositions (`coverage`). Masked
models are decoded in other ways, too, from the same weights: a finding about the loss must survive.

    recombine run factorial:masks --tiny                       # does it run at all?
    recombine run factorial --seeds 0-3                        # for a GPU
    recombine list factorial                                   # every cell
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from recombine.condition import Labels
from recombine.models.masked import Masked
from recombine.objectives.codes import CodeDiffusion
from recombine.sample.unmask import Unmask
from recombine.studies._networks import INNER, parts
from recombine.studies.coverage import BASE as COVERED
from recombine.studies.coverage import VECTORS, with_jepa
from recombine.study import Axis, Cell, Level, same, study

LABELS = Labels((4, 4, 6))
BASE = replace(COVERED, seeds=(0, 1, 2, 3))
PARTS = {each: parts(each, VECTORS, LABELS) for each in INNER}
LOSSES = {
    "squared": "Squared error of the vectors.",
    "cross_entropy": "Cross-entropy over codes.",
    "cross_entropy_of_vectors": "Cross-entropy, with the inlet and head of the squared error.",
    "likelihood": "The likelihood of a mixture of Gaussians.",
    "token_diffusion": "A diffusion head for each token.",
}


def changed(**level: str) -> Callable[[Cell], Cell]:
    """Return the change to another `corruption`, `loss` or `conditioning`."""

    def change(cell: Cell) -> Cell:
        training = cell.training
        now = next(each for each, made in PARTS.items() if made.network == training.network)
        to = {**dict(zip(("corruption", "loss", "conditioning"), now, strict=True)), **level}
        new = PARTS[to["corruption"], to["loss"], to["conditioning"]]
        training = replace(training, network=new.network, objective=new.objective, view=new.view)
        return replace(cell, training=training, sampler=new.sampler)

    return change


def jepa(cell: Cell) -> Cell:
    """Add the JEPA loss where it attaches."""
    if isinstance(cell.training.objective, CodeDiffusion):
        raise ValueError("JEPA attaches to masked models and the DiT, not to a CodeDenoiser")
    return with_jepa(cell)


def decoded(**fields: Any) -> Callable[[Cell], Cell]:
    """Return the change to another way to reveal tokens."""

    def change(cell: Cell) -> Cell:
        if not isinstance(cell.sampler, Unmask):
            raise ValueError(f"tokens are revealed one by one in masked models; got {cell.sampler}")
        network = cell.training.network
        given = {name: value for name, value in fields.items() if name != "expected"}
        if "expected" in fields:
            book = VECTORS if isinstance(network, Masked) and network.discrete else None
            given |= {"expected": True, "book": book}
        return replace(cell, sampler=replace(cell.sampler, **given))

    return change


AXES = {
    "corruption": Axis(
        ("training.network", "training.objective", "training.view", "sampler"),
        {
            "noise": Level("All tokens are noisy."),
            "masks": Level("Some tokens are hidden.", changed(corruption="masks")),
        },
    ),
    "loss": Axis(
        ("training.network", "training.objective", "training.view", "sampler"),
        {
            name: Level(says, same if name == "squared" else changed(loss=name))
            for name, says in LOSSES.items()
        },
    ),
    "conditioning": Axis(
        ("training.network",),
        {
            "adaln": Level("Conditioned by adaLN."),
            "tokens": Level(
                "Conditioned by a prefix token for each factor.", changed(conditioning="tokens")
            ),
        },
    ),
    "auxiliary": Axis(
        ("training.objective",),
        {"none": Level("No second loss."), "jepa": Level("A JEPA loss besides.", jepa)},
    ),
    "decoding": Axis(
        ("sampler",),
        {
            "usual": Level("Decoded as published: 12 steps at temperature 1."),
            "greedy": Level("Decoded at temperature 0.", decoded(temperature=0.0)),
            "cooler": Level("Decoded at temperature 0.5.", decoded(temperature=0.5)),
            "expected": Level("Decoded by expected vectors.", decoded(expected=True)),
            "steps18": Level("Decoded in 18 steps.", decoded(steps=18)),
            "steps49": Level("Decoded one token a step.", decoded(steps=49, even=True)),
        },
    ),
}
OF_MASKS = list(LOSSES)
WAYS = [each for each in AXES["decoding"].levels if each != "usual"]
BOTH = ["adaln", "tokens"]
STUDY = study(
    "Is it the loss, the corruption or the conditioning that decides whether a model composes?",
    BASE,
    AXES,
    (
        {"loss": ["squared", "cross_entropy"], "conditioning": BOTH},
        {"conditioning": BOTH, "auxiliary": "jepa"},
        {"corruption": "masks", "loss": OF_MASKS, "conditioning": BOTH},
        {"corruption": "masks", "loss": OF_MASKS, "conditioning": BOTH, "auxiliary": "jepa"},
        {"corruption": "masks", "loss": OF_MASKS, "conditioning": BOTH, "decoding": WAYS},
    ),
    headline=("accuracy@test", "accuracy@dev", "accuracy@seen", "valid@test"),
    cost="10 to 20 seconds a run, stacked, on one H200",
)
