"""How far is a trained denoiser from the exact one, in a world whose law is known?

The error is weighted by where the law has mass: it is measured at noisy points of the law.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.denoiser import score
from recombine.measure.subject import Findings, Subject, inapplicable
from recombine.measurement import Measurement


@dataclass(frozen=True)
class ExactError:
    """The root mean square error of a denoiser against the exact one, at `points` of the law.

    It is relative to how much the exact answers vary (1: no better than always the law's mean).
    The scores are kept on a grid of places, at the level `shown`.
    """

    levels: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0)
    points: int = 4096
    shown: float = 0.2
    grid: int = 17

    name: ClassVar[str] = "exact_error"

    def __call__(self, subject: Subject, generator: torch.Generator) -> Findings:
        """Compare at each level, and at all of them together."""
        world = subject.training.world
        if not hasattr(world, "law"):
            raise inapplicable(self.name, "worlds whose law is known", world)
        pairs = {level: self._errors(subject, level, generator) for level in self.levels}
        pooled = [torch.cat(each) for each in zip(*pairs.values(), strict=True)]
        found = {f"relative_error@{level:g}": relative(*pair) for level, pair in pairs.items()}
        return Findings(
            {"relative_error": relative(*pooled), **found}, arrays=self._scores(subject)
        )

    def tiny(self) -> "ExactError":
        """Return the same comparison on fewer points."""
        return replace(self, points=64, grid=5)

    def _errors(
        self, subject: Subject, level: float, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return squared errors at noisy points, and squared distances of the truth to its mean."""
        law = subject.training.world.law
        no_condition = torch.zeros(self.points, 4, device=subject.device)
        point = law.sample(no_condition, generator).float()
        sigma = point.new_full((self.points,), level)
        noise = torch.randn(point.shape, generator=generator, device=generator.device)
        x = point + level * noise.to(point)
        exact, guess = law(x, sigma, no_condition), subject.denoiser(x, sigma, no_condition)
        spread = exact - law.mean(no_condition).mean(dim=1).to(exact)
        return _squared(guess - exact), _squared(spread)

    def _scores(self, subject: Subject) -> dict[str, Tensor]:
        """Return places and the exact and the learned score there, for the figure."""
        line = torch.linspace(-1.5, 1.5, self.grid, device=subject.device)
        x = torch.cartesian_prod(line, line)[:, :, None, None]
        sigma, no_condition = x.new_full((len(x),), self.shown), x.new_zeros(len(x), 4)
        exact = subject.training.world.law.score(x, sigma, no_condition)
        learned = score(subject.denoiser(x, sigma, no_condition), x, sigma)
        kept = {"place": x, "exact_score": exact, "learned_score": learned}
        return {name: each.flatten(1).float().cpu() for name, each in kept.items()}


def relative(error: Float[Tensor, " point"], spread: Float[Tensor, " point"]) -> Measurement:
    """Return sqrt(E error / E spread), with the interval of a ratio of means (delta method)."""
    n, error, spread = len(error), error.double(), spread.double()
    ratio = error.mean() / spread.mean()
    reach = 1.96 * (error - ratio * spread).std() / spread.mean() / n**0.5
    low, high = (ratio - reach).clamp(min=0).sqrt(), (ratio + reach).sqrt()
    return Measurement(float(ratio.sqrt()), float(low), float(high), n=n)


def _squared(offset: Tensor) -> Tensor:
    return offset.flatten(1).square().sum(dim=1)
