"""The interfaces of every generative model here, and the conversions of a denoiser's output.

Noise is added, x = image + sigma * noise, and the images keep their scale (variance exploding).
The variance-preserving view of DDPM is the same picture shrunk: x / sqrt(1 + sigma^2).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

Images: TypeAlias = Float[Tensor, " batch *image"]
"""Images, noisy ones too, or points: whatever a denoiser is for."""
Levels: TypeAlias = Float[Tensor, " batch"]
"""One noise level for each image, or the clock that a network reads instead."""
Conditions: TypeAlias = Shaped[Tensor, " batch *condition"]
"""What each image is conditioned on."""


@runtime_checkable
class Denoiser(Protocol):
    """The best guess of a clean image, given a noisy one, its noise level and a condition."""

    def __call__(self, x: Images, sigma: Levels, condition: Conditions, /) -> Images: ...


@runtime_checkable
class Objective(Protocol):
    """What is minimized: the loss of a denoiser, or of another model, on a batch."""

    def __call__(
        self, denoiser: Any, image: Any, condition: Any, /, *, generator: torch.Generator
    ) -> Float[Tensor, ""]: ...

    def wrap(self, network: nn.Module) -> nn.Module:
        """Return the model to be trained: the network itself, unless it says otherwise."""
        return network


Conversion: TypeAlias = Callable[[Images, Images, Levels], Images]
"""(denoised, x, sigma) -> score, noise or velocity; or noise or velocity back to denoised."""


def score(denoised: Images, x: Images, sigma: Levels) -> Images:
    """Gradient of the log density of noisy images (Tweedie's formula)."""
    return (denoised - x) / _checked(sigma, x) ** 2


def noise(denoised: Images, x: Images, sigma: Levels) -> Images:
    """Return the unit noise that would turn the denoised image into x; also dx / dsigma."""
    return (x - denoised) / _checked(sigma, x)


def denoised_from_noise(noise: Images, x: Images, sigma: Levels) -> Images:
    """Return what is left of x without this unit noise."""
    return x - _checked(sigma, x) * noise


def velocity(denoised: Images, x: Images, sigma: Levels) -> Images:
    """Return alpha noise - sqrt(1 - alpha^2) denoised, alpha^2 = alpha_bar (Salimans & Ho 2022)."""
    level = _checked(sigma, x)
    return ((x - denoised) / level - level * denoised) / (1 + level**2).sqrt()


def denoised_from_velocity(velocity: Images, x: Images, sigma: Levels) -> Images:
    """Return the denoised image whose velocity this is."""
    level = _checked(sigma, x)
    return x / (1 + level**2) - level / (1 + level**2).sqrt() * velocity


def variance_preserving(x: Images, sigma: Levels) -> Images:
    """Shrink x so that images of unit variance have unit variance at every noise level."""
    return x / (1 + _checked(sigma, x) ** 2).sqrt()


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

    def time(self, sigma: Levels) -> Levels:
        """Return t / steps, the clock of DDPM networks; linear in log sigma between steps."""
        levels = self.levels(sigma).log()
        at = sigma.log().clamp(levels[0], levels[-1])
        after = torch.searchsorted(levels, at).clamp(1, self.steps - 1)
        share = (at - levels[after - 1]) / (levels[after] - levels[after - 1])
        return (after + share) / self.steps


def quarter_log(sigma: Levels) -> Levels:
    """Return log(sigma) / 4, the clock of EDM networks (c_noise)."""
    return sigma.log() / 4


class Preconditioned(nn.Module):
    """A denoiser made of any network (x, clock, condition) -> image of unit variance.

    Input and target of the network have unit variance at every noise level when the images have
    the variance sigma_data^2 (Karras et al. 2022, table 1).
    """

    def __init__(self, network: nn.Module, sigma_data: float = 0.5) -> None:
        super().__init__()
        if not 0 < sigma_data < float("inf"):
            raise ValueError(f"sigma_data is a positive number; got {sigma_data}")
        if getattr(network, "denoises", False):
            raise ValueError(f"{type(network).__name__} is a denoiser already; train it as it is")
        self.network = network
        self.sigma_data = sigma_data

    def forward(
        self, x: Images, sigma: Levels, condition: Conditions, states: list[Tensor] | None = None
    ) -> Images:
        """Return the clean image; the network appends its hidden states to `states`, if given."""
        check_call(x, sigma, condition)
        level = per_image(sigma, x)
        total = level**2 + self.sigma_data**2
        inputs = (x / total.sqrt(), quarter_log(sigma), condition)
        answer = self.network(*inputs) if states is None else self.network(*inputs, states)
        check_answer(answer, x)
        skipped = self.sigma_data**2 / total * x
        return skipped + level * self.sigma_data / total.sqrt() * answer.to(x.dtype)


class Predicting(nn.Module):
    """A denoiser made of a network that predicts noise or velocity, as DDPM's do.

    The network sees the variance-preserving x and clock(sigma); `inverse` turns its output into
    an image: denoised_from_noise or denoised_from_velocity.
    """

    def __init__(
        self,
        network: nn.Module,
        inverse: Conversion,
        clock: Callable[[Tensor], Tensor] = quarter_log,
    ) -> None:
        super().__init__()
        self.network = network
        self.inverse = inverse
        self.clock = clock

    def forward(self, x: Images, sigma: Levels, condition: Conditions) -> Images:
        check_call(x, sigma, condition)
        answer = self.network(variance_preserving(x, sigma), self.clock(sigma), condition)
        check_answer(answer, x)
        return self.inverse(answer.to(x.dtype), x, sigma)


def per_image(value: Levels, like: Images) -> Float[Tensor, " batch *one"]:
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
    """Raise unless there are one good noise level and one condition per image."""
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
    """Return null conditions; raise unless they have the shape and dtype of the conditions."""
    made = null(condition)
    if made.shape != condition.shape or made.dtype != condition.dtype:
        raise ValueError(
            f"a null condition is like the condition, {condition.dtype} of the shape "
            f"{tuple(condition.shape)}; got {made.dtype} of {tuple(made.shape)}"
        )
    return made


def check_answer(answer: Tensor, x: Tensor) -> None:
    """Raise unless the output of a network or denoiser has the shape of x."""
    if answer.shape != x.shape:
        raise ValueError(
            f"the answer has the shape of x, {tuple(x.shape)}; got {tuple(answer.shape)}"
        )


def _checked(sigma: Tensor, x: Tensor) -> Tensor:
    check_levels(sigma)
    return per_image(sigma, x)


def _readable(value: Tensor) -> bool:
    """Return whether values can be looked at: not in a vmap or a graph that is being made."""
    tracing = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.PROXY) is not None
    if tracing or torch.compiler.is_compiling() or torch._C._functorch.is_batchedtensor(value):
        return False
    return not (value.is_cuda and torch.cuda.is_current_stream_capturing())


def _shown(value: Tensor) -> str:
    """Write out a few numbers for an error message."""
    numbers = [f"{number:g}" for number in value.flatten()[:8].tolist()]
    return ", ".join(numbers) + (", ..." if value.numel() > 8 else "")
