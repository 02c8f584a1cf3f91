"""Does training find the exact denoiser of a law that is known?

    recombine run toy              # two minutes on two cores
    recombine run toy --tiny       # does it run at all?

Three clouds of points in the plane, for which the best denoiser is a closed form.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recombine.condition import Conditioner, no_object
from recombine.denoiser import LinearBeta
from recombine.draw import uniform, whole
from recombine.measure.exact import ExactError
from recombine.models.gaussian import Constant
from recombine.models.mixture import MixtureLaw
from recombine.models.mlp import MLP
from recombine.objectives.diffusion import Diffusion, StepDiffusion
from recombine.render.raster import CIRCLE, flat_scenes
from recombine.scene import Factor, Scenes
from recombine.study import Axis, Cell, Level, study
from recombine.train import cosine
from recombine.training import Budget, Training

CENTRES = ((-0.8, -0.4), (0.8, -0.4), (0.0, 0.8))
WIDTHS = ((0.2, 0.2), (0.35, 0.1), (0.1, 0.3))


@dataclass(frozen=True)
class Clouds:
    """Points around three centres, each as often; a point is the red and green of one pixel."""

    name: ClassVar[str] = "clouds"
    size: ClassVar[int] = 1
    factors: ClassVar[tuple[Factor, ...]] = (Factor("cloud", ("left", "right", "top")),)

    @property
    def law(self) -> MixtureLaw:
        """The law of the points, with all that is known of it."""
        centres = torch.tensor(CENTRES).double().reshape(-1, 2, 1, 1)
        weight = torch.zeros(len(CENTRES)).double()
        covariance = torch.diag_embed(torch.tensor(WIDTHS).double() ** 2)
        return MixtureLaw(Constant(weight), Constant(centres), covariance)

    def scenes(self, index: Int[Tensor, " batch"], seed: int) -> Scenes:
        """Return the points of these numbers, as the places of objects."""
        draw = index.new_tensor([0, 1, 2])
        cloud = whole(seed, index, draw[:1], below=len(CENTRES))[:, 0]
        # Half a step away from 0 and 1, whose quantiles are infinite.
        normal = torch.special.ndtri(uniform(seed, index, draw[1:]).double() + 2.0**-25).float()
        return flat_scenes(
            position=normal.new_tensor(CENTRES)[cloud] + normal.new_tensor(WIDTHS)[cloud] * normal,
            size=torch.ones_like(normal[:, 0]),
            colour=normal.new_zeros(len(index), 3),
            shape=torch.full_like(index, CIRCLE),
            concepts=cloud[:, None],
            backdrop=normal.new_zeros(len(index), 3),
        )

    def image(self, scenes: Scenes) -> Float[Tensor, "batch 3 height width"]:
        """Return one pixel per point."""
        return torch.nn.functional.pad(scenes.position[:, 0], (0, 1))[:, :, None, None]


@dataclass(frozen=True)
class RedGreen:
    """A denoiser sees the point, not the pixel: without blue."""

    def __call__(self, image: Float[Tensor, "batch 3 1 1"]) -> Float[Tensor, "batch 2 1 1"]:
        return image[:, :2]

    def back(self, x: Float[Tensor, "batch 2 1 1"]) -> Float[Tensor, "batch 3 1 1"]:
        """Return the pixel of a point."""
        return torch.nn.functional.pad(x, (0, 0, 0, 0, 0, 1))


_TRAINING = Training(
    world=Clouds(),
    network=MLP(pixels=2, condition_width=4, width=128, layers=3),
    budget=Budget(steps=6_000, batch=256, learning_rate=3e-3, warm_up=200, decay=cosine, ema=0.995),
    conditioner=Conditioner(select=no_object),
    objective=Diffusion(log_sigma_mean=-1.0, log_sigma_std=1.2, sigma_data=0.5),
    view=RedGreen(),
)


def _noise(cell: Cell) -> Cell:
    training = replace(cell.training, objective=StepDiffusion(LinearBeta()))
    return replace(cell, training=training)


AXES = {
    "target": Axis(
        ("training.objective",),
        {
            "denoising": Level("The network predicts the image, preconditioned as in EDM."),
            "noise_prediction": Level("The network predicts the noise, as in DDPM.", _noise),
        },
    )
}

STUDY = study(
    "Does a trained network find the exact denoiser of a law that is known?",
    Cell(_TRAINING, measures=(ExactError(),), seeds=(0,)),
    AXES,
    ({"target": ["denoising", "noise_prediction"]},),
    headline=("relative_error",),
    cost="a minute on two cores",
)
