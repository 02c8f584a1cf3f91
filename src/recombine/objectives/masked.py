"""Masked training: hide some tokens of an image and ask what they are.

All randomness is drawn before the model is asked, so that others (JEPA) can ask it in the same
words and read more from the same answer.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from math import log, pi
from statistics import NormalDist
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from recombine.denoiser import unit_noise
from recombine.models.heads import Codebook, Mixed
from recombine.models.masked import Predicted, Predictor
from recombine.objectives.diffusion import Diffusion
from recombine.spelling import LATER

Mask: TypeAlias = Callable[[int, int, torch.Generator], Tensor]
"""(batch, side, generator) -> a number in [0, 1) per token; those below an image's share hide."""


def scattered(
    batch: int, side: int, generator: torch.Generator
) -> Float[Tensor, "batch side side"]:
    """Let each token be hidden by itself."""
    return torch.rand((batch, side, side), generator=generator, device=generator.device)


@dataclass(frozen=True)
class Blocks:
    """Let tokens be hidden in blocks of one size per image, laid out from a random corner.

    The side of a block is drawn from 1 to `largest`, how much wider than high it is from 0.75 to
    1.5; both its sides are rounded.
    """

    largest: int = 3

    def __post_init__(self) -> None:
        if self.largest < 1:
            raise ValueError(f"a block has at least 1 token; got a largest side of {self.largest}")

    def __call__(
        self, batch: int, side: int, generator: torch.Generator
    ) -> Float[Tensor, "batch side side"]:
        device = generator.device
        size, aspect, *corner = torch.rand((batch, 4), generator=generator, device=device).unbind(1)
        long = 1 + (size * self.largest).floor()
        root = (0.75 + 0.75 * aspect).sqrt()
        row, column = (
            _cell(side, (long * part).round().clamp(min=1), start)
            for part, start in zip((1 / root, root), corner, strict=True)
        )
        each = torch.rand((batch, side**2), generator=generator, device=device)
        cell = row[:, :, None] * side + column[:, None]
        return each.gather(1, cell.flatten(1)).unflatten(1, (side, side))


Portion: TypeAlias = Callable[[Tensor], Tensor]
"""A uniform draw for each image -> how many of its tokens are hidden, as a share."""


def arccos(draw: Float[Tensor, "*image"]) -> Float[Tensor, "*image"]:
    """Return any share, more often a large one: arccos(draw) / (pi / 2), of mean 2 / pi."""
    return draw.acos() / (pi / 2)


@dataclass(frozen=True)
class Most:
    """Hide at least this share: a normal law around 1, cut off there and at 1 (Li et al. 2024)."""

    least: float = 0.7
    spread: float = 0.25

    def __post_init__(self) -> None:
        if not 0 <= self.least < 1:
            raise ValueError(f"the least share hidden is in [0, 1); got {self.least}")
        if not 0 < self.spread < float("inf"):
            raise ValueError(f"the spread of shares is positive; got {self.spread}")

    def __call__(self, draw: Float[Tensor, "*image"]) -> Float[Tensor, "*image"]:
        low = NormalDist().cdf((self.least - 1) / self.spread)
        return 1 + self.spread * torch.special.ndtri(low + draw * (0.5 - low))


def _cell(
    side: int, length: Float[Tensor, " batch"], start: Float[Tensor, " batch"]
) -> Int[Tensor, "batch side"]:
    """Return in which block of this length each place of a line lies."""
    line = torch.arange(side, device=length.device) + (start * length).floor()[:, None]
    return (line / length[:, None]).floor().long()


def hide(
    mask: Mask,
    tokens: Shaped[Tensor, " batch *token"],
    generator: torch.Generator,
    portion: Portion = arccos,
) -> Bool[Tensor, "batch side side"]:
    """Hide a share of an image's tokens; at least one: the smallest number is always hidden."""
    batch, side = len(tokens), tokens.shape[-1]
    draw = torch.rand((batch, 1, 1), generator=generator, device=generator.device)
    number = mask(batch, side, generator)
    least = number.amin((1, 2), keepdim=True)
    return (number <= torch.maximum(portion(draw), least)).to(tokens.device)


class Asked(NamedTuple):
    """What is asked of a model: which tokens are hidden, and noisy ones for its head to clean."""

    hidden: Bool[Tensor, "batch side side"]
    noisy: tuple[Tensor, ...] = ()


@runtime_checkable
class MaskedObjective(Protocol):
    """A loss in two parts: what to ask, and how wrong the answer is."""

    def asked(self, seen: Tensor, generator: torch.Generator) -> Asked: ...

    def of(self, predicted: Predicted, seen: Tensor, asked: Asked) -> Float[Tensor, ""]: ...


def over_hidden(
    cost: Float[Tensor, "batch side side"], hidden: Bool[Tensor, "batch side side"]
) -> Float[Tensor, ""]:
    """Return the mean over the hidden tokens; the others do not count."""
    return torch.where(hidden, cost, 0).sum() / hidden.sum()


@dataclass(frozen=True)
class Hiding(ABC):
    """What all masked objectives share: some tokens are hidden, and the model is asked for them."""

    mask: Mask = scattered
    portion: Portion = field(default=arccos, metadata={LATER: True})

    def __call__(
        self,
        model: Predictor,
        seen: Shaped[Tensor, " batch *token"],
        condition: Float[Tensor, "batch factor row"],
        *,
        generator: torch.Generator,
    ) -> Float[Tensor, ""]:
        """Return the loss of one batch of ids or latents."""
        asked = self.asked(seen, generator)
        return self.of(model(seen, asked.hidden, condition, *asked.noisy), seen, asked)

    def asked(self, seen: Shaped[Tensor, " batch *token"], generator: torch.Generator) -> Asked:
        """Draw what is hidden."""
        return Asked(hide(self.mask, seen, generator, self.portion))

    @abstractmethod
    def of(
        self, predicted: Predicted, seen: Shaped[Tensor, " batch *token"], asked: Asked
    ) -> Float[Tensor, ""]:
        """Return the loss of an answer."""


@dataclass(frozen=True)
class MaskedCrossEntropy(Hiding):
    """How surprising the hidden codes are, in nats per token (MaskGIT)."""

    def of(
        self, predicted: Predicted, seen: Int[Tensor, "batch side side"], asked: Asked
    ) -> Float[Tensor, ""]:
        """Return the loss of an answer."""
        assert isinstance(predicted.output, Tensor)
        logits = predicted.output.movedim(-1, 1)
        return over_hidden(F.cross_entropy(logits, seen, reduction="none"), asked.hidden)


@dataclass(frozen=True, kw_only=True)
class MaskedPoint(Hiding):
    """Squared error of the points that codes are scored by, and cross-entropy of the codes.

    For heads of points. With `Apart` the cross-entropy teaches no more than how wide to look
    around a point, which a sampler needs to know; points and network learn by squared error.
    """

    book: Codebook

    def of(
        self, predicted: Predicted, seen: Int[Tensor, "batch side side"], asked: Asked
    ) -> Float[Tensor, ""]:
        """Return the loss of an answer."""
        away = over_hidden(self.away(predicted, seen), asked.hidden)
        return away + MaskedCrossEntropy(self.mask).of(predicted, seen, asked)

    def away(
        self, predicted: Predicted, seen: Int[Tensor, "batch side side"]
    ) -> Float[Tensor, "batch side side"]:
        """Return the squared distance of each point from its code's vector."""
        if predicted.points is None:
            raise ValueError("this objective is for a head of points, such as Apart(Near(book))")
        true = F.embedding(seen, vectors(self.book, seen.device))
        return (predicted.points - true).square().sum(-1)


# A step that is recorded as a CUDA graph cannot fetch them again.
@cache
def vectors(book: Codebook, device: torch.device) -> Float[Tensor, "code latent"]:
    """Return the vectors of a book's codes, on a device."""
    return book.vectors().to(device)


@dataclass(frozen=True)
class MaskedMixture(Hiding):
    """How surprising the hidden latents are under a mixture, in nats per dimension (GIVT)."""

    def of(
        self, predicted: Predicted, seen: Float[Tensor, "batch latent side side"], asked: Asked
    ) -> Float[Tensor, ""]:
        """Return the loss of an answer."""
        assert isinstance(predicted.output, Mixed)
        density = log_density(predicted.output, seen.movedim(1, -1))
        return over_hidden(-density / seen.shape[1], asked.hidden)


@dataclass(frozen=True)
class MaskedMean(Hiding):
    """Squared error of the means of single Gaussians, and their surprise, which teaches widths.

    For heads that are a `Gaussian`: means and network learn by squared error.
    """

    def of(
        self, predicted: Predicted, seen: Float[Tensor, "batch latent side side"], asked: Asked
    ) -> Float[Tensor, ""]:
        """Return the loss of an answer."""
        away = over_hidden(self.away(predicted, seen), asked.hidden)
        return away + MaskedMixture(self.mask).of(predicted, seen, asked)

    def away(
        self, predicted: Predicted, seen: Float[Tensor, "batch latent side side"]
    ) -> Float[Tensor, "batch side side"]:
        """Return the squared distance of each mean from its latent."""
        if predicted.points is None or not isinstance(predicted.output, Mixed):
            raise ValueError("this objective is for a head that is a Gaussian, such as Gaussian(8)")
        return (predicted.points - seen.movedim(1, -1)).square().sum(-1)


def log_density(mixed: Mixed, value: Float[Tensor, "*token latent"]) -> Float[Tensor, "*token"]:
    """Return the logarithm of a mixture's density at these values."""
    away = (value[..., None, :] - mixed.means) * (-mixed.log_scales).exp()
    each = -away.square() / 2 - mixed.log_scales - log(2 * pi) / 2
    return (mixed.log_weights + each.sum(-1)).logsumexp(-1)


@dataclass(frozen=True)
class MaskedDiffusion(Hiding):
    """Squared denoising error of the hidden latents, each at `draws` noise levels (MAR).

    `diffusion` says how levels are drawn and weighed; its sigma_data is that of the head.
    """

    draws: int = 4
    diffusion: Diffusion = Diffusion()

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise ValueError(f"a token has at least 1 noise level; got {self.draws}")
        if self.diffusion.dropout is not None or self.diffusion.weigh is not None:
            raise ValueError(f"tokens are neither dropped nor weighed; got {self.diffusion}")

    def asked(
        self, seen: Float[Tensor, "batch latent side side"], generator: torch.Generator
    ) -> Asked:
        """Draw what is hidden, and noise for each token."""
        hidden = hide(self.mask, seen, generator, self.portion)
        clean = seen.movedim(1, -1)[:, None].expand(-1, self.draws, -1, -1, -1)
        # Not `Diffusion.levels`: the first axis of a draw is the batch, so that processes share it.
        normal = unit_noise(clean[..., 0], generator)
        sigma = (self.diffusion.log_sigma_mean + self.diffusion.log_sigma_std * normal).exp()
        return Asked(hidden, (clean + sigma[..., None] * unit_noise(clean, generator), sigma))

    def of(
        self, predicted: Predicted, seen: Float[Tensor, "batch latent side side"], asked: Asked
    ) -> Float[Tensor, ""]:
        """Return the loss of an answer."""
        assert predicted.denoised is not None
        _, sigma = asked.noisy
        error = (predicted.denoised - seen.movedim(1, -1)[:, None]).square().mean(-1)
        weight = self.diffusion.weight(sigma.flatten()).reshape(sigma.shape)
        return over_hidden((weight * error).mean(1), asked.hidden)
