"""On its way to a composition that it has not seen, does a model first pass by one that it has?

Yang et al. 2024 (arXiv 2410.08309, figure 6) and Park et al. 2024: a diffusion model is conditioned
on the colour and size of a circle, and blue with small is held out. Where colours lie close
together size is learned first; given small blue as its condition, the model then draws small red
circles for a while, and its error in concept space rises before it falls (Swing-by).

    recombine run concept_space --together 6      # 21 runs, 35 to 45 s each on one H200
    recombine run concept_space:0.137 --tiny
    python benchmarks/concept_space.py runs       # the theory beside it, and a GIF
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from math import sqrt

import torch

from recombine.condition import Conditioner, ScaledValues, all_objects
from recombine.measure.concept_space import ConceptSpace
from recombine.models.entry import Vector
from recombine.models.unet import UNet
from recombine.objectives.diffusion import Diffusion
from recombine.sample.heun import Sampler
from recombine.study import Axis, Cell, Level, study
from recombine.training import Budget, Training
from recombine.worlds.circles import CIRCLES, Circles

SEPARATIONS = (0.137, 0.247, 0.358, 0.468, 0.579, 0.689)


def milestones(first: int, last: int, count: int) -> tuple[int, ...]:
    """Return steps that are even in their square root, as in the authors' code."""
    roots = torch.linspace(sqrt(first), sqrt(last), count).double()
    steps = tuple(round(root**2) for root in roots.tolist())
    if any(b <= a for a, b in pairwise(steps)):
        raise ValueError(f"{count} milestones do not fit between {first} and {last}")
    return steps


def world(separation: float) -> Circles:
    """Return circles with colours this far apart, of which blue and small are never seen."""
    return Circles(colour_separation=separation, among=CIRCLES.seen)


# The condition has a fifth of its scale: a model that depends on it from the start learns colour
# before its colours are true enough to be read, and there is hardly a detour (decision 010).
# A constant rate: with a falling one, the end of the schedule and not the data would set when the
# last concept is learned; and a low one, so that many milestones fall between the first concept
# and the last. The average is short, 50 steps: a longer one would blur the course, and at the first
# milestones still hold the untrained weights.
_TRAINING = Training(
    world=world(SEPARATIONS[0]),
    network=UNet(
        channels=3, size=32, entry=Vector(4), width=48, multipliers=(1, 2), attention=(8,), patch=2
    ),
    budget=Budget(steps=10_000, batch=128, learning_rate=5e-4, warm_up=100, ema=0.98),
    conditioner=Conditioner(all_objects, ScaledValues(scale=0.2)),
    objective=Diffusion(),
)


def _separated(by: float) -> Callable[[Cell], Cell]:
    return lambda cell: replace(cell, training=replace(cell.training, world=world(by)))


def _full_scale(cell: Cell) -> Cell:
    return replace(cell, training=replace(cell.training, conditioner=Conditioner()))


AXES = {
    "separation": Axis(
        ("training.world",),
        {f"{by:g}": Level(f"Colours lie {by:g} apart.", _separated(by)) for by in SEPARATIONS},
    ),
    "scale": Axis(
        ("training.conditioner",),
        {
            "a_fifth": Level("The condition has a fifth of its scale."),
            "full_scale": Level("The condition has its full scale.", _full_scale),
        },
    ),
}

STUDY = study(
    "In what order are colour and size learned, and where is the way to small blue a detour?",
    Cell(_TRAINING, Sampler(steps=12), (ConceptSpace(),), milestones(100, 10_000, 24)),
    AXES,
    ({"separation": list(AXES["separation"].levels)}, {"scale": "full_scale"}),
    headline=("concept_mse", "concept_mse_rise"),
    cost="40 seconds on one H200",
)
