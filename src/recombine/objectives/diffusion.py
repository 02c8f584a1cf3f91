"""Denoising: predict the clean image at a random noise level."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from recombine.denoiser import (
    Conversion,
    Denoiser,
    LinearBeta,
    Preconditioned,
    Predicting,
    check_answer,
    denoised_from_noise,
    denoised_from_velocity,
    noise,
    null_of,
    per_image,
    unit_noise,
    velocity,
)
from recombine.objectives.balance import Windows

_INVERSE: dict[Conversion, Conversion] = {
    noise: denoised_from_noise,
    velocity: denoised_from_velocity,
}


@dataclass(frozen=True)
class Dropout:
    """Classifier-free dropout: replace the condition of some images by a null condition.

    `null` makes null conditions (`torch.zeros_like` for a grid). It has no default: a null that
    also means something, like class 0, teaches the wrong thing.
    """

    null: Callable[[Tensor], Tensor]
    share: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"the share of dropped conditions lies in [0, 1]; got {self.share}")

    def __call__(
        self, condition: Shaped[Tensor, " batch *condition"], generator: torch.Generator
    ) -> Shaped[Tensor, " batch *condition"]:
        null = null_of(self.null, condition)
        draw = torch.rand(len(condition), generator=generator, device=generator.device)
        dropped = (draw < self.share).to(condition.device)
        return torch.where(dropped.reshape(-1, *[1] * (condition.dim() - 1)), null, condition)


@dataclass(frozen=True)
class Diffusion:
    """Squared denoising error, weighted so that every noise level counts the same (EDM).

    log sigma is normal (P_mean and P_std of Karras et al. 2022). sigma_data is the standard
    deviation of the images: with it a network that knows only mean and variance has the loss 1.
    `weigh` weighs the pixels.
    """

    log_sigma_mean: float = -0.8
    log_sigma_std: float = 1.6
    sigma_data: float = 0.5
    dropout: Dropout | None = None
    weigh: Windows | None = None

    def __post_init__(self) -> None:
        if not self.log_sigma_std >= 0:
            raise ValueError(f"log_sigma_std is not negative; got {self.log_sigma_std}")
        if not self.sigma_data > 0:
            raise ValueError(f"sigma_data is positive; got {self.sigma_data}")

    def wrap(self, network: nn.Module) -> nn.Module:
        """Return the denoiser that this network makes."""
        return Preconditioned(network, self.sigma_data)

    def __call__(
        self,
        denoiser: Denoiser,
        image: Float[Tensor, " batch *image"],
        condition: Shaped[Tensor, " batch *condition"],
        *,
        generator: torch.Generator,
    ) -> Float[Tensor, ""]:
        """Return the loss of one batch, each image at a noise level of its own."""
        kept = condition if self.dropout is None else self.dropout(condition, generator)
        sigma = self.levels(image, generator)
        _, denoised = _noisy_and_denoised(denoiser, image, sigma, kept, generator)
        error = (denoised - image).square()
        if self.weigh is not None:
            error = error * self.weigh(condition, image)
        return (self.weight(sigma) * error.flatten(1).mean(dim=1)).mean()

    def levels(
        self, image: Float[Tensor, " batch *image"], generator: torch.Generator
    ) -> Float[Tensor, " batch"]:
        """Draw a noise level for each image."""
        normal = unit_noise(image.new_empty(len(image)), generator)
        return (self.log_sigma_mean + self.log_sigma_std * normal).exp()

    def weight(self, sigma: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """Return the inverse of the best error on normal images of variance sigma_data^2."""
        return 1 / sigma**2 + 1 / self.sigma_data**2


@dataclass(frozen=True)
class StepDiffusion:
    """Squared error of the noise (or the velocity) at a step of DDPM's schedule drawn uniformly.

    `target` is `noise` or `velocity` of recombine.denoiser: the network predicts it, too.
    """

    schedule: LinearBeta = LinearBeta()
    target: Conversion = noise
    dropout: Dropout | None = None

    def wrap(self, network: nn.Module) -> nn.Module:
        """Return the denoiser that this network makes."""
        return Predicting(network, _INVERSE[self.target], self.schedule.time)

    def __call__(
        self,
        denoiser: Denoiser,
        image: Float[Tensor, " batch *image"],
        condition: Shaped[Tensor, " batch *condition"],
        *,
        generator: torch.Generator,
    ) -> Float[Tensor, ""]:
        """Return the loss of one batch, each image at a step of its own."""
        kept = condition if self.dropout is None else self.dropout(condition, generator)
        sigma = self.levels(image, generator)
        x, denoised = _noisy_and_denoised(denoiser, image, sigma, kept, generator)
        error = self.target(denoised, x, sigma) - self.target(image, x, sigma)
        return error.square().mean()

    def levels(
        self, image: Float[Tensor, " batch *image"], generator: torch.Generator
    ) -> Float[Tensor, " batch"]:
        """Draw a noise level for each image."""
        step = torch.randint(
            self.schedule.steps, (len(image),), generator=generator, device=generator.device
        )
        return self.schedule.levels(image)[step.to(image.device)]


def _noisy_and_denoised(
    denoiser: Denoiser, image: Tensor, sigma: Tensor, condition: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Add noise and have it removed; return the noisy and the denoised image."""
    x = image + per_image(sigma, image) * unit_noise(image, generator)
    denoised = denoiser(x, sigma, condition)
    check_answer(denoised, image)
    return x, denoised
