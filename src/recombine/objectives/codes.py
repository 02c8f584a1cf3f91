"""Noise on the vectors of codes, taken off by a model that votes: is its error a code's, or not?"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from recombine.denoiser import per_image, unit_noise
from recombine.objectives.diffusion import Diffusion


@dataclass(frozen=True)
class CodeDiffusion:
    """Cross-entropy of the codes that noisy vectors were, all noise levels counting alike.

    Not `named`, it is the squared error of the mean vector that the same votes make; `weighed`,
    levels count as in `diffusion`, else alike, too. The levels are those of `diffusion` always.
    """

    named: bool = True
    diffusion: Diffusion = Diffusion(sigma_data=1.0)
    weighed: bool = True

    def __post_init__(self) -> None:
        if self.diffusion.dropout is not None or self.diffusion.weigh is not None:
            raise ValueError(f"no condition is dropped, no pixel weighed; got {self.diffusion}")

    def __call__(
        self,
        denoiser: Callable[..., Tensor],
        image: Float[Tensor, "batch latent row column"],
        condition: Shaped[Tensor, " batch *told"],
        *,
        generator: torch.Generator,
    ) -> Float[Tensor, ""]:
        """Return the loss of one batch, each image at a noise level of its own."""
        if self.weighed and not self.named:
            return self.diffusion(denoiser, image, condition, generator=generator)
        sigma = self.diffusion.levels(image, generator)
        x = image + per_image(sigma, image) * unit_noise(image, generator)
        if self.named:
            return denoiser(x, sigma, condition, image).mean()
        return (denoiser(x, sigma, condition) - image).square().mean()
