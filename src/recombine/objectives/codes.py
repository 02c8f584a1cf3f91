"""Diffusion on code vectors: cross-entropy of the codes, or squared error of the vectors."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from recombine.denoiser import per_image, unit_noise
from recombine.models.code_denoiser import CodeDenoiserModule
from recombine.objectives.diffusion import Diffusion


@dataclass(frozen=True)
class CodeDiffusion:
    """Cross-entropy of the codes behind noisy vectors, all noise levels counting the same.

    Without `cross_entropy` it is the squared error of the mean vector under the same logits; if
    `weighed`, its levels count as in `diffusion`, else the same. The levels are drawn as in
    `diffusion` always.
    """

    cross_entropy: bool = True
    diffusion: Diffusion = Diffusion(sigma_data=1.0)
    weighed: bool = True

    def __post_init__(self) -> None:
        if self.diffusion.dropout is not None or self.diffusion.weigh is not None:
            raise ValueError(f"no condition is dropped, no pixel weighed; got {self.diffusion}")

    def wrap(self, network: nn.Module) -> nn.Module:
        """Return the network itself, which has to be a `CodeDenoiser`."""
        if not isinstance(network, CodeDenoiserModule):
            raise ValueError(f"CodeDiffusion trains a CodeDenoiser; got {type(network).__name__}")
        return network

    def __call__(
        self,
        denoiser: Callable[..., Tensor],
        image: Float[Tensor, "batch latent row column"],
        condition: Shaped[Tensor, " batch *condition"],
        *,
        generator: torch.Generator,
    ) -> Float[Tensor, ""]:
        """Return the loss of one batch, each image at a noise level of its own."""
        if self.weighed and not self.cross_entropy:
            return self.diffusion(denoiser, image, condition, generator=generator)
        sigma = self.diffusion.levels(image, generator)
        x = image + per_image(sigma, image) * unit_noise(image, generator)
        if self.cross_entropy:
            return denoiser(x, sigma, condition, image).mean()
        return (denoiser(x, sigma, condition) - image).square().mean()
