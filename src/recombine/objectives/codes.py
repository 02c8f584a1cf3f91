"""Noise on the vectors of codes, taken off by a model that votes: is its error a code's, or not?"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from recombine.denoiser import per_image, unit_noise
from recombine.models.voter import Voter
from recombine.objectives.diffusion import Diffusion


@dataclass(frozen=True)
class CodeDiffusion:
    """Cross-entropy of the codes that noisy vectors were, the mean over noise levels.

    Not `named`, it is the squared error of the mean vector that the same votes make, weighed as in
    `diffusion`, which draws the levels either way.
    """

    named: bool = True
    diffusion: Diffusion = Diffusion(sigma_data=1.0)

    def __post_init__(self) -> None:
        if self.diffusion.dropout is not None or self.diffusion.weigh is not None:
            raise ValueError(f"codes are neither dropped nor weighed; got {self.diffusion}")

    def __call__(
        self,
        denoiser: Voter,
        image: Float[Tensor, "batch latent row column"],
        condition: Shaped[Tensor, " batch *told"],
        *,
        generator: torch.Generator,
    ) -> Float[Tensor, ""]:
        """Return the loss of one batch, each image at a noise level of its own."""
        if not self.named:
            return self.diffusion(denoiser, image, condition, generator=generator)
        sigma = self.diffusion.levels(image, generator)
        x = image + per_image(sigma, image) * unit_noise(image, generator)
        return denoiser(x, sigma, condition, image).mean()
