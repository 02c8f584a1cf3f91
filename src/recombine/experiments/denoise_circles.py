"""Told the colour and size of a circle, does a U-Net draw it?

    recombine run denoise_circles --tiny         # does it run at all? seconds on a CPU
    recombine run denoise_circles:all            # meant for a GPU

A circle is read off an image without a network: its colour where it differs most from the
backdrop, its radius from its area. What reading alone gets wrong on true renders stands beside
every error as `ceiling`; what a model that is not listening would get wrong as `chance`.
"""

from dataclasses import replace

from recombine.condition import Conditioner
from recombine.experiment import Budget, Experiment
from recombine.measure.circles import CircleError
from recombine.models.entry import Vector
from recombine.models.unet import UNet
from recombine.train import cosine
from recombine.worlds.circles import Circles

base = Experiment(
    question="Told colour and size, does a U-Net draw the circle?",
    world=Circles(),
    network=UNet(
        channels=3, size=32, entry=Vector(4), width=32, multipliers=(1, 2, 2), attention=(8,)
    ),
    budget=Budget(
        steps=20_000, batch=256, learning_rate=1e-3, warm_up=500, decay=cosine, ema=0.999
    ),
    asks=(CircleError(),),
    headline=("colour_error", "size_error"),
    conditioner=Conditioner(),
)

held_out = replace(
    base,
    question="Does it draw the small blue circle when it has seen only the other three?",
    world=Circles(among=(("red", "big"), ("red", "small"), ("blue", "big"))),
)
