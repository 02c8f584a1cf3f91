"""Where does Swing-by live: for which means, starts, dimensions and depths does the error rise?

    recombine run swing_by_phase_diagram            # 35 minutes on two busy cores with --seeds 30
    recombine run swing_by_phase_diagram --seeds 200 --dimensions 2,4

Deep linear networks without ties, by gradient flow from balanced layers. A start is W = U U^T,
the rows of U normal with a given correlation and equal length on average, so that every depth
starts from the same map. The paper shows single points of this diagram.
"""

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.experiment import Findings, Watched
from recombine.experiments.swing_by import share
from recombine.linear import analysis, deep, symmetric
from recombine.linear.sim import Sim
from recombine.measurement import Measurement

LOOKS = 300
CELL = ("ratio", "correlation", "dimensions", "depth", "bump_share", "low", "high", "bump_median")
"""What a cell of the diagram holds, in this order."""


@dataclass(frozen=True)
class PhaseDiagram:
    """The share of starts whose error at the test point rises by 1 % of its first value."""

    question: str
    ratios: tuple[float, ...] = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)
    """Mean of the strong concept over that of the weak one, which is 1."""
    correlations: tuple[float, ...] = (0.0, 0.3, 0.6, 0.8, 0.9, 0.97)
    """Correlation of the rows of the start."""
    dimensions: tuple[int, ...] = (2, 4, 8, 16)
    """Dimensions of the data, and width of every layer."""
    depths: tuple[int, ...] = (1, 2, 3, 4)
    """Numbers of layers."""
    seeds: int = 100
    """Random starts of every cell."""
    sigma: float = 0.05
    """Standard deviation of the clusters."""
    size: float = 0.3
    """Length of a row of U, on average: a major entry starts at its square."""
    time: float = 40.0
    """How long to follow."""

    headline: ClassVar[tuple[str, ...]] = ("bump_share", "bump_share_most")

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ValueError(f"a share needs a seed or more; got {self.seeds}")
        if not all((self.ratios, self.correlations, self.dimensions, self.depths)):
            raise ValueError("a diagram needs a ratio, a correlation, a dimension and a depth")
        if any(not 0 <= each < 1 for each in self.correlations):
            raise ValueError(f"correlations lie in [0, 1); got {self.correlations}")
        if min(self.depths) < 1 or min(self.dimensions) < 2:
            raise ValueError(
                "a diagram has 1 layer and 2 dimensions or more; "
                f"got {min(self.depths)} and {min(self.dimensions)}"
            )

    def __call__(self, generator: torch.Generator, watch: Watched) -> Findings:
        """Follow every start of every cell."""
        cells: list[list[float]] = []
        risen: dict[tuple[int, int], list[Tensor]] = {}
        slabs = list(product(self.dimensions, self.depths))
        for done, (dimensions, depth) in enumerate(slabs, start=1):
            bumps = self.bumps(dimensions, depth, generator)
            risen[dimensions, depth] = list((bumps > 0.01).flatten(0, 1))
            for at, (ratio, correlation) in enumerate(product(self.ratios, self.correlations)):
                rise = bumps.flatten(0, 1)[at]
                cell = [ratio, correlation, float(dimensions), float(depth)]
                cells.append([*cell, *_numbers(share(rise > 0.01)), float(rise.median())])
            watch(done, len(slabs))
        return Findings(self.measured(risen, cells), {"cells": cells})

    def tiny(self) -> "PhaseDiagram":
        """Return four cells of four starts."""
        few = replace(self, ratios=(1.0, 3.0), correlations=(0.0, 0.9), dimensions=(2,))
        return replace(few, depths=(2,), seeds=4, time=8.0)

    def starts(self, dimensions: int, generator: torch.Generator) -> Float[Tensor, "r s row row"]:
        """Draw W of every correlation and seed."""
        shape = (len(self.correlations), self.seeds, dimensions, dimensions)
        device = generator.device
        own = torch.randn(shape, generator=generator, device=device, dtype=torch.float64)
        common = torch.randn(
            (*shape[:2], 1, dimensions), generator=generator, device=device, dtype=torch.float64
        )
        correlation = torch.tensor(self.correlations).to(own)[:, None, None, None]
        u = correlation.sqrt() * common + (1 - correlation).sqrt() * own
        return symmetric.jacobian(self.size / math.sqrt(dimensions) * u)

    def bumps(
        self, dimensions: int, depth: int, generator: torch.Generator
    ) -> Float[Tensor, "ratio correlation seed"]:
        """Return the bump of every start, over its first loss."""
        tasks = [Sim((1.0, ratio), (self.sigma,) * 2, dimensions) for ratio in self.ratios]
        layers = deep.balanced(self.starts(dimensions, generator), depth)
        rates = torch.stack([task.rates for task in tasks])[:, None, None].to(layers)
        target = torch.stack([task.target for task in tasks])[:, None, None].to(layers)
        times = self.time * torch.linspace(0, 1, LOOKS).double() ** 1.5

        def look(layers: Tensor) -> Tensor:
            output = (deep.product(layers) @ target[..., None])[..., 0]
            return (output - target).square().sum(dim=-1) / 2

        start = layers.expand(len(tasks), *layers.shape).contiguous()
        loss = deep.trajectories(start, rates, times.to(layers), 1e-6, look)
        return analysis.bump(loss) / loss[0]

    def measured(
        self, risen: dict[tuple[int, int], list[Tensor]], cells: list[list[float]]
    ) -> dict[str, Measurement]:
        """Return the share of all starts, of each slab, and of the cell that has most."""
        joined = {slab: torch.cat(each) for slab, each in risen.items()}
        *_, value, low, high, _ = max(cells, key=lambda cell: cell[4])
        found = {
            "bump_share": share(torch.cat(list(joined.values()))),
            "bump_share_most": Measurement(value, low, high, n=self.seeds),
        }
        for depth in self.depths:
            of = [each for slab, each in joined.items() if slab[1] == depth]
            found[f"bump_share@depth{depth}"] = share(torch.cat(of))
        for dimensions in self.dimensions:
            of = [each for slab, each in joined.items() if slab[0] == dimensions]
            found[f"bump_share@dimensions{dimensions}"] = share(torch.cat(of))
        for name, values, at in (("ratio", self.ratios, 0), ("correlation", self.correlations, 1)):
            for value in values:
                of_value = [cell[4] for cell in cells if cell[at] == value]
                n = self.seeds * len(of_value)
                successes = round(sum(of_value) * self.seeds)
                found[f"bump_share@{name}{value:g}"] = Measurement.rate(successes, n)
        return found


def _numbers(measured: Measurement) -> list[float]:
    return [float(each or 0.0) for each in (measured.value, measured.low, measured.high)]


base = PhaseDiagram("Where does Swing-by live?")
