"""Autoencoding: reconstruct an image from its latents, and keep these few or near unit noise."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor

from recombine.denoiser import Objective, unit_noise
from recombine.models.tokenizer import AutoencoderModule, Coded


@dataclass(frozen=True)
class Autoencoding(Objective):
    """Squared error of images in [-1, 1], with what holds the latents together.

    `kl` weighs the nats of a KL latent against the error, both summed over an image (Rombach et
    al. 2022) and then divided by its values. `commitment` weighs how far latents are from their
    codes against how far codes are from their latents (van den Oord et al. 2017). A code that was
    not used for more than `revive_after` steps is put where a latent is.
    """

    generates: ClassVar[bool] = False

    kl: float = 1e-6
    commitment: float = 0.25
    revive_after: int = 50

    def __post_init__(self) -> None:
        for name in ("kl", "commitment", "revive_after"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} is a number from 0 up; got {getattr(self, name)}")

    def __call__(
        self,
        denoiser: Any,
        image: Float[Tensor, "batch channel height width"],
        condition: Shaped[Tensor, " batch *condition"],
        *,
        generator: torch.Generator,
    ) -> Float[Tensor, ""]:
        """Return the loss of one batch, and revive codes; the "denoiser" is an autoencoder."""
        del condition
        # The autoencoder itself, where several processes have wrapped it.
        network: AutoencoderModule = getattr(denoiser, "module", denoiser)
        if network.of.codes is None:
            grid = (len(image), network.of.latent, network.of.side, network.of.side)
            return self.loss(denoiser(image, unit_noise(image.new_empty(grid), generator)), image)
        latents = len(image) * network.of.side**2
        if network.of.codes > latents:
            raise ValueError(
                f"a codebook is larger than its data: {network.of.codes} codes for the {latents} "
                f"latents of a batch; use fewer codes or a larger batch"
            )
        if network is not denoiser:
            raise ValueError("codes are trained by one process: each would revive codes of its own")
        coded = denoiser(image)
        where = generator.device
        picks = torch.randint(latents, (network.of.codes,), generator=generator, device=where)
        network.revive(coded.latent, coded.ids, picks.to(image.device), self.revive_after)
        return self.loss(coded, image)

    def loss(
        self, coded: Coded, image: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, ""]:
        """Return the loss of reconstructions and of their latents."""
        error = F.mse_loss(coded.image, image)
        if coded.logvar is not None:
            return error + self.kl * nats(coded.latent, coded.logvar).sum() / image.numel()
        if coded.vectors is None:
            return error
        codebook = F.mse_loss(coded.vectors, coded.latent.detach())
        commitment = F.mse_loss(coded.latent, coded.vectors.detach())
        return error + codebook + self.commitment * commitment


def nats(
    mean: Float[Tensor, "batch latent row column"], logvar: Float[Tensor, "batch latent row column"]
) -> Float[Tensor, " batch"]:
    """Return the Kullback-Leibler divergence of each latent from unit noise."""
    each = (mean.square() + logvar.exp() - 1 - logvar) / 2
    return each.flatten(1).sum(dim=1)
