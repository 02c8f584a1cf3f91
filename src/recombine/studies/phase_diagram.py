"""Where does Swing-by live: for which means, starts, dimensions and depths does the error rise?

    recombine run phase_diagram                               # 35 minutes on two busy cores
    recombine run phase_diagram --starts 200 --dimensions 2,4

Deep linear networks without ties, by gradient flow from balanced layers. A start is W = U U^T,
the rows of U normal with a given correlation and equal length on average, so that every depth
starts from the same map. The paper shows single points of this diagram.
"""

import math
from dataclasses import dataclass, replace
from itertools import product

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from recombine.linear import analysis, deep, symmetric
from recombine.linear.sim import Sim
from recombine.measure.subject import Findings
from recombine.measurement import Measurement
from recombine.studies.swing_by import share
from recombine.study import Watched, study

LOOKS = 300
POINT = ("ratio", "correlation", "dimensions", "depth", "bump_share", "low", "high", "bump_median")
"""What the array of points has in each column."""


@dataclass(frozen=True)
class PhaseDiagram:
    """Measure the share of starts whose error at the test point rises by 1 % of its first value."""

    ratios: tuple[float, ...] = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)
    """Mean of the strong concept over that of the weak one, which is 1."""
    correlations: tuple[float, ...] = (0.0, 0.3, 0.6, 0.8, 0.9, 0.97)
    """Correlation of the rows of the start."""
    dimensions: tuple[int, ...] = (2, 4, 8, 16)
    """Dimensions of the data, and width of every layer."""
    depths: tuple[int, ...] = (1, 2, 3, 4)
    """Numbers of layers."""
    starts: int = 30
    """Random starts for every combination of these."""
    sigma: float = 0.05
    """Standard deviation of the clusters."""
    size: float = 0.3
    """Length of a row of U, on average: a major entry starts at its square."""
    time: float = 40.0
    """How long to follow."""

    def __post_init__(self) -> None:
        if self.starts < 1:
            raise ValueError(f"a share needs a start or more; got {self.starts}")
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
        """Follow every start, one number of dimensions and layers after the other."""
        slabs = list(product(self.dimensions, self.depths))
        bumps = []
        for done, (dimensions, depth) in enumerate(slabs, start=1):
            bumps.append(self.bumps(dimensions, depth, generator))
            watch(done, len(slabs))
        shape = (len(self.dimensions), len(self.depths), *bumps[0].shape)
        every = torch.stack(bumps).view(shape)
        return Findings(self.measured(every > 0.01), arrays={"points": self.points(every)})

    def tiny(self) -> "PhaseDiagram":
        """Return four points of the diagram with four starts."""
        few = replace(self, ratios=(1.0, 3.0), correlations=(0.0, 0.9), dimensions=(2,))
        return replace(few, depths=(2,), starts=4, time=8.0)

    def drawn(
        self, dimensions: int, generator: torch.Generator
    ) -> Float[Tensor, "correlation start row row"]:
        """Draw W of every correlation and start."""
        shape = (len(self.correlations), self.starts, dimensions, dimensions)
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
    ) -> Float[Tensor, "ratio correlation start"]:
        """Return the bump of every start, over its first loss."""
        tasks = [Sim((1.0, ratio), (self.sigma,) * 2, dimensions) for ratio in self.ratios]
        layers = deep.balanced(self.drawn(dimensions, generator), depth)
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
        self, risen: Bool[Tensor, "dimension depth ratio correlation start"]
    ) -> dict[str, Measurement]:
        """Return the share of all starts, of every value of an axis, and of the fullest point."""
        most = int(risen.sum(dim=-1).max())
        found = {
            "bump_share": share(risen.flatten()),
            "bump_share_most": Measurement.rate(most, self.starts),
        }
        axes = {
            "dimensions": self.dimensions,
            "depth": self.depths,
            "ratio": self.ratios,
            "correlation": self.correlations,
        }
        for dim, (name, values) in enumerate(axes.items()):
            for value, part in zip(values, risen.unbind(dim), strict=True):
                found[f"bump_share@{name}{value:g}"] = share(part.flatten())
        return found

    def points(
        self, bumps: Float[Tensor, "dimension depth ratio correlation start"]
    ) -> Float[Tensor, "point 8"]:
        """Return a row a point of the diagram: where it is, share, interval and median of bumps."""
        rows = []
        for place in product(*(range(each) for each in bumps.shape[:4])):
            dimension, depth, ratio, correlation = place
            rise = bumps[place]
            risen = share(rise > 0.01)
            rows.append(
                [
                    self.ratios[ratio],
                    self.correlations[correlation],
                    self.dimensions[dimension],
                    self.depths[depth],
                    *(risen.value, risen.low or 0.0, risen.high or 0.0, float(rise.median())),
                ]
            )
        return torch.tensor(rows, dtype=torch.float64)


STUDY = study(
    "Where does Swing-by live?",
    PhaseDiagram(),
    {},
    headline=("bump_share", "bump_share_most"),
    cost="35 minutes on two cores",
)
