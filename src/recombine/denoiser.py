"""The interfaces of every generative model here, and the ways to read a denoiser's answer.

Noise is added, x = image + sigma * noise, and the images keep their scale (variance exploding).
The variance-preserving view of DDPM is the same picture shrunk: x / sqrt(1 + sigma^2).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn


@runtime_checkable
class Denoiser(Protocol):
    """The best guess of a clean image, given a noisy one, its noise level and a condition."""

    def __call__(
        self,
        x: Float[Tensor, " batch *image"],
        sigma: Float[Tensor, " batch"],
        condition: Shaped[Tensor, " batch *told"],
        /,
    ) -> Float[Tensor, " batch *image"]: ...


@runtime_checkable
class TokenPredictor(Protocol):
    """What the hidden tokens may be, and the network's states on the way there.

    Tokens are ids (batch, side, side) or latents (batch, latent, side, side). The answer has an
    `output`: logits (MaskGIT), a mixture (GIVT) or a vector for a head (MAR); and `states`, the
    tokens after each layer (`recombine.models.masked.Predicted`).
    """

    def __call__(
        self,
        tokens: Shaped[Tensor, " batch *token"],
        hidden: Bool[Tensor, "batch side side"],
        condition: Shaped[Tensor, " batch *told"],
        /,
    ) -> Any: ...


@runtime_checkable
class Generator(Protocol):
    """Images or videos made to a condition, one per row of it."""

    def __call__(
        self, condition: Shaped[Tensor, " batch *told"], generator: torch.Generator, /
    ) -> Float[Tensor, " batch *image"]: ...


Reading: TypeAlias = Callable[
    [Float[Tensor, " batch *image"], Float[Tensor, " batch *image"], Float[Tensor, " batch"]],
    Float[Tensor, " batch *image"],
]
"""(denoised, x, sigma) -> score, noise or velocity; or one of these back to denoised."""


def score(
    denoised: Float[Tensor, " batch *image"],
    x: Float[Tensor, " batch *image"],
    sigma: Float[Tensor, " batch"],
) -> Float[Tensor, " batch *image"]:
    """Gradient of the log density of noisy images (Tweedie's formula)."""
    return (denoised - x) / _checked(sigma, x) ** 2


def denoised_from_score(
    score: Float[Tensor, " batch *image"],
    x: Float[Tensor, " batch *image"],
    sigma: Float[Tensor, " batch"],
) -> Float[Tensor, " batch *image"]:
    """Return the denoised image whose score this is."""
    return x + _checked(sigma, x) ** 2 * score


def noise(
    denoised: Float[Tensor, " batch *image"],
    x: Float[Tensor, " batch *image"],
    sigma: Float[Tensor, " batch"],
) -> Float[Tensor, " batch *image"]:
    """Return the unit noise that would turn the denoised image into x; also dx / dsigma."""
    return (x - denoised) / _checked(sigma, x)


def denoised_from_noise(
    noise: Float[Tensor, " batch *image"],
    x: Float[Tensor, " batch *image"],
    sigma: Float[Tensor, " batch"],
) -> Float[Tensor, " batch *image"]:
    """Return what is left of x without this unit noise."""
    return x - _checked(sigma, x) * noise


def velocity(
    denoised: Float[Tensor, " batch *image"],
    x: Float[Tensor, " batch *image"],
    sigma: Float[Tensor, " batch"],
) -> Float[Tensor, " batch *image"]:
    """Return alpha noise - sqrt(1 - alpha^2) denoised, alpha^2 = alpha_bar (Salimans & Ho 2022)."""
    level = _checked(sigma, x)
    return ((x - denoised) / level - level * denoised) / (1 + level**2).sqrt()


def denoised_from_velocity(
    velocity: Float[Tensor, " batch *image"],
    x: Float[Tensor, " batch *image"],
    sigma: Float[Tensor, " batch"],
) -> Float[Tensor, " batch *image"]:
    """Return the denoised image whose velocity this is."""
    level = _checked(sigma, x)
    return x / (1 + level**2) - level / (1 + level**2).sqrt() * velocity


def alpha_bar_from_sigma(sigma: Float[Tensor, "*level"]) -> Float[Tensor, "*level"]:
    """Return the share of an image's variance in the variance-preserving view of this level."""
    check_levels(sigma)
    return 1 / (1 + sigma**2)


def sigma_from_alpha_bar(alpha_bar: Float[Tensor, "*level"]) -> Float[Tensor, "*level"]:
    """Return the noise level at which this share of the variance is image."""
    good = (alpha_bar > 0) & (alpha_bar < 1)
    if _readable(alpha_bar) and not good.all():
        raise ValueError(f"alpha_bar lies strictly between 0 and 1; got {_shown(alpha_bar[~good])}")
    return ((1 - alpha_bar) / alpha_bar).sqrt()


def variance_preserving(
    x: Float[Tensor, " batch *image"], sigma: Float[Tensor, " batch"]
) -> Float[Tensor, " batch *image"]:
    """Shrink x so that images of unit variance keep it at every noise level."""
    return x / (1 + _checked(sigma, x) ** 2).sqrt()


def variance_exploding(
    preserved: Float[Tensor, " batch *image"], sigma: Float[Tensor, " batch"]
) -> Float[Tensor, " batch *image"]:
    """Undo `variance_preserving`."""
    return preserved * (1 + _checked(sigma, preserved) ** 2).sqrt()


@dataclass(frozen=True)
class LinearBeta:
    """The noise levels of DDPM: step t of 1..steps adds variance beta_t, growing linearly."""

    steps: int = 500
    first: float = 1e-4
    last: float = 0.02

    def __post_init__(self) -> None:
        if self.steps < 2:
            raise ValueError(f"a schedule has at least 2 steps; got {self.steps}")
        if not 0 < self.first <= self.last < 1:
            raise ValueError(f"0 < first <= last < 1 holds for beta; got {self.first}, {self.last}")

    def levels(self, like: Float[Tensor, "*batch"]) -> Float[Tensor, " step"]:
        """Return the rising sigma of each step, in the dtype and on the device of `like`."""
        # In double precision: a product of hundreds of factors near one.
        beta = torch.linspace(
            self.first, self.last, self.steps, dtype=torch.float64, device=like.device
        )
        return torch.expm1(-torch.log1p(-beta).cumsum(0)).sqrt().to(like)

    def time(self, sigma: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """Return t / steps, the clock of DDPM networks; linear in log sigma between steps."""
        levels = self.levels(sigma).log()
        at = sigma.log().clamp(levels[0], levels[-1])
        after = torch.searchsorted(levels, at).clamp(1, self.steps - 1)
        share = (at - levels[after - 1]) / (levels[after] - levels[after - 1])
        return (after + share) / self.steps


def quarter_log(sigma: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """Return log(sigma) / 4, the clock of EDM networks (c_noise)."""
    return sigma.log() / 4


class Preconditioned(nn.Module):
    """A denoiser out of any network (x, clock, condition) -> image of unit variance.

    Input and target of the network have unit variance at every noise level when the images have
    the variance sigma_data^2 (Karras et al. 2022, table 1).
    """

    def __init__(self, network: nn.Module, sigma_data: float = 0.5) -> None:
        super().__init__()
        if not 0 < sigma_data < float("inf"):
            raise ValueError(f"sigma_data is a positive number; got {sigma_data}")
        self.network = network
        self.sigma_data = sigma_data

    def forward(
        self,
        x: Float[Tensor, " batch *image"],
        sigma: Float[Tensor, " batch"],
        condition: Shaped[Tensor, " batch *told"],
        states: list[Tensor] | None = None,
    ) -> Float[Tensor, " batch *image"]:
        """Return the guess; a network that can adds its states to the list, where there is one."""
        check_call(x, sigma, condition)
        level = per_image(sigma, x)
        total = level**2 + self.sigma_data**2
        asked = (x / total.sqrt(), quarter_log(sigma), condition)
        answer = self.network(*asked) if states is None else self.network(*asked, states)
        check_answer(answer, x)
        skipped = self.sigma_data**2 / total * x
        return skipped + level * self.sigma_data / total.sqrt() * answer.to(x.dtype)


class Predicting(nn.Module):
    """A denoiser out of a network that answers with noise or velocity, as DDPM's do.

    The network sees the variance-preserving x and clock(sigma); `inverse` reads its answer:
    denoised_from_noise or denoised_from_velocity.
    """

    def __init__(
        self, network: nn.Module, inverse: Reading, clock: Callable[[Tensor], Tensor] = quarter_log
    ) -> None:
        super().__init__()
        self.network = network
        self.inverse = inverse
        self.clock = clock

    def forward(
        self,
        x: Float[Tensor, " batch *image"],
        sigma: Float[Tensor, " batch"],
        condition: Shaped[Tensor, " batch *told"],
    ) -> Float[Tensor, " batch *image"]:
        check_call(x, sigma, condition)
        answer = self.network(variance_preserving(x, sigma), self.clock(sigma), condition)
        check_answer(answer, x)
        return self.inverse(answer.to(x.dtype), x, sigma)


def per_image(
    value: Float[Tensor, " batch"], like: Float[Tensor, " batch *image"]
) -> Float[Tensor, " batch *one"]:
    """Let one number per image act on every pixel of it, in the precision of the image."""
    return value.to(like.dtype).reshape(-1, *[1] * (like.dim() - 1))


def unit_noise(like: Float[Tensor, "*any"], generator: torch.Generator) -> Float[Tensor, "*any"]:
    """Draw standard normal numbers; drawn where the generator lives, then moved."""
    return torch.randn(
        like.shape, generator=generator, device=generator.device, dtype=like.dtype
    ).to(like.device)


def check_levels(sigma: Tensor) -> None:
    """Raise unless every noise level is positive and finite."""
    good = (sigma > 0) & sigma.isfinite()
    if _readable(sigma) and not good.all():
        raise ValueError(f"sigma is positive and finite; got {_shown(sigma[~good])}")


def check_call(x: Tensor, sigma: Tensor, condition: Tensor) -> None:
    """Raise unless a denoiser can be asked this: one good level and one condition per image."""
    if sigma.shape != x.shape[:1]:
        raise ValueError(
            f"x holds {len(x)} images, so sigma has the shape ({len(x)},); got {tuple(sigma.shape)}"
        )
    if condition.shape[:1] != x.shape[:1]:
        raise ValueError(
            f"x holds {len(x)} images, so the condition has {len(x)} rows; "
            f"got the shape {tuple(condition.shape)}"
        )
    check_levels(sigma)


def null_of(null: Callable[[Tensor], Tensor], condition: Tensor) -> Tensor:
    """Return conditions that say nothing, or raise where a denoiser would not know them."""
    silent = null(condition)
    if silent.shape != condition.shape or silent.dtype != condition.dtype:
        raise ValueError(
            f"a null condition is like the condition, {condition.dtype} of the shape "
            f"{tuple(condition.shape)}; got {silent.dtype} of {tuple(silent.shape)}"
        )
    return silent


def check_answer(answer: Tensor, x: Tensor) -> None:
    """Raise unless a network or denoiser answered in the shape of x."""
    if answer.shape != x.shape:
        raise ValueError(
            f"the answer has the shape of x, {tuple(x.shape)}; got {tuple(answer.shape)}"
        )


def _checked(sigma: Tensor, x: Tensor) -> Tensor:
    check_levels(sigma)
    return per_image(sigma, x)


def _readable(value: Tensor) -> bool:
    """Whether values can be looked at: not inside a compiled or captured graph."""
    if torch.compiler.is_compiling():
        return False
    return not (value.is_cuda and torch.cuda.is_current_stream_capturing())


def _shown(value: Tensor) -> str:
    """Write out a few numbers for an error message."""
    numbers = [f"{number:g}" for number in value.flatten()[:8].tolist()]
    return ", ".join(numbers) + (", ..." if value.numel() > 8 else "")
