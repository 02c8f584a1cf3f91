"""Classification: the concept of every factor, in images that are slightly noisy and blurred.

A probe has to read what models draw, so it does not see renders as they are. It may also learn that
debris shows nothing valid.
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
from recombine.render.raster import blurred
from recombine.scene import Scenes
from recombine.spelling import LATER
from recombine.worlds.debris import DEBRIS, debris
from recombine.worlds.files.debris import every_kind
from recombine.worlds.shapes2d import Shapes2D


def concepts(scenes: Scenes) -> Int[Tensor, "batch factor"]:
    """Write the number of the concept of each factor of the first object."""
    return scenes.concepts[:, 0]


@dataclass(frozen=True)
class Classification(Objective):
    """Cross-entropy, a mean over factors; every image has noise of its own strength up to `noise`.

    `counts` are how many concepts each factor has. Each batch has a blur of its own up to `blur`
    pixels. With a `world` to take debris from, `debris_share` of each batch is replaced by debris,
    of which only the last logit, "nothing valid", is learned. With `own_debris` it is learned of
    debris that is made of the images themselves, beside them.
    """

    generates: ClassVar[bool] = False

    counts: tuple[int, ...] = tuple(Probe().counts)
    noise: float = 0.1
    blur: float = 0.0
    world: Shapes2D | None = None
    debris_share: float = 0.4
    own_debris: bool = field(default=False, metadata={LATER: True})

    def __post_init__(self) -> None:
        for name in ("noise", "blur"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} is finite and not negative; got {getattr(self, name)}")
        if not 0 < self.debris_share < 1:
            raise ValueError(f"a share of debris is between 0 and 1; got {self.debris_share}")

    def __call__(
        self,
        denoiser: Callable[..., Tensor],
        image: Float[Tensor, "batch 3 height width"],
        condition: Shaped[Tensor, "batch factor"],
        *,
        generator: torch.Generator,
    ) -> Float[Tensor, ""]:
        """Return the loss of one batch; the "denoiser" is a probe, the condition its targets."""
        if self.blur:
            sigma = self.blur * float(torch.rand((), generator=generator, device=generator.device))
            image = 1 - blurred(1 - image, sigma)
        if self.own_debris:
            return self._with_own_debris(denoiser, image, condition, generator)
        valid = len(image)
        if self.world is not None:
            valid -= round(self.debris_share * len(image))
            image = torch.cat([image[:valid], some_debris(self.world, image[valid:], generator)])
        logits = denoiser(self._noisy(image, generator)).float()
        parts = logits[:valid].split([*self.counts, *[1] * (self.world is not None)], dim=1)
        each = zip(parts, condition[:valid].unbind(dim=1), strict=False)
        losses = [F.cross_entropy(part, true) for part, true in each]
        if self.world is not None:
            nothing = (torch.arange(len(image), device=image.device) >= valid).to(logits)
            losses.append(F.binary_cross_entropy_with_logits(logits[:, -1], nothing))
        return torch.stack(losses).mean()

    def _with_own_debris(
        self,
        denoiser: Callable[..., Tensor],
        image: Tensor,
        condition: Tensor,
        generator: torch.Generator,
    ) -> Tensor:
        logits = denoiser(self._noisy(image, generator)).float()
        named = logits[:, : sum(self.counts)].split(list(self.counts), dim=1)
        parts = zip(named, condition.unbind(dim=1), strict=True)
        loss = torch.stack([F.cross_entropy(part, true) for part, true in parts]).mean()
        broken = self._noisy(every_kind(image, condition, generator), generator)
        doubt, deserved = logits[:, -1], denoiser(broken).float()[:, -1]
        return loss + (F.softplus(doubt).mean() + F.softplus(-deserved).mean()) / 2

    def _noisy(self, image: Tensor, generator: torch.Generator) -> Tensor:
        """Return images with noise, each of a strength of its own."""
        strength = torch.rand(len(image), generator=generator, device=generator.device)
        strength = per_image(self.noise * strength.to(image), image)
        return (image + strength * unit_noise(image, generator)).clamp(0, 1)


def some_debris(
    world: Shapes2D, like: Float[Tensor, "batch 3 height width"], generator: torch.Generator
) -> Float[Tensor, "batch 3 height width"]:
    """Return debris of every kind, in the number of these images."""
    start = int(torch.randint(2**40, (), generator=generator, device=generator.device))
    index = torch.arange(start, start + len(like), device=like.device)
    kinds = enumerate(DEBRIS)
    parts = [debris(world, kind, index[k :: len(DEBRIS)], TRAINING_SEED) for k, kind in kinds]
    return torch.cat(parts).to(like)


TRAINING_SEED = 10_061
"""The seed of debris to learn from; none is measured with it."""
