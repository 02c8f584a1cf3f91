"""Conditioned on the colour and size of a circle, does a U-Net draw it?

recombine run circles --tiny         # does it run at all? seconds on a CPU
recombine run circles                # meant for a GPU
"""

from dataclasses import replace

from recombine.measure.circles import CircleError
from recombine.models.entry import Vector
from recombine.models.unet import UNet
from recombine.study import Axis, Cell, Level, study
from recombine.train import cosine
from recombine.training import Budget, Training
from recombine.worlds.circles import CIRCLES, Circles

_TRAINING = Training(
    world=Circles(),
    network=UNet(
        channels=3, size=32, entry=Vector(4), width=32, multipliers=(1, 2, 2), attention=(8,)
    ),
    budget=Budget(
        steps=20_000, batch=256, learning_rate=1e-3, warm_up=500, decay=cosine, ema=0.999
    ),
)


def _held_out(cell: Cell) -> Cell:
    return replace(cell, training=replace(cell.training, world=Circles(among=CIRCLES.seen)))


AXES = {
    "seen": Axis(
        ("training.world",),
        {
            "all_seen": Level("Trained on all four compositions."),
            "held_out": Level("Trained on all but small blue circles.", _held_out),
        },
    )
}

STUDY = study(
    "Conditioned on colour and size, does a U-Net draw the circle, also one it has not seen?",
    Cell(_TRAINING, measures=(CircleError(),)),
    AXES,
    ({"seen": ["all_seen", "held_out"]},),
    headline=("colour_error", "size_error"),
    cost="five minutes on one H200",
)
