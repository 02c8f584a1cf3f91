"""The exact denoiser of a Gaussian mixture, and of scenes so small that all can be listed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb, prod
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from recombine.denoiser import Conditions, Images, Levels, check_call, unit_noise
from recombine.models.gaussian import Constant, Spectrum, check_pixels, log_normal, spectrum


@dataclass(frozen=True, eq=False)
class MixtureLaw:
    """A Gaussian mixture of images given a condition, and everything known of it under noise."""

    log_weight: Callable[[Tensor], Float[Tensor, "batch component"]]
    """Maps a condition to log weights; they need not sum to one, and -inf is none."""
    mean: Callable[[Tensor], Float[Tensor, " batch component *image"]]
    """Maps a condition to the mean image of each component."""
    covariance: Float[Tensor, "pixel pixel"] | Float[Tensor, "component pixel pixel"]
    """Over the pixels of an image, row by row; shared, or one per component."""

    def __post_init__(self) -> None:
        if self.covariance.dim() not in (2, 3):
            raise ValueError(
                "a covariance has the shape (pixel, pixel) or (component, pixel, pixel); "
                f"got {tuple(self.covariance.shape)}"
            )
        _ = self._spectrum  # fails here rather than at the first call

    def __call__(self, x: Images, sigma: Levels, condition: Conditions) -> Images:
        """Return the mean of the images that x may be a noisy view of."""
        seen = self._seen(x, sigma, condition)
        gain = seen.axes.variance / seen.variance
        guess = seen.mean + seen.axes.back(seen.coordinate * gain)
        return torch.einsum("bk,bkp->bp", seen.posterior, guess).reshape(x.shape)

    def score(self, x: Images, sigma: Levels, condition: Conditions) -> Images:
        """Return the gradient of `log_density`; exact where (denoised - x) / sigma^2 cancels."""
        seen = self._seen(x, sigma, condition)
        return torch.einsum("bk,bkp->bp", seen.posterior, seen.scores).reshape(x.shape)

    def log_density(
        self, x: Images, sigma: Levels, condition: Conditions
    ) -> Float[Tensor, " batch"]:
        """Return the log density of noisy images."""
        return self._seen(x, sigma, condition).log_joint.logsumexp(dim=1)

    def jacobian(
        self, x: Images, sigma: Levels, condition: Conditions
    ) -> Float[Tensor, "batch pixel pixel"]:
        """Return d denoised / d x; times sigma^2, it is the posterior covariance of the image.

        It is the mean gain of the components plus sigma^2 times the covariance of their scores.
        """
        seen = self._seen(x, sigma, condition)
        gain = seen.axes.variance / seen.variance
        if self.covariance.dim() == 2:
            within = seen.axes.matrix(gain[:, 0])
        else:
            gain = seen.posterior[..., None] * gain
            within = torch.einsum("kpe,bke,kqe->bpq", seen.axes.axes, gain, seen.axes.axes)
        scores = seen.scores
        spread = scores - torch.einsum("bk,bkp->bp", seen.posterior, scores)[:, None]
        between = torch.einsum("bk,bkp,bkq->bpq", seen.posterior, spread, spread)
        return within + sigma.to(x)[:, None, None] ** 2 * between

    def sample(self, condition: Conditions, generator: torch.Generator) -> Images:
        """Draw clean images, one per row of the condition."""
        mean = self.mean(condition)
        axes = self._spectrum.to(mean)
        weight = self._weighed(condition).exp().to(generator.device)
        chosen = torch.multinomial(weight, 1, generator=generator)[:, 0].to(mean.device)
        mean = mean[torch.arange(len(mean), device=mean.device), chosen]
        if self.covariance.dim() == 3:
            axes = Spectrum(axes.variance[chosen], axes.axes[chosen])
        offset = axes.back(unit_noise(mean.flatten(1), generator) * axes.variance.sqrt())
        return mean + offset.reshape(mean.shape)

    @cached_property
    def _spectrum(self) -> Spectrum:
        return spectrum(self.covariance)

    def _weighed(self, condition: Tensor) -> Tensor:
        """Return log weights that sum to one."""
        log_weight = self.log_weight(condition)
        never = log_weight.isneginf().all(dim=1)
        if never.any():
            row = int(never.nonzero()[0])
            raise ValueError(f"no component of this law is possible under condition {row}")
        return log_weight.log_softmax(dim=1)

    def _seen(self, x: Tensor, sigma: Tensor, condition: Tensor) -> "ComponentView":
        """Return x relative to every component."""
        check_call(x, sigma, condition)
        mean, axes = self.mean(condition).to(x), self._spectrum.to(x)
        log_weight = self._weighed(condition).to(x)
        check_pixels(x, mean.shape[2:], axes)
        counts = {log_weight.shape[1], mean.shape[1], *axes.variance.shape[:-1]}
        if len(counts) > 1:
            raise ValueError(
                f"weights, means and covariances disagree: {sorted(counts)} components"
            )
        mean = mean.flatten(2)
        coordinate = axes.along(x.flatten(1)[:, None] - mean)
        variance = axes.variance + sigma.to(x)[:, None, None] ** 2
        return ComponentView(
            axes, mean, coordinate, variance, log_weight + log_normal(coordinate, variance)
        )


@dataclass(frozen=True, eq=False)
class ComponentView:
    """A noisy image relative to each component, in coordinates along the component's axes."""

    axes: Spectrum
    mean: Float[Tensor, "batch component pixel"]
    coordinate: Float[Tensor, "batch component pixel"]
    variance: Float[Tensor, "batch either pixel"]
    log_joint: Float[Tensor, "batch component"]

    @property
    def posterior(self) -> Float[Tensor, "batch component"]:
        """How likely the image came from each component."""
        return self.log_joint.softmax(dim=1)

    @property
    def scores(self) -> Float[Tensor, "batch component pixel"]:
        """The score of each component alone."""
        return -self.axes.back(self.coordinate / self.variance)


CellMarks: TypeAlias = Bool[Tensor, "batch cell"]
ByScene: TypeAlias = Float[Tensor, "batch component"]
Marking: TypeAlias = Callable[[Bool[Tensor, "component cell"], CellMarks], ByScene]
"""(present, marked) -> chance that a condition marks these cells, given the present objects."""


def marks_all(present: Bool[Tensor, "component cell"], marked: CellMarks) -> ByScene:
    """The condition marks every object, so that it determines the scene."""
    return (present == marked[:, None]).all(dim=-1).double()


def marks_one(present: Bool[Tensor, "component cell"], marked: CellMarks) -> ByScene:
    """The condition marks one object of the scene, each with the same chance."""
    alone = marked.sum(dim=1, keepdim=True) == 1
    inside = (present & marked[:, None]).any(dim=-1)
    return (inside & alone) / present.sum(dim=1).double()


def subsets(cells: int, counts: range = range(1, 4)) -> Bool[Tensor, "component cell"]:
    """Return every scene: which cells hold an object, for each number of objects."""
    if not counts or counts[0] < 0 or counts[-1] > cells or counts.step != 1:
        raise ValueError(f"scenes of {cells} cells cannot hold {counts} objects")
    held = [chosen for count in counts for chosen in combinations(range(cells), count)]
    present = torch.zeros(len(held), cells, dtype=torch.bool)
    for row, chosen in enumerate(held):
        present[row, list(chosen)] = True
    return present


@dataclass(frozen=True, eq=False)
class SceneWeight:
    """Log weight of each scene given the condition; a condition of zeros is null."""

    present: Bool[Tensor, "component cell"]
    marking: Marking

    def __call__(self, condition: Conditions) -> Float[Tensor, "batch component"]:
        marked = condition.flatten(1) != 0
        present = self.present.to(marked.device)
        if marked.shape[1] != present.shape[1]:
            raise ValueError(
                f"a condition marks {present.shape[1]} cells; got {marked.shape[1]} of them"
            )
        chance = self.marking(present, marked)
        never = (chance == 0).all(dim=1) & marked.any(dim=1)
        if never.any():
            cells = marked[never][0].nonzero().flatten().tolist()
            raise ValueError(f"this law never marks objects in the cells {cells}")
        null = ~marked.any(dim=1, keepdim=True)
        return self.prior(present) + chance.log().masked_fill(null, 0)

    @staticmethod
    def prior(present: Bool[Tensor, "component cell"]) -> Float[Tensor, " component"]:
        """Return log weights under the null condition: each count, then each place, equally."""
        count = present.sum(dim=1)
        _, group, size = count.unique(return_inverse=True, return_counts=True)
        return -size[group].double().log()


def scene_law(
    shape: tuple[int, ...], marking: Marking, counts: range = range(1, 4), noise: float = 0.25
) -> MixtureLaw:
    """Return the law of images with one pixel per cell: +1 object, -1 background, plus noise.

    The number of objects is uniform on `counts`, their cells are uniform without replacement.
    `noise` is the standard deviation of a cell. The condition marks cells, in any shape.
    """
    if not noise > 0:
        raise ValueError(f"the noise of a cell is positive; got {noise}")
    cells = prod(shape)
    if (scenes := sum(comb(cells, count) for count in counts)) > 200_000:
        raise ValueError(
            f"{cells} cells with {counts} objects are {scenes} scenes: too many to list"
        )
    present = subsets(cells, counts)
    mean = torch.where(present, 1.0, -1.0).double().reshape(-1, *shape)
    covariance = noise**2 * torch.eye(cells, dtype=torch.float64)
    return MixtureLaw(SceneWeight(present, marking), Constant(mean), covariance)
