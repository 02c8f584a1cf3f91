"""Do networks trained by SGD learn concepts in the order of their rates, and do they swing by?

    recombine run swing_by_networks                 # one layer, 64 dimensions, 20 seeds
    recombine run swing_by_networks:fig3_low        # four layers in the plane swing by
    recombine run swing_by_networks:all             # figures 2, 3, 7, 11-16 of the paper

Untied layers as in the authors' code: biases, PyTorch's start, a mean over dimensions as loss, one
order of batches, a cluster at the origin and sigma read as a variance; each is an option. There is
no closed theory for deep or ReLU networks: many seeds stand in its place.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.experiment import Findings, Watched
from recombine.experiments.swing_by import rounded, share, verdict
from recombine.linear import analysis
from recombine.linear.network import Layers, Network, batches, descend, largest_rate
from recombine.linear.sim import Sim, rotation
from recombine.measurement import Measurement

LOOKS = 12
"""Looks per epoch."""
_CORNER_EPOCHS = (0, 2, 4)


class Data(NamedTuple):
    """What every seed is trained on, and the rotation of its axes."""

    points: Float[Tensor, "seed point row"]
    axes: Float[Tensor, "seed row row"]


@dataclass(frozen=True)
class Descent:
    """Networks of many seeds, trained by SGD and asked for the new sum of concepts."""

    question: str
    means: tuple[float, ...] = (1.0, 2.0)
    """Distance of each concept's cluster from the origin."""
    sigma: tuple[float, ...] = (0.05,)
    """Spread of a cluster: one for all, or one per concept."""
    seeds: int = 20
    """How many networks."""
    dimensions: int = 64
    """Dimensions of the data."""
    layers: int = 1
    """Layers of a network."""
    hidden: int = 64
    """Width of the layers between."""
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
    expected_half: tuple[float, ...] = ()
    """Epochs until each concept is half learned, from the fact sheet (graded: derived)."""

    headline: ClassVar[tuple[str, ...]] = ("bump_share", "bump_median", "in_order_share")

    def __post_init__(self) -> None:
        if self.seeds < 2:
            raise ValueError(f"a share needs 2 seeds or more; got {self.seeds}")
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
        """The data's law."""
        sigma = self.sigma * len(self.means) if len(self.sigma) == 1 else self.sigma
        return Sim(self.means, sigma, self.dimensions, self.origin, self.sigma_as_variance)

    @property
    def network(self) -> Network:
        """The networks."""
        return Network(self.dimensions, self.layers, self.hidden, self.relu, self.bias)

    def __call__(self, generator: torch.Generator, watch: Watched) -> Findings:
        """Train all seeds at once, and look at the test point on the way."""
        data = self.drawn(generator)
        ordered = batches(data.points, self.batch, generator)
        layers = self.network.start(self.seeds, generator)
        every = max(1, len(ordered) // LOOKS)
        steps, outputs, training, corners = [0], [self.look(layers, data)], [], {}
        training.append(self.loss(layers, data))
        corners[0] = self.corner_losses(layers, data)
        rate = self.learning_rate
        for step in descend(self.network, layers, ordered, rate, self.epochs):
            if step % every == 0:
                steps.append(step)
                outputs.append(self.look(layers, data))
                training.append(self.loss(layers, data))
            if step % len(ordered) == 0:
                corners[step // len(ordered)] = self.corner_losses(layers, data)
                watch(step // len(ordered), self.epochs)
        epochs = torch.tensor(steps).to(outputs[0]) / len(ordered)
        seen, losses = torch.stack(outputs), torch.stack(training)
        if not seen.isfinite().all():
            raise ValueError(f"training blows up at a learning rate of {rate}; take a lower one")
        kept = {at: corners[at] for at in _CORNER_EPOCHS if at in corners}
        return Findings(self.measured(epochs, seen, losses, kept), self.curves(epochs, seen))

    def tiny(self) -> "Descent":
        """Return two networks that see few points."""
        return replace(self, seeds=2, points=32, batch=32, epochs=5)

    def drawn(self, generator: torch.Generator) -> Data:
        """Draw the data of every seed."""
        task, rows = self.task, self.dimensions
        plain = torch.eye(rows, dtype=torch.float64, device=generator.device)
        points, axes = [], []
        for _ in range(self.seeds):
            points.append(task.points(self.points, generator, self.apart).float())
            axes.append((rotation(rows, generator) if self.rotated else plain).float())
        turned = torch.stack(axes)
        return Data(torch.stack(points) @ turned, turned)

    def look(self, layers: Layers, data: Data) -> Float[Tensor, "seed row"]:
        """Return the answers to the test point."""
        return self.answers(layers, data, self.task.target[None])[:, 0]

    def answers(
        self, layers: Layers, data: Data, points: Float[Tensor, "asked row"]
    ) -> Float[Tensor, "seed asked row"]:
        """Return the answers to some points, with the axes turned back."""
        asked = points.to(data.axes) @ data.axes
        return self.network(layers, asked) @ data.axes.mT

    def loss(self, layers: Layers, data: Data) -> Float[Tensor, " seed"]:
        """Return the training loss, on some points of every cluster."""
        some = data.points[:, :: max(1, data.points.shape[1] // 512)]
        return (self.network(layers, some) - some).square().sum(dim=-1).mean(dim=-1) / 2

    def corner_losses(self, layers: Layers, data: Data) -> Float[Tensor, "seed corner"]:
        """Return the loss at every corner of the concept hypercube."""
        corners = self.task.corners.to(data.axes)
        return analysis.corner_losses(self.answers(layers, data, corners), corners)

    def measured(
        self, epochs: Tensor, seen: Tensor, training: Tensor, corners: dict[int, Tensor]
    ) -> dict[str, Measurement]:
        """Return bumps, times of learning in epochs, and how often the order is that of rates."""
        concepts, target = len(self.means), self.task.target.to(seen)
        loss = analysis.out_of_distribution_loss(seen, target)
        rise = analysis.bump(loss) / loss[0]
        half = analysis.learned_at(seen[..., :concepts], target[:concepts], epochs)
        order = self.task.rates[:concepts].argsort(descending=True).to(seen.device)
        inside = (half[:, order].diff(dim=1) >= 0).all(dim=1)
        never_rises = analysis.monotone(training / training[0], slack=0.01)
        found = {
            "bump_share": share(rise > 0.01),
            "bump_share@5%": share(rise > 0.05),
            "bump_median": Measurement.median(rise.tolist()),
            "training_monotone_share": share(never_rises),
            "descents": Measurement.mean(analysis.descents(loss).tolist()),
            "in_order_share": share(inside),
        }
        for number, (times, a) in enumerate(zip(half.T, self.task.rates.tolist(), strict=False), 1):
            found |= self._times(number, times[times.isfinite()].tolist(), a)
        for epoch, losses in corners.items():
            for name, origin in (("edge_violations", True), ("edge_violations_inside", False)):
                rates = analysis.edge_violations(losses, origin).tolist()
                found[f"{name}@epoch{epoch}"] = Measurement.mean(rates)
        return found

    def _times(self, number: int, times: list[float], rate: float) -> dict[str, Measurement]:
        """Return when a concept is half learned, beside the sheet's time and the theory's."""
        steps = -(-self.points * self.task.clusters // self.batch)
        flow = 2 * self.learning_rate / self.dimensions * steps
        theory = Measurement(float(torch.tensor(2.0).log()) / (rate * flow), None, None, 1)
        found = {f"half_epochs_theory@{number}": theory} if self.layers == 1 else {}
        if times:
            middle = Measurement.median(times)
            if known := self.expected_half[number - 1 : number]:
                words = verdict(middle.value, known[0])
                middle = replace(middle, paper=known[0], grade="derived", verdict=words)
            found[f"half_epochs@{number}"] = middle
        return found

    def curves(self, epochs: Tensor, seen: Tensor) -> dict[str, list]:
        """Return the answers of every seed over time, along the first and the last concept."""
        target, last = self.task.target.to(seen), len(self.means) - 1
        loss = analysis.out_of_distribution_loss(seen, target)
        some = slice(None, None, max(1, len(seen) // 120))
        levels = torch.tensor([0.1, 0.5, 0.9]).to(seen)
        found = {
            "epoch": epochs[some],
            "outputs": seen[some][..., [0, last]].transpose(0, 1)[:10],
            "all_loss": torch.quantile(loss[some], levels, dim=1).mT,
            "target": target[: last + 1],
        }
        return {name: rounded(each) for name, each in found.items()}


def _sweep(figure: str, of: Descent, halves: tuple[tuple[float, ...], ...]) -> list[Descent]:
    """Return the seven settings of figure 2: three means, then four diversities of concept 1."""
    settings: list[dict[str, Any]] = [{"means": (mean, 2.0)} for mean in (1.0, 2.0, 3.0)]
    settings += [{"sigma": (sigma, 0.05)} for sigma in (0.1, 0.5, 1.0, 2.0)]
    return [
        replace(
            of,
            question=f"In what order are concepts learned in {figure}, {_said(change)}?",
            expected_half=half,
            **change,
        )
        for change, half in zip(settings, halves, strict=True)
    ]


def _said(change: dict[str, Any]) -> str:
    return ", ".join(f"{name} {','.join(map(str, each))}" for name, each in change.items())


_ONE = Descent("")
_TWO = replace(_ONE, layers=2)
_LOW = replace(_ONE, means=(2.0, 4.0), dimensions=2, hidden=4, layers=4, learning_rate=0.01)
_THREE = replace(_ONE, dimensions=3, hidden=3, layers=3, learning_rate=0.01, rotated=False)
_CUBE = replace(_ONE, means=(1.0, 2.0, 3.0, 4.0), sigma=(0.5,), origin=False)

base = replace(
    _ONE,
    question="Does one layer without bias or origin learn concepts when the theory says?",
    sigma_as_variance=False,
    origin=False,
    bias=False,
)
(fig2a_1, fig2a_2, fig2a_3, fig2b_01, fig2b_05, fig2b_1, fig2b_2) = _sweep(
    "figure 2 (one layer)",
    _ONE,
    ((4.4, 1.3), (1.0, 1.4), (0.5, 1.5), (3.5, 1.3), (1.3, 1.3), (0.8, 1.3), (0.45, 1.2)),
)
(fig11_1, fig11_2, fig11_3, fig11_v01, fig11_v05, fig11_v1, fig11_v2) = _sweep(
    "figure 11 (two layers)",
    _TWO,
    ((10.5, 1.4), (1.8, 1.5), (0.8, 1.8), (8.5, 1.4), (2.8, 1.4), (1.6, 1.4), (0.96, 1.4)),
)
(fig12_1, fig12_2, fig12_3, fig12_v01, fig12_v05, fig12_v1, fig12_v2) = _sweep(
    "figure 12 (two layers, ReLU)",
    replace(_TWO, relu=True),
    ((21.0, 2.3), (3.2, 2.6), (1.3, 3.4), (17.1, 2.3), (6.6, 2.3), (3.4, 2.3), (1.9, 2.3)),
)
fig3_low = replace(_LOW, question="Do four layers in the plane swing by (figures 2c, 3: code)?")
fig3_low_caption = replace(
    _LOW, question="Do they with the means of the caption?", means=(1.0, 2.0)
)
fig3_high = replace(
    _ONE, question="Do four layers in 64 dimensions (code)?", means=(2.0, 4.0), layers=4
)
fig3_high_caption = replace(
    fig3_high, question="Do they in 64 dimensions with the caption's means?", means=(1.0, 2.0)
)
fig7_code = replace(_CUBE, question="Are corners with more concepts harder (figure 7, code)?")
fig7_caption = replace(
    _CUBE,
    question="Are corners with more concepts harder (figure 7, caption)?",
    layers=2,
    relu=True,
    sigma_as_variance=False,
)
fig13_1 = replace(_THREE, question="Do three layers swing by at means 1, 2 (figures 13, 14)?")
fig13_2 = replace(
    _THREE, question="Do three layers swing by at means 2, 4 (figures 13, 14)?", means=(2.0, 4.0)
)
fig16_1 = replace(fig13_1, question="Do they without points near the test (figure 16)?", apart=0.5)
fig16_2 = replace(fig13_2, question="And at means 2, 4 without points near?", apart=1.0)
fig16_low = replace(fig3_low, question="And four layers without points near?", apart=1.0)
