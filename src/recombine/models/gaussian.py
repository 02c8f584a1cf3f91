"""The exact denoiser of a Gaussian: no training, no error, the yardstick of every measurement."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import log, pi, prod
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.denoiser import Conditions, Images, Levels, check_call, unit_noise

Pixels: TypeAlias = Float[Tensor, "*batch pixel"]
"""Flat images, or their coordinates along principal axes."""


@dataclass(frozen=True, eq=False)
class Constant:
    """A mean or a weight that does not depend on the condition."""

    value: Float[Tensor, "*any"]

    def __call__(self, condition: Conditions) -> Float[Tensor, " batch *any"]:
        value = self.value.to(condition.device)
        return value.expand(len(condition), *value.shape)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """A covariance by its principal axes (columns) and the variance along each."""

    variance: Float[Tensor, "*law pixel"]
    axes: Float[Tensor, "*law pixel pixel"]

    def to(self, like: Float[Tensor, "*any"]) -> "Spectrum":
        """Return the same spectrum in the dtype and on the device of `like`."""
        return Spectrum(self.variance.to(like), self.axes.to(like))

    def along(self, offset: Pixels) -> Pixels:
        """Return coordinates along the axes."""
        return torch.einsum("...p,...pe->...e", offset, self.axes)

    def back(self, coordinate: Pixels) -> Pixels:
        """Return pixels from coordinates along the axes."""
        return torch.einsum("...e,...pe->...p", coordinate, self.axes)

    def matrix(self, factor: Pixels) -> Float[Tensor, "*batch pixel pixel"]:
        """Return the matrix that stretches each axis by its factor."""
        return (self.axes * factor[..., None, :]) @ self.axes.mT


def spectrum(covariance: Float[Tensor, "*law pixel pixel"]) -> Spectrum:
    """Return the principal axes of a covariance; raise if it is none."""
    if covariance.dim() < 2 or covariance.shape[-1] != covariance.shape[-2]:
        raise ValueError(f"a covariance is a square matrix; got {tuple(covariance.shape)}")
    scale = covariance.abs().max()
    if not scale.isfinite() or (covariance - covariance.mT).abs().max() > 1e-5 * scale:
        raise ValueError("a covariance is finite and symmetric; this one is not")
    variance, axes = torch.linalg.eigh(covariance)
    if variance.min() < -1e-5 * scale:
        raise ValueError(f"a covariance has no negative variance; got {variance.min():g}")
    return Spectrum(variance.clamp(min=0), axes)


@dataclass(frozen=True, eq=False)
class GaussianLaw:
    """A normal law of images given a condition, and everything known of it under noise."""

    mean: Callable[[Tensor], Images]
    """Maps a condition to mean images."""
    covariance: (
        Float[Tensor, "pixel pixel"] | Callable[[Tensor], Float[Tensor, "batch pixel pixel"]]
    )
    """Over the pixels of an image, row by row, channels first; or a function of the condition."""

    def __post_init__(self) -> None:
        _ = self._shared  # fails here rather than at the first call

    def __call__(self, x: Images, sigma: Levels, condition: Conditions) -> Images:
        """Return the mean of the images that x may be a noisy view of."""
        mean, axes = self._parts(x, sigma, condition)
        gain = axes.variance / _noisy(axes, sigma)
        return mean + _stretched(axes, x - mean, gain)

    def score(self, x: Images, sigma: Levels, condition: Conditions) -> Images:
        """Return the gradient of `log_density`; exact where (denoised - x) / sigma^2 cancels."""
        mean, axes = self._parts(x, sigma, condition)
        return -_stretched(axes, x - mean, 1 / _noisy(axes, sigma))

    def log_density(
        self, x: Images, sigma: Levels, condition: Conditions
    ) -> Float[Tensor, " batch"]:
        """Return the log density of noisy images."""
        mean, axes = self._parts(x, sigma, condition)
        return log_normal(axes.along((x - mean).flatten(1)), _noisy(axes, sigma))

    def jacobian(
        self, x: Images, sigma: Levels, condition: Conditions
    ) -> Float[Tensor, "batch pixel pixel"]:
        """Return d denoised / d x = C / (C + sigma^2); times sigma^2, the posterior covariance."""
        _, axes = self._parts(x, sigma, condition)
        return axes.matrix(axes.variance / _noisy(axes, sigma))

    def sample(self, condition: Conditions, generator: torch.Generator) -> Images:
        """Draw clean images, one per row of the condition."""
        mean = self.mean(condition)
        axes = self._spectrum(condition).to(mean)
        return mean + _stretched(axes, unit_noise(mean, generator), axes.variance.sqrt())

    @cached_property
    def _shared(self) -> Spectrum | None:
        """The spectrum, if the covariance does not depend on the condition."""
        return spectrum(self.covariance) if isinstance(self.covariance, Tensor) else None

    def _spectrum(self, condition: Tensor) -> Spectrum:
        if isinstance(self.covariance, Tensor):
            return self._shared or spectrum(self.covariance)
        return spectrum(self.covariance(condition))

    def _parts(self, x: Tensor, sigma: Tensor, condition: Tensor) -> tuple[Tensor, Spectrum]:
        """Return mean and principal axes in the precision of x."""
        check_call(x, sigma, condition)
        mean, axes = self.mean(condition).to(x), self._spectrum(condition).to(x)
        check_pixels(x, mean.shape[1:], axes)
        return mean, axes


def check_pixels(x: Tensor, image: tuple[int, ...], axes: Spectrum) -> None:
    """Raise unless x, the mean images and the covariance are about the same pixels."""
    if x.shape[1:] != image:
        raise ValueError(f"images of this law have the shape {tuple(image)}; x: {tuple(x.shape)}")
    if prod(image) != axes.variance.shape[-1]:
        raise ValueError(
            f"an image of {prod(image)} pixels needs as many variances; "
            f"the covariance has {axes.variance.shape[-1]}"
        )


def log_normal(
    coordinate: Pixels, variance: Float[Tensor, "*law pixel"]
) -> Float[Tensor, "*batch"]:
    """Return the log density of independent normal numbers of mean zero."""
    return -0.5 * (coordinate**2 / variance + variance.log() + log(2 * pi)).sum(-1)


def _noisy(axes: Spectrum, sigma: Tensor) -> Tensor:
    """Variance of noisy images along each axis."""
    return axes.variance + sigma.to(axes.variance)[:, None] ** 2


def _stretched(axes: Spectrum, offset: Tensor, factor: Tensor) -> Tensor:
    """Stretch an offset of images along the axes."""
    return axes.back(axes.along(offset.flatten(1)) * factor).reshape(offset.shape)
