"""Classification: the concept of every factor, in slightly noisy images.

A probe has to read what models draw, so it does not see renders as they are.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from recombine.denoiser import Objective, per_image, unit_noise
from recombine.models.probe import Probe
from recombine.scene import Scenes
from recombine.spelling import LATER
from recombine.worlds.debris import some_debris


def concepts(scenes: Scenes) -> Int[Tensor, "batch factor"]:
    """Write the number of the concept of each factor of the first object."""
    return scenes.concepts[:, 0]


@dataclass(frozen=True)
class Classification(Objective):
    """Cross-entropy, a mean over factors; every image has noise of its own strength up to `noise`.

    `counts` are how many concepts each factor has. With `debris` a probe also learns to tell the
    images from debris that is made of them.
    """

    generates: ClassVar[bool] = False

    counts: tuple[int, ...] = tuple(Probe().counts)
    noise: float = 0.1
    debris: bool = field(default=False, metadata={LATER: True})

    def __post_init__(self) -> None:
        if not 0 <= self.noise < float("inf"):
            raise ValueError(f"noise is finite and not negative; got {self.noise}")

    def __call__(
        self,
        denoiser: Callable[..., Tensor],
        image: Float[Tensor, "batch 3 height width"],
        condition: Shaped[Tensor, "batch factor"],
        *,
        generator: torch.Generator,
    ) -> Float[Tensor, ""]:
        """Return the loss of one batch; the "denoiser" is a probe, the condition its targets."""
        logits = denoiser(self._noisy(image, generator)).float()
        named = logits[:, : sum(self.counts)].split(list(self.counts), dim=1)
        parts = zip(named, condition.unbind(dim=1), strict=True)
        loss = torch.stack([F.cross_entropy(part, true) for part, true in parts]).mean()
        if not self.debris:
            return loss
        broken = self._noisy(some_debris(image, condition, generator), generator)
        valid, invalid = logits[:, -1], denoiser(broken).float()[:, -1]
        return loss + (F.softplus(-valid).mean() + F.softplus(invalid).mean()) / 2

    def _noisy(self, image: Tensor, generator: torch.Generator) -> Tensor:
        """Return images with noise, each of a strength of its own."""
        strength = torch.rand(len(image), generator=generator, device=generator.device)
        strength = per_image(self.noise * strength.to(image), image)
        return (image + strength * unit_noise(image, generator)).clamp(0, 1)
