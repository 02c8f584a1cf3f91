"""Told where nine objects are after seeing at most three, what does a model draw?

Bradley 2025 (arXiv 2509.16447): Exp. 1 (`grid_all`), 2 (`grid_one`), 3 (`list_all`), and the
repairs by a local network, 2L (`grid_one_local`) and 3L (`list_all_local`). The first three share
one network and one way for the condition to enter, a vector for the whole image; what differs is
what is told, and in which form. Names that end in _1 or _5 are trained on 1 or 1-5 objects
instead of 1-3.

    recombine run length_generalization:grid_all --seeds 0-1     # 2-3 minutes a seed, one H200
    recombine measure zoo:grid_all --what length                 # asks shipped weights again
"""

from dataclasses import replace

import torch

from recombine.condition import (
    Conditioner,
    Grid,
    List,
    ShuffledSlots,
    Slots,
    all_objects_shuffled,
    one_object,
)
from recombine.experiment import Budget, Experiment
from recombine.measure.requests import Length
from recombine.models.entry import Channels, Vector
from recombine.models.local import STUDY_LOCAL, Cells, Places
from recombine.models.unet import LARGE_UNET, STUDY_UNET
from recombine.objectives.balance import Windows
from recombine.objectives.diffusion import Diffusion
from recombine.sample.guidance import Guidance
from recombine.sample.heun import Sampler
from recombine.scene import compositions
from recombine.train import cosine
from recombine.worlds.clevr import Clevr

CELLS = 16

# Of one size, so that nothing about an object depends on its neighbours: told places alone, a model
# would pick sizes at random, and from about six objects on large ones would hide told ones.
SMALL = tuple(which for which in compositions(Clevr.factors) if which[-1] == "small")


def world(least: int, most: int) -> Clevr:
    """Return scenes with so many small objects."""
    return Clevr(size=64, objects=(least, most), among=SMALL)


# The pixels of these images spread by 0.15: objects are few and the floor is grey. With the usual
# 0.5 high noise, where places are decided, would count next to nothing.
OBJECTIVE = Diffusion(sigma_data=0.15)

grid_all = Experiment(
    question="Told every cell that has an object, does a U-Net draw more than it has seen?",
    world=world(1, 3),
    network=STUDY_UNET,
    budget=Budget(
        steps=12_000,
        batch=256,
        learning_rate=1e-3,
        warm_up=300,
        decay=cosine,
        ema=0.999,
        milestones=(1_200, 4_800),
    ),
    asks=(Length(),),
    headline=("success_inside", "k_max"),
    conditioner=Conditioner(all_objects_shuffled, Grid(CELLS)),
    objective=OBJECTIVE,
    sampler=Sampler(steps=18),
    seeds=(0, 1, 2),
)

grid_one = replace(
    grid_all,
    question="Told one cell at random, does it draw an object in each of several told cells?",
    conditioner=Conditioner(one_object, Grid(CELLS)),
    asks=(Length(),),
)

list_all = replace(
    grid_all,
    question="Told every object in a list of places, does it draw more than it has seen?",
    network=replace(STUDY_UNET, entry=Vector(3 * List().most, waves=8)),
    conditioner=Conditioner(all_objects_shuffled, List()),
    asks=(Length(),),
)

# Without it, two told cells side by side are often drawn as one object: docs/decisions/006.
GUIDED = Sampler(steps=18, guidance=Guidance(torch.zeros_like, 3.0))

list_all_anywhere = replace(
    list_all,
    question="Is it the untrained end of the list? The same, with objects in any of its slots.",
    conditioner=Conditioner(ShuffledSlots(List().most), Slots()),
    asks=(Length(),),
)

grid_one_local = replace(
    grid_one,
    question="Told one cell at random, does a local network draw one in each of several?",
    network=replace(STUDY_LOCAL, entry=Cells(nearest=True)),
    objective=replace(OBJECTIVE, weigh=Windows(CELLS)),
    sampler=GUIDED,
    asks=(Length(),),
)

list_all_local = replace(
    list_all,
    question="Told every object in a list, does a local network draw more than it has seen?",
    network=replace(STUDY_LOCAL, entry=Places(List().most, nearest=True)),
    objective=grid_one_local.objective,
    asks=(Length(),),
)

grid_one_local_unguided = replace(
    grid_one_local,
    question="What of that is guidance? The same weights, sampled as told.",
    sampler=grid_all.sampler,
    asks=(Length(),),
)

list_all_local_guided = replace(
    list_all_local,
    question="Does guidance help where places are told exactly? The same weights, guided.",
    sampler=GUIDED,
    asks=(Length(),),
)

# Beside the unguided one: these windows hardly ever have nothing told, so there is no null.
grid_one_global_window = replace(
    grid_one_local_unguided,
    question="Is it locality that repairs it? Windows of 17 x 17 cells, every told one heard.",
    network=replace(STUDY_LOCAL, window=8),
    objective=replace(OBJECTIVE, weigh=Windows(CELLS, window=8)),
    asks=(Length(),),
)

grid_one_channels = replace(
    grid_one,
    question="Told one cell, as a map beside the image: does convolution make it local?",
    network=replace(STUDY_UNET, entry=Channels(1)),
    asks=(Length(),),
)

grid_all_channels = replace(
    grid_all,
    question="Told every cell, as a map beside the image: how far does it go?",
    network=grid_one_channels.network,
    asks=(Length(),),
)

grid_all_large = replace(
    grid_all,
    question="Is it the size of the network? The same with nine times the weights.",
    network=replace(LARGE_UNET, entry=STUDY_UNET.entry),
    asks=(Length(),),
    seeds=(0,),
)


def trained_on(
    experiment: Experiment, least: int, most: int, paper: int | None = None
) -> Experiment:
    """Return the experiment with other numbers of objects in training."""
    seen = f"{most} object" if least == most else f"{least} to {most} objects"
    return replace(
        experiment,
        question=f"{experiment.question} (trained on {seen})",
        world=world(least, most),
        asks=(Length(),),
    )


grid_all_1 = trained_on(grid_all, 1, 1)
grid_one_1 = trained_on(grid_one, 1, 1, 1)
list_all_1 = trained_on(list_all, 1, 1)
grid_one_local_1 = trained_on(grid_one_local, 1, 1, 5)
list_all_local_1 = trained_on(list_all_local, 1, 1)
grid_all_5 = trained_on(grid_all, 1, 5)
grid_one_5 = trained_on(grid_one, 1, 5, 3)
list_all_5 = trained_on(list_all, 1, 5)
grid_one_local_5 = trained_on(grid_one_local, 1, 5, 10)
list_all_local_5 = trained_on(list_all_local, 1, 5)
