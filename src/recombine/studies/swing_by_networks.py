"""Do networks trained by SGD learn concepts in the order of their rates, and do they swing by?

    recombine run swing_by_networks                            # every network, 20 minutes on a core
    recombine run swing_by_networks:four_narrow-means_2_4      # figure 3 of the paper, seconds

Figures 2, 3, 7, 11-14 and 16 of Yang et al. (2024), which show one network each. Untied layers as
in the authors' code: biases, PyTorch's start, a mean over dimensions as loss, one order of
batches, a cluster at the origin and sigma read as a variance; each is an option. There is no
closed theory for deep or ReLU networks: many networks stand in its place.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.linear import analysis
from recombine.linear.curves import CurveRows, curve, spread
from recombine.linear.network import Layers, Perceptron, batches, descend, largest_rate
from recombine.linear.sim import Sim, rotation
from recombine.measure.subject import Findings
from recombine.measurement import Measurement
from recombine.studies.swing_by import share
from recombine.study import Axis, Level, Watched, study

LOOKS = 12
"""Measurements per epoch."""
SHOWN = 10
"""Networks whose outputs are kept."""
_CORNER_EPOCHS = (0, 2, 4)


class Data(NamedTuple):
    """What every network is trained on, and the rotation of its axes."""

    points: Float[Tensor, "network point row"]
    axes: Float[Tensor, "network row row"]


@dataclass(frozen=True)
class Descent:
    """Train many networks by SGD, and measure their outputs at the new sum of concepts."""

    means: tuple[float, ...] = (1.0, 2.0)
    """Distance of each concept's cluster from the origin."""
    sigma: tuple[float, ...] = (0.05,)
    """Spread of a cluster: one for all, or one per concept."""
    networks: int = 20
    """How many networks."""
    dimensions: int = 64
    """Dimensions of the data."""
    layers: int = 1
    """Layers of a network."""
    hidden: int = 64
    """Width of the hidden layers."""
    relu: bool = False
    """Put a ReLU between the layers."""
    bias: bool = True
    """Give the layers biases."""
    origin: bool = True
    """Add a cluster at the origin."""
    rotated: bool = True
    """Turn the axes at random."""
    sigma_as_variance: bool = True
    """Read sigma as a variance, as the authors' code does."""
    learning_rate: float = 0.1
    """The learning rate."""
    epochs: int = 40
    """Passes over the data."""
    points: int = 5000
    """Points of a cluster."""
    batch: int = 128
    """Points of a step."""
    apart: float = 0.0
    """Draw points again that lie this near to the test point."""

    def __post_init__(self) -> None:
        if self.networks < 2:
            raise ValueError(f"a share needs 2 networks or more; got {self.networks}")
        if min(self.epochs, self.points, self.batch) < 1:
            raise ValueError(
                "epochs, points and batch are at least 1; "
                f"got {self.epochs}, {self.points} and {self.batch}"
            )
        largest = largest_rate(self.network, self.task.moment)
        if not 0 < self.learning_rate < largest:
            raise ValueError(
                f"a learning rate of {self.learning_rate} is not stable; "
                f"the largest stable one is about {largest:.2g}"
            )

    @property
    def task(self) -> Sim:
        """The law of the data."""
        sigma = self.sigma * len(self.means) if len(self.sigma) == 1 else self.sigma
        return Sim(self.means, sigma, self.dimensions, self.origin, self.sigma_as_variance)

    @property
    def network(self) -> Perceptron:
        """The architecture."""
        return Perceptron(self.dimensions, self.layers, self.hidden, self.relu, self.bias)

    def __call__(self, generator: torch.Generator, watch: Watched) -> Findings:
        """Train all networks at once, and measure at the test point on the way."""
        data = self.drawn(generator)
        ordered = batches(data.points, self.batch, generator)
        layers = self.network.start(self.networks, generator)
        every = max(1, len(ordered) // LOOKS)
        steps, outputs, training = [0], [self.look(layers, data)], [self.loss(layers, data)]
        corners = {0: self.corner_losses(layers, data)}
        for step in descend(self.network, layers, ordered, self.learning_rate, self.epochs):
            if step % every == 0:
                steps.append(step)
                outputs.append(self.look(layers, data))
                training.append(self.loss(layers, data))
            if step % len(ordered) == 0:
                epoch = step // len(ordered)
                if epoch in _CORNER_EPOCHS:
                    corners[epoch] = self.corner_losses(layers, data)
                watch(epoch, self.epochs)
        seen, losses = torch.stack(outputs), torch.stack(training)
        epochs = torch.tensor(steps).to(seen) / len(ordered)
        if not seen.isfinite().all():
            rate = self.learning_rate
            raise ValueError(f"training blows up at a learning rate of {rate}; take a lower one")
        return Findings(
            self.measured(epochs, seen, losses, corners),
            self.curves(epochs, seen),
            arrays={"tracks": self.tracks(epochs, seen)},
        )

    def tiny(self) -> "Descent":
        """Return two networks and few points."""
        return replace(self, networks=2, points=32, batch=32, epochs=5)

    def drawn(self, generator: torch.Generator) -> Data:
        """Draw the data of every network."""
        task, rows = self.task, self.dimensions
        plain = torch.eye(rows, dtype=torch.float64, device=generator.device)
        points, axes = [], []
        for _ in range(self.networks):
            points.append(task.points(self.points, generator, self.apart).float())
            axes.append((rotation(rows, generator) if self.rotated else plain).float())
        turned = torch.stack(axes)
        return Data(torch.stack(points) @ turned, turned)

    def look(self, layers: Layers, data: Data) -> Float[Tensor, "network row"]:
        """Return the outputs at the test point."""
        return self.outputs(layers, data, self.task.target[None])[:, 0]

    def outputs(
        self, layers: Layers, data: Data, points: Float[Tensor, "point row"]
    ) -> Float[Tensor, "network point row"]:
        """Return the outputs at some points, with the axes turned back."""
        return self.network(layers, points.to(data.axes) @ data.axes) @ data.axes.mT

    def loss(self, layers: Layers, data: Data) -> Float[Tensor, " network"]:
        """Return the training loss, on some points of every cluster."""
        some = data.points[:, :: max(1, data.points.shape[1] // 512)]
        return (self.network(layers, some) - some).square().sum(dim=-1).mean(dim=-1) / 2

    def corner_losses(self, layers: Layers, data: Data) -> Float[Tensor, "network corner"]:
        """Return the loss at every corner of the concept hypercube."""
        corners = self.task.corners.to(data.axes)
        return analysis.corner_losses(self.outputs(layers, data, corners), corners)

    def measured(
        self, epochs: Tensor, seen: Tensor, training: Tensor, corners: dict[int, Tensor]
    ) -> dict[str, Measurement]:
        """Return bumps, times of learning in epochs, and how often the order is that of rates."""
        concepts, target = len(self.means), self.task.target.to(seen)
        loss = analysis.out_of_distribution_loss(seen, target)
        rise = analysis.bump(loss) / loss[0]
        half = analysis.learned_at(seen[..., :concepts], target[:concepts], epochs)
        order = self.task.rates[:concepts].argsort(descending=True).to(seen.device)
        never_rises = analysis.monotone(training / training[0], slack=0.01)
        found = {
            "bump_share": share(rise > 0.01),
            "bump_share@5%": share(rise > 0.05),
            "bump_median": Measurement.median(rise.tolist()),
            "training_monotone_share": share(never_rises),
            "descents": Measurement.mean(analysis.descents(loss).tolist()),
            "in_order_share": share((half[:, order].diff(dim=1) >= 0).all(dim=1)),
        }
        for number, (times, rate) in enumerate(
            zip(half.T, self.task.rates.tolist(), strict=False), start=1
        ):
            if self.layers == 1:
                theory = float(torch.tensor(2.0).log()) / (rate * self.time_per_epoch)
                found[f"half_epochs_theory@{number}"] = Measurement(theory, None, None, 1)
            if learned := times[times.isfinite()].tolist():
                found[f"half_epochs@{number}"] = Measurement.median(learned)
        for epoch, losses in corners.items():
            for name, origin in (("edge_violations", True), ("edge_violations_inside", False)):
                rates = analysis.edge_violations(losses, origin).tolist()
                found[f"{name}@epoch{epoch}"] = Measurement.mean(rates)
        return found

    @property
    def time_per_epoch(self) -> float:
        """Time of the gradient flow of one layer in an epoch of SGD."""
        steps = -(-self.points * self.task.clusters // self.batch)
        return 2 * self.learning_rate / self.dimensions * steps

    def curves(self, epochs: Tensor, seen: Tensor) -> dict[str, CurveRows]:
        """Return the loss of all networks over time, and the means of the concepts."""
        target = self.task.target.to(seen)
        loss = analysis.out_of_distribution_loss(seen, target)
        some, concepts = _thinned(seen), len(self.means)
        return {
            "loss_of_networks": spread(epochs[some], loss[some]),
            "target": curve(torch.arange(1, concepts + 1), target[:concepts]),
        }

    def tracks(self, epochs: Tensor, seen: Tensor) -> Float[Tensor, "network time 3"]:
        """Return of some networks the epoch, and the outputs for the first and last concept."""
        outputs = seen[_thinned(seen), :SHOWN][..., [0, len(self.means) - 1]].transpose(0, 1)
        time = epochs[_thinned(seen), None].expand(*outputs.shape[:2], 1)
        return torch.cat([time, outputs], dim=-1).float().cpu()


def _thinned(seen: Tensor) -> slice:
    """Return every so-manieth measurement: a figure shows about 120."""
    return slice(None, None, max(1, len(seen) // 120))


def _changed(**fields: Any) -> Callable[[Descent], Descent]:
    return lambda descent: replace(descent, **fields)


_NARROW = {"learning_rate": 0.01, "layers": 4, "dimensions": 2, "hidden": 4}
_THREE = {"learning_rate": 0.01, "layers": 3, "dimensions": 3, "hidden": 3, "rotated": False}
_CORNERS = {"means": (1.0, 2.0, 3.0, 4.0), "sigma": (0.5,), "origin": False}
_AS_THEORY = {"sigma_as_variance": False, "origin": False, "bias": False}
_DATA = {
    "means_1_2": Level("Means 1 and 2, variance 0.05."),
    "means_2_2": Level("Means 2 and 2: equal rates.", _changed(means=(2.0, 2.0))),
    "means_3_2": Level("Means 3 and 2.", _changed(means=(3.0, 2.0))),
    "means_2_4": Level("Means 2 and 4.", _changed(means=(2.0, 4.0))),
    "sigma0.1": Level("Means 1 and 2, variances 0.1 and 0.05.", _changed(sigma=(0.1, 0.05))),
    "sigma0.5": Level("Means 1 and 2, variances 0.5 and 0.05.", _changed(sigma=(0.5, 0.05))),
    "sigma1": Level("Means 1 and 2, variances 1 and 0.05.", _changed(sigma=(1.0, 0.05))),
    "sigma2": Level("Means 1 and 2, variances 2 and 0.05.", _changed(sigma=(2.0, 0.05))),
    "four_concepts": Level("Four concepts, means 1 to 4.", _changed(**_CORNERS)),
}
AXES = {
    "network": Axis(
        ("layers", "relu", "dimensions", "hidden", "learning_rate", "rotated"),
        {
            "one_layer": Level("One layer, 64 dimensions."),
            "two_layers": Level("Two layers, 64 dimensions.", _changed(layers=2)),
            "two_layers_relu": Level(
                "Two layers with a ReLU, 64 dimensions.", _changed(layers=2, relu=True)
            ),
            "three_narrow": Level("Three layers, 3 dimensions, width 3.", _changed(**_THREE)),
            "four_narrow": Level("Four layers, 2 dimensions, width 4.", _changed(**_NARROW)),
            "four_layers": Level("Four layers, 64 dimensions.", _changed(layers=4)),
        },
    ),
    "data": Axis(("means", "sigma", "origin"), _DATA),
    "convention": Axis(
        ("sigma_as_variance", "origin", "bias"),
        {
            "authors": Level("Sigma is read as a variance, as in the authors' code."),
            "deviation": Level(
                "Sigma is the standard deviation.", _changed(sigma_as_variance=False)
            ),
            "as_theory": Level(
                "As in the theory: sigma is the deviation, no bias, no cluster at the origin.",
                _changed(**_AS_THEORY),
            ),
        },
    ),
    "near": Axis(
        ("apart",),
        {
            "kept": Level("Points near the test point are kept."),
            "apart0.5": Level("No point is within 0.5 of the test point.", _changed(apart=0.5)),
            "apart1": Level("No point is within 1 of the test point.", _changed(apart=1.0)),
        },
    ),
}
_SWEEP = [name for name in _DATA if name not in ("means_2_4", "four_concepts")]

STUDY = study(
    "Do networks trained by SGD learn concepts in the order of their rates, and do they swing by?",
    Descent(),
    AXES,
    (
        {"network": "one_layer", "convention": "as_theory"},
        {"network": ["one_layer", "two_layers", "two_layers_relu"], "data": _SWEEP},
        {
            "network": ["three_narrow", "four_narrow", "four_layers"],
            "data": ["means_1_2", "means_2_4"],
        },
        {"network": "three_narrow", "near": "apart0.5"},
        {"network": ["three_narrow", "four_narrow"], "data": "means_2_4", "near": "apart1"},
        {"network": "one_layer", "data": "four_concepts"},
        {"network": "two_layers_relu", "data": "four_concepts", "convention": "deviation"},
    ),
    headline=("bump_share", "bump_median", "in_order_share"),
    cost="seconds to three minutes on one core",
)
