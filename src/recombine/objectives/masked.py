"""Masked training: hide some tokens of an image and predict them.

All randomness is drawn before the model is called, so that others (JEPA, measurements) can call it
in the same way and use more of its predictions.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from math import log, pi
from statistics import NormalDist
from typing import NamedTuple, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from recombine.denoiser import Objective, unit_noise
from recombine.models.heads import Codebook, GaussianMixture, vectors
from recombine.models.masked import Predicted, TokenModel
from recombine.objectives.diffusion import Diffusion
from recombine.spelling import LATER

Portion: TypeAlias = Callable[[Tensor], Tensor]
"""A uniform draw for each image -> how many of its tokens are hidden, as a share."""


def arccos(draw: Float[Tensor, "*image"]) -> Float[Tensor, "*image"]:
    """Return any share, more often a large one: arccos(draw) / (pi / 2), of mean 2 / pi."""
    return draw.acos() / (pi / 2)


@dataclass(frozen=True)
class MostHidden:
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


@dataclass(frozen=True)
class BlockMasks:
    """Tokens are hidden in blocks, of one shape an image, that tile it from its first corner.

    The height of a block is uniform on 1 to `largest`; the width is the height times a ratio,
    uniform between the two of `aspect`, and rounded.
    """

    largest: int = 3
    aspect: tuple[float, float] = (0.75, 1.5)

    def __post_init__(self) -> None:
        if self.largest < 1:
            raise ValueError(f"the largest block is at least 1 token high; got {self.largest}")
        if not 0 < self.aspect[0] <= self.aspect[1] < float("inf"):
            raise ValueError(f"aspect holds a positive ratio and one not below; got {self.aspect}")

    def __call__(
        self, number: Float[Tensor, "batch side side"], generator: torch.Generator
    ) -> Float[Tensor, "batch side side"]:
        """Give all tokens of a block the same one of these numbers."""
        draw = torch.rand((len(number), 2, 1), generator=generator, device=generator.device)
        height = 1 + (draw[:, 0] * self.largest).floor().clamp(max=self.largest - 1)
        low, high = self.aspect
        width = (height * (low + (high - low) * draw[:, 1])).round().clamp(min=1)
        place = torch.arange(number.shape[-1], device=number.device)
        row, column = ((place / each).floor().long() for each in (height, width))
        image = torch.arange(len(number), device=number.device)[:, None, None]
        return number[image, row[:, :, None], column[:, None]]


def hide(
    tokens: Shaped[Tensor, " batch *token"],
    generator: torch.Generator,
    portion: Portion = arccos,
    blocks: BlockMasks | None = None,
) -> Bool[Tensor, "batch side side"]:
    """Hide a share of an image's tokens, each or each block independently; at least one.

    Each token draws a number: those below the image's share are hidden, and the smallest always.
    """
    batch, side, device = len(tokens), tokens.shape[-1], generator.device
    draw = torch.rand((batch, 1, 1), generator=generator, device=device)
    number = torch.rand((batch, side, side), generator=generator, device=device)
    if blocks is not None:
        number = blocks(number, generator)
    least = number.amin((1, 2), keepdim=True)
    return (number <= torch.maximum(portion(draw), least)).to(tokens.device)


class Corruption(NamedTuple):
    """What is done to a batch: which tokens are hidden, and noisy ones for the head to clean."""

    hidden: Bool[Tensor, "batch side side"]
    noisy: tuple[Tensor, ...] = ()


def over_hidden(
    cost: Float[Tensor, "batch side side"], hidden: Bool[Tensor, "batch side side"]
) -> Float[Tensor, ""]:
    """Return the mean over the hidden tokens; the others do not count."""
    return torch.where(hidden, cost, 0).sum() / hidden.sum()


@dataclass(frozen=True)
class MaskedObjective(Objective):
    """A loss over hidden tokens, in two parts: what to hide, and what each prediction costs.

    `portion` is how many tokens are hidden; with `blocks` not each by itself.
    """

    portion: Portion = arccos
    blocks: BlockMasks | None = field(default=None, kw_only=True, metadata={LATER: True})

    def __call__(
        self,
        model: TokenModel,
        seen: Shaped[Tensor, " batch *token"],
        condition: Float[Tensor, "batch factor row"],
        *,
        generator: torch.Generator,
    ) -> Float[Tensor, ""]:
        """Return the loss of one batch of ids or latents."""
        drawn = self.corrupted(seen, generator)
        return self.loss(model(seen, drawn.hidden, condition, *drawn.noisy), seen, drawn)

    def corrupted(
        self, seen: Shaped[Tensor, " batch *token"], generator: torch.Generator
    ) -> Corruption:
        """Draw which tokens are hidden, and the noise of tokens if there is any."""
        hidden = hide(seen, generator, self.portion, self.blocks)
        return Corruption(hidden, self._noisy(seen, generator))

    def _noisy(
        self, seen: Shaped[Tensor, " batch *token"], generator: torch.Generator
    ) -> tuple[Tensor, ...]:
        """Return noisy tokens and their noise levels, for objectives that have some."""
        del seen, generator
        return ()

    @abstractmethod
    def costs(
        self, predicted: Predicted, seen: Shaped[Tensor, " batch *token"], *noisy: Tensor
    ) -> list[Float[Tensor, "batch side side"]]:
        """Return the parts of the loss, token by token; they add up."""

    def loss(
        self, predicted: Predicted, seen: Shaped[Tensor, " batch *token"], drawn: Corruption
    ) -> Float[Tensor, ""]:
        """Return the loss of a prediction."""
        costs = self.costs(predicted, seen, *drawn.noisy)
        return reduce(torch.add, (over_hidden(cost, drawn.hidden) for cost in costs))

    def noisy_tokens(
        self, seen: Shaped[Tensor, " batch *token"], generator: torch.Generator
    ) -> tuple[Tensor, ...]:
        """Return what a step of training draws beside the hidden tokens, from the same draws."""
        return self.corrupted(seen, generator).noisy

    def prediction_quality(
        self,
        predicted: Predicted,
        seen: Shaped[Tensor, " batch *token"],
        hidden: Bool[Tensor, "batch side side"],
        *noisy: Tensor,
    ) -> Float[Tensor, " batch"]:
        """Return minus the loss of each image: a mean over its hidden tokens."""
        good = -torch.stack(self.costs(predicted, seen, *noisy)).sum(dim=0)
        return torch.where(hidden, good, 0).sum(dim=(1, 2)) / hidden.sum(dim=(1, 2))


@dataclass(frozen=True)
class MaskedCrossEntropy(MaskedObjective):
    """The cross-entropy of the hidden codes, in nats per token (MaskGIT)."""

    def costs(
        self, predicted: Predicted, seen: Int[Tensor, "batch side side"], *noisy: Tensor
    ) -> list[Float[Tensor, "batch side side"]]:
        """Return the cross-entropy of each code."""
        if isinstance(predicted.output, GaussianMixture):
            raise ValueError("cross-entropy is for a head with logits; got a mixture")
        logits = predicted.output.movedim(-1, 1)
        return [F.cross_entropy(logits, seen, reduction="none")]


@dataclass(frozen=True, kw_only=True)
class MaskedSquaredError(MaskedObjective):
    """Squared error of the predicted vectors, beside the cross-entropy of their codes.

    For a `DistanceHead`. With `separate` the cross-entropy trains no more than the width around a
    vector, which a sampler needs; vectors and network learn by squared error.
    """

    book: Codebook

    def costs(
        self, predicted: Predicted, seen: Int[Tensor, "batch side side"], *noisy: Tensor
    ) -> list[Float[Tensor, "batch side side"]]:
        """Return the squared distance of each vector from its code's, and the cross-entropy."""
        if predicted.vectors is None:
            raise ValueError("squared error is for a head with vectors, such as DistanceHead(book)")
        true = F.embedding(seen, vectors(self.book, seen.device))
        error = (predicted.vectors - true).square().sum(-1)
        return [error, *MaskedCrossEntropy().costs(predicted, seen)]


@dataclass(frozen=True)
class MaskedMixture(MaskedObjective):
    """The negative log-likelihood of the hidden latents, in nats per dimension (GIVT)."""

    def costs(
        self, predicted: Predicted, seen: Float[Tensor, "batch latent side side"], *noisy: Tensor
    ) -> list[Float[Tensor, "batch side side"]]:
        """Return the negative log-likelihood of each latent."""
        if not isinstance(predicted.output, GaussianMixture):
            raise ValueError("a likelihood is for a head with a mixture, such as MixtureHead(8)")
        return [-log_density(predicted.output, seen.movedim(1, -1)) / seen.shape[1]]


def log_density(
    mixture: GaussianMixture, value: Float[Tensor, "*token latent"]
) -> Float[Tensor, "*token"]:
    """Return the logarithm of a mixture's density at these values."""
    away = (value[..., None, :] - mixture.means) * (-mixture.log_scales).exp()
    each = -away.square() / 2 - mixture.log_scales - log(2 * pi) / 2
    return (mixture.log_weights + each.sum(-1)).logsumexp(-1)


@dataclass(frozen=True)
class MaskedDiffusion(MaskedObjective):
    """Squared denoising error of the hidden latents, each at `draws` noise levels (MAR).

    `diffusion` has the law and the weights of the levels; its sigma_data is that of the head.
    """

    draws: int = 4
    diffusion: Diffusion = Diffusion()

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise ValueError(f"a token has at least 1 noise level; got {self.draws}")
        if self.diffusion.dropout is not None or self.diffusion.weigh is not None:
            raise ValueError(f"tokens are neither dropped nor weighed; got {self.diffusion}")

    def _noisy(
        self, seen: Float[Tensor, "batch latent side side"], generator: torch.Generator
    ) -> tuple[Tensor, ...]:
        """Return noisy tokens and their noise levels, some draws for each token."""
        clean = seen.movedim(1, -1)[:, None].expand(-1, self.draws, -1, -1, -1)
        # Not `Diffusion.levels`: the first axis of a draw is the batch, so that processes share it.
        normal = unit_noise(clean[..., 0], generator)
        sigma = (self.diffusion.log_sigma_mean + self.diffusion.log_sigma_std * normal).exp()
        return clean + sigma[..., None] * unit_noise(clean, generator), sigma

    def costs(
        self, predicted: Predicted, seen: Float[Tensor, "batch latent side side"], *noisy: Tensor
    ) -> list[Float[Tensor, "batch side side"]]:
        """Return the weighted squared error of each token, a mean over its noise levels."""
        if predicted.denoised is None:
            raise ValueError("denoising is for a model that cleans tokens, with a DiffusionHead")
        _, sigma = noisy
        error = (predicted.denoised - seen.movedim(1, -1)[:, None]).square().mean(-1)
        weight = self.diffusion.weight(sigma.flatten()).reshape(sigma.shape)
        return [(weight * error).mean(1)]
