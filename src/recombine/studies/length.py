"""After at most three objects, how many more does a model draw at the places it is given?

Bradley 2025 (arXiv 2509.16447): Exp. 1 (`grid_all`), 2 (`grid_one`), 3 (`list_all`) and the repairs
by a local network, 2L (`grid_one-local-guided`) and 3L (`list_all-local`). The first three share
one network and one way for the condition to enter, a vector for the whole image; what differs is
which objects the condition names, and in which form.

    recombine run length:grid_all --seeds 0-1          # 2 to 3 minutes a seed on one H200
    recombine measure zoo:grid_all --what length --full   # measure shipped weights again
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

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
from recombine.measure.ablation import Locality
from recombine.measure.requests import Length
from recombine.models.entry import Channels, Vector
from recombine.models.local import STUDY_LOCAL, Cells, Places
from recombine.models.unet import LARGE_UNET, STUDY_UNET
from recombine.objectives.balance import Windows
from recombine.objectives.diffusion import Diffusion
from recombine.sample.guidance import Guidance
from recombine.sample.heun import Sampler
from recombine.scene import compositions
from recombine.study import Axis, Cell, Level, study
from recombine.train import cosine
from recombine.training import Budget, Training
from recombine.worlds.clevr import Clevr

CELLS = 16
SMALL = tuple(which for which in compositions(Clevr.factors) if which[-1] == "small")
"""Of one size: places alone do not say a size, and large objects would hide others."""


def world(least: int, most: int) -> Clevr:
    """Return scenes with so many small objects."""
    return Clevr(size=64, objects=(least, most), among=SMALL)


# The pixels of these images spread by 0.15: objects are few and the floor is grey. With the usual
# 0.5, the high noise at which places are decided would hardly count.
OBJECTIVE = Diffusion(sigma_data=0.15)

BASE = Cell(
    Training(
        world=world(1, 3),
        network=STUDY_UNET,
        budget=Budget(12_000, 256, 1e-3, warm_up=300, decay=cosine, ema=0.999),
        conditioner=Conditioner(all_objects_shuffled, Grid(CELLS)),
        objective=OBJECTIVE,
    ),
    sampler=Sampler(steps=18),
    measures=(Length(), Locality()),
    milestones=(1_200, 4_800),
)


def training(**fields: Any) -> Callable[[Cell], Cell]:
    """Return the change of a cell that sets these fields of its training."""
    return lambda cell: replace(cell, training=replace(cell.training, **fields))


def as_list(encode: List, conditioner: Conditioner) -> Callable[[Cell], Cell]:
    """Return the change to a condition that lists places; the network reads that many numbers."""
    entry = Vector(3 * encode.most, waves=8)
    return training(conditioner=conditioner, network=replace(STUDY_UNET, entry=entry))


def local(window: int) -> Callable[[Cell], Cell]:
    """Return the change to a network whose every cell sees a window, and learns from it alone."""

    def change(cell: Cell) -> Cell:
        listed = isinstance(cell.training.conditioner.encode, List)
        entry = Places(List().most, nearest=True) if listed else Cells(nearest=window == 2)
        network = replace(STUDY_LOCAL, entry=entry, window=window)
        balance = Windows(CELLS) if window == 2 else Windows(CELLS, window=window)
        objective = replace(OBJECTIVE, weigh=balance)
        return training(network=network, objective=objective)(cell)

    return change


def guided(cell: Cell) -> Cell:
    """Return the cell sampled with guidance, whose null is the empty condition."""
    return replace(cell, sampler=Sampler(steps=18, guidance=Guidance(torch.zeros_like, 3.0)))


AXES = {
    "condition": Axis(
        ("training.conditioner", "training.network"),
        {
            "grid_all": Level("The condition is a grid with a one in every cell with an object."),
            "grid_one": Level(
                "The condition is a grid with a one in the cell of one object at random.",
                training(conditioner=Conditioner(one_object, Grid(CELLS))),
            ),
            "list_all": Level(
                "The condition is a list of the places of all objects.",
                as_list(List(), Conditioner(all_objects_shuffled, List())),
            ),
            "list_all_slots": Level(
                "The condition is a list of all places, each in any of its twelve slots.",
                as_list(Slots(), Conditioner(ShuffledSlots(List().most), Slots())),
            ),
        },
    ),
    "network": Axis(
        ("training.network", "training.objective", "seeds"),
        {
            "unet": Level("The network is a U-Net of 3.8 million weights."),
            "local": Level("The network is local: a cell sees five by five cells.", local(2)),
            "global_window": Level(
                "The same network, but a cell sees 17 by 17 cells, centred on it.", local(8)
            ),
            "channels": Level(
                "A U-Net with the condition as a map beside the image.",
                training(network=replace(STUDY_UNET, entry=Channels(1))),
            ),
            "large": Level(
                "A U-Net of 34 million weights.",
                lambda cell: replace(
                    training(network=replace(LARGE_UNET, entry=STUDY_UNET.entry))(cell), seeds=(0,)
                ),
            ),
        },
    ),
    "objects": Axis(
        ("training.world",),
        {
            "up_to_3": Level("Training scenes have one to three objects."),
            "one": Level("Training scenes have one object.", training(world=world(1, 1))),
            "up_to_5": Level(
                "Training scenes have one to five objects.", training(world=world(1, 5))
            ),
        },
    ),
    "sampling": Axis(
        ("sampler",),
        {
            "plain": Level("Samples are drawn without guidance."),
            "guided": Level("Samples are drawn with guidance of 3.", guided),
        },
    ),
}

OBJECTS = list(AXES["objects"].levels)

STUDY = study(
    "After at most three objects, how many more does a model draw at the places it is given?",
    BASE,
    AXES,
    (
        {
            "condition": ["grid_all", "grid_one", "list_all"],
            "objects": list(AXES["objects"].levels),
        },
        {
            "condition": "grid_one",
            "network": "local",
            "objects": list(AXES["objects"].levels),
            "sampling": "guided",
        },
        {"condition": "list_all", "network": "local", "objects": list(AXES["objects"].levels)},
        {"condition": "grid_one", "network": ["local", "global_window", "channels"]},
        {"condition": "list_all", "network": "local", "sampling": "guided"},
        {"condition": "grid_all", "network": ["channels", "large"]},
        {"condition": "list_all_slots"},
    ),
    headline=("k_max", "success_inside", "conditional_locality"),
    cost="2 to 3 minutes a seed on one H200; days on two cores",
)
