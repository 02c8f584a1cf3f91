"""Told the colour and size of a circle, does a U-Net draw it?

    recombine run denoise_circles --tiny         # does it run at all? seconds on a CPU
    recombine run denoise_circles:all            # meant for a GPU

A circle is read off an image without a network: its colour where it differs most from the
backdrop, its radius from its area. What reading alone gets wrong on true renders stands beside
every error as `ceiling`; what a model that is not listening would get wrong as `chance`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import pi

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.condition import Conditioner
from recombine.experiment import Budget, Experiment, Findings, Trained
from recombine.measurement import Measurement
from recombine.models.entry import Vector
from recombine.models.unet import UNet
from recombine.scene import compositions
from recombine.train import cosine
from recombine.worlds.circles import Circles


def read_circle(
    image: Float[Tensor, "batch 3 height width"],
) -> tuple[Float[Tensor, "batch 3"], Float[Tensor, " batch"]]:
    """Return colour and radius of the circle in each image, in the units of the world.

    A circle covers one corner at most, so the middle of the four is the backdrop. A radius comes
    out too small where the border cuts the circle.
    """
    corners = image[..., [0, 0, -1, -1], [0, -1, 0, -1]]
    backdrop = corners.sort(dim=-1).values[..., 1:3].mean(dim=-1)[..., None, None]
    offset = image - backdrop
    far = offset.square().sum(dim=1, keepdim=True).sqrt()
    inside = (far >= 0.85 * far.amax(dim=(2, 3), keepdim=True)).to(image)
    colour = (image * inside).sum(dim=(2, 3)) / inside.sum(dim=(2, 3))
    # The share of the circle in each pixel: how far its colour went from backdrop to circle.
    way = colour[..., None, None] - backdrop
    share = (offset * way).sum(dim=1) / way.square().sum(dim=1).clamp(min=1e-6)
    pitch = 2 / (image.shape[-1] - 1)
    return colour, pitch * (share.clamp(0, 1).sum(dim=(1, 2)) / pi).sqrt()


@dataclass(frozen=True)
class CircleError:
    """Mean error of colour (root mean square of the channels) and size against what was told.

    Each composition is told its class mean; its number of samples is `samples`.
    """

    world: Circles
    samples: int = 64

    def __call__(self, trained: Trained, generator: torch.Generator) -> Findings:
        """Draw, read and compare; true renders and shuffled conditions are read the same way."""
        measurements: dict[str, Measurement] = {}
        drawn, told, ceiling = [], [], []
        for composition in compositions(self.world.factors):
            world = replace(self.world, among=(composition,), spread=0.0)
            scenes = world.scenes(torch.arange(self.samples, device=trained.device), seed=1)
            told.append(trained.experiment.conditioner(scenes, generator))
            drawn.append(trained.images(told[-1], generator))
            ceiling.append(world.image(scenes))
            name = " ".join(composition)
            measurements |= errors(drawn[-1], told[-1], f"@{name}")
        images, condition = torch.cat(drawn), torch.cat(told)
        order = torch.randperm(len(condition), generator=generator, device=generator.device)
        measurements |= errors(images, condition, "")
        measurements |= errors(torch.cat(ceiling), condition, "_ceiling")
        measurements |= errors(images, condition[order], "_chance")
        return Findings(measurements, images={"samples": torch.cat([each[:8] for each in drawn])})

    def tiny(self) -> "CircleError":
        """Return the same question with fewer samples."""
        return replace(self, samples=4)


def errors(
    image: Float[Tensor, "batch 3 height width"], told: Float[Tensor, "batch 4"], name: str
) -> Mapping[str, Measurement]:
    """Return the mean error of colour and of size over images."""
    colour, radius = read_circle(image)
    wrong = (colour - told[:, :3]).square().mean(dim=1).sqrt()
    return {
        f"colour_error{name}": Measurement.mean(wrong.tolist()),
        f"size_error{name}": Measurement.mean((radius - told[:, 3]).abs().tolist()),
    }


base = Experiment(
    question="Told colour and size, does a U-Net draw the circle?",
    world=Circles(),
    network=UNet(
        channels=3, size=32, entry=Vector(4), width=32, multipliers=(1, 2, 2), attention=(8,)
    ),
    budget=Budget(
        steps=20_000, batch=256, learning_rate=1e-3, warm_up=500, decay=cosine, ema=0.999
    ),
    asks=(CircleError(Circles()),),
    headline=("colour_error", "size_error"),
    conditioner=Conditioner(),
)

held_out = replace(
    base,
    question="Does it draw the small blue circle when it has seen only the other three?",
    world=Circles(among=(("red", "big"), ("red", "small"), ("blue", "big"))),
)
