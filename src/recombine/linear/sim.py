"""Structured identity mapping: clusters on the axes, one per concept; the test is their sum."""

from dataclasses import dataclass
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Sim:
    """Clusters at mean_p e_p with independent coordinates; a model must return its input.

    `deviations` are one per concept (other coordinates are 0) or one per dimension. The authors'
    code passes its sigma as a variance and always has a cluster at the origin: both are options.
    """

    means: tuple[float, ...]
    deviations: tuple[float, ...]
    dimensions: int
    origin: bool = False
    sigma_as_variance: bool = False

    def __post_init__(self) -> None:
        if not self.means:
            raise ValueError("a task needs a concept: means such as 1,2; got none")
        if len(self.means) > self.dimensions:
            raise ValueError(
                f"{len(self.means)} concepts need as many dimensions or more; got {self.dimensions}"
            )
        if len(self.deviations) not in (len(self.means), self.dimensions):
            raise ValueError(
                f"deviations are one per concept ({len(self.means)}) or per dimension "
                f"({self.dimensions}); got {len(self.deviations)}"
            )
        if any(not 0 <= each < float("inf") for each in self.deviations):
            raise ValueError(f"deviations are finite and not negative; got {self.deviations}")

    @property
    def concepts(self) -> int:
        """How many clusters lie on an axis."""
        return len(self.means)

    @property
    def clusters(self) -> int:
        """How many clusters there are."""
        return self.concepts + self.origin

    @property
    def target(self) -> Float[Tensor, " dimension"]:
        """The test point, which has every concept: the sum of the centres."""
        return torch.tensor([*self.means, *[0.0] * (self.dimensions - self.concepts)]).double()

    @property
    def variances(self) -> Float[Tensor, " dimension"]:
        """The variance of each coordinate within a cluster."""
        given = torch.tensor(self.deviations).double()
        known = given if self.sigma_as_variance else given**2
        return torch.nn.functional.pad(known, (0, self.dimensions - len(given)))

    @property
    def rates(self) -> Float[Tensor, " dimension"]:
        """The diagonal of E[x x^T]: a_p = variance_p + mean_p^2 / clusters."""
        return self.variances + self.target**2 / self.clusters

    @property
    def moment(self) -> Float[Tensor, "augmented augmented"]:
        """E[z z^T] of z = (x, 1): what a layer with a bias learns from."""
        mean = self.target / self.clusters
        upper = torch.cat([torch.diag(self.rates), mean[:, None]], dim=1)
        return torch.cat([upper, torch.cat([mean, mean.new_ones(1)])[None]])

    @property
    def corners(self) -> Float[Tensor, "corner dimension"]:
        """Every corner of the concept hypercube, 00 first, in binary order."""
        present = torch.tensor(list(product((0.0, 1.0), repeat=self.concepts))).double()
        padded = torch.nn.functional.pad(present, (0, self.dimensions - self.concepts))
        return padded * self.target

    def points(
        self, each: int, generator: torch.Generator, apart: float = 0.0
    ) -> Float[Tensor, "point dimension"]:
        """Draw so many points of each cluster, none nearer than `apart` to the test point."""
        device = generator.device
        centres = torch.diag(self.target)[: self.concepts]
        centres = torch.cat([centres.new_zeros(int(self.origin), self.dimensions), centres])
        centre = centres.repeat_interleave(each, dim=0).to(device)
        width, target = self.variances.sqrt().to(device), self.target.to(device)
        found = centre + width * _normal(centre.shape, generator)
        for _ in range(1000):
            near = (found - target).norm(dim=1) < apart
            if not near.any():
                return found
            found[near] = centre[near] + width * _normal(centre[near].shape, generator)
        raise ValueError(f"no cluster has points {apart} away from the test point")


def rotation(dimensions: int, generator: torch.Generator) -> Float[Tensor, "dimension dimension"]:
    """Draw an orthogonal matrix."""
    return torch.linalg.svd(_normal((dimensions, dimensions), generator)).U


def _normal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator, device=generator.device, dtype=torch.float64)
