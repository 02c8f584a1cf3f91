"""In what order are concepts learned, and why can the error on their sum rise on the way?

    recombine run swing_by                      # every cell, a minute on one core
    recombine run swing_by:two_concepts --means 1,3 --sigma 0.05 --starts 500
    recombine run swing_by:figure8-code         # figure 8 of the paper, as its code makes it

Two tied linear layers learn to return points of clusters on the axes; the test point is the sum
of the centres. Yang et al. (2024, arXiv 2410.08309) show single runs. Their scripts square the
rates and iterate W instead of U, so each figure is here three ways.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from recombine.linear import analysis, symmetric
from recombine.linear.curves import CurveRows, curve, spread, thinned
from recombine.linear.integrate import Observe
from recombine.linear.sim import Sim
from recombine.measure.subject import Findings
from recombine.measurement import Measurement
from recombine.study import Axis, Level, Watched, study


class Ensemble(NamedTuple):
    """All starts over time: output and own entry of W of the weakest concept, the loss at the test
    point, the training loss, and whether W has left the matrices that any U has."""

    weak: Float[Tensor, "time start"]
    major: Float[Tensor, "time start"]
    loss: Float[Tensor, "time start"]
    training: Float[Tensor, "time start"]
    lost: Float[Tensor, "time start"]


@dataclass(frozen=True)
class SwingBy:
    """Follow two tied layers from many starts, and measure the loss at the test point."""

    means: tuple[float, ...] = (1.0, 2.0)
    """Distance of each concept's cluster from the origin."""
    sigma: tuple[float, ...] = (0.05,)
    """Standard deviation of a cluster: one for all, one per concept or one per dimension."""
    starts: int = 200
    """Number of random starts."""
    dimensions: int = 0
    """Dimensions of the data (0: as many as concepts)."""
    start: Literal["positive", "uniform", "normal"] = "positive"
    """Law of U: size (1 + spread N)/sqrt(d), size U(0,1), or size N."""
    size: float = 0.3
    """Size of the start."""
    spread: float = 0.3
    """How much positive starts differ."""
    negated: bool = False
    """Turn the sign of the first row of U: minor entries start negative."""
    rates_squared: bool = False
    """Use a^2 where the theory has a, as the authors' code does."""
    iterate_w: bool = False
    """Iterate W instead of U, as the authors' code does."""
    authors_seed: int | None = None
    """Make the first start the one that torch draws after this seed."""
    step: float | None = None
    """Length of Euler's steps, in the paper's time (none: steps adapt)."""
    time: float = 40.0
    """How long to follow, in the paper's time."""
    looks: int = 1000
    """Number of times at which all starts are measured."""
    hysteresis: float = 0.005
    """Moves of the loss below this share of its start are not counted as descents."""
    skip: int = 0
    """Random numbers left out first (the figures of the paper were computed from one stream)."""

    def __post_init__(self) -> None:
        if self.starts < 2:
            raise ValueError(f"a share needs 2 starts or more; got {self.starts}")
        if not (self.size > 0 and self.time > 0 and self.looks > 0):
            values = f"{self.size}, {self.time} and {self.looks}"
            raise ValueError(f"size, time and looks are above 0; got {values}")
        if self.iterate_w and self.step is None:
            raise ValueError("to iterate W takes a step; got step none")
        _ = self.task  # which checks the rest

    @property
    def task(self) -> Sim:
        """The data."""
        dimensions = self.dimensions or len(self.means)
        sigma = self.sigma * len(self.means) if len(self.sigma) == 1 else self.sigma
        return Sim(self.means, sigma, dimensions)

    @property
    def rates(self) -> Float[Tensor, " row"]:
        """The rates at which the concepts are learned."""
        rates = self.task.rates
        return rates**2 if self.rates_squared else rates

    @property
    def weakest(self) -> int:
        """The concept that is learned last."""
        return int(self.rates[: self.task.concepts].argmin())

    @property
    def numbers(self) -> int:
        """How many random numbers the starts take."""
        return self.starts * self.task.dimensions**2

    def __call__(self, generator: torch.Generator, watch: Watched) -> Findings:
        """Follow every start, then one of them closely."""
        starts = self.drawn(generator)
        seen = self.ensemble(starts)
        watch(1, 2)
        sound = seen.loss.isfinite().all(dim=0)
        if sound.sum() < 2:
            raise ValueError(f"starts blow up with steps of {self.step}; take shorter ones")
        rise = (analysis.bump(seen.loss) / seen.loss[0])[sound]
        # The start with the median bump, or the authors' own.
        typical = int(sound.nonzero()[rise.argsort()[len(rise) // 2]])
        closely = self.closely(starts[typical if self.authors_seed is None else 0])
        watch(2, 2)
        found = {**self.measured(seen, sound, rise), **self.turned(closely)}
        return Findings(found, self.curves(closely, seen.loss[:, sound]))

    def tiny(self) -> "SwingBy":
        """Return the same question of four starts for a short time."""
        return replace(self, starts=4, time=min(self.time, 4.0), looks=40)

    def drawn(self, generator: torch.Generator) -> Float[Tensor, "start row width"]:
        """Draw U of every start."""
        rows, device = self.task.dimensions, generator.device
        torch.rand(self.skip, generator=generator, device=device, dtype=torch.float64)
        shape = (self.starts, rows, rows)
        if self.start == "uniform":
            u = torch.rand(shape, generator=generator, device=device, dtype=torch.float64)
            u = self.size * u
        else:
            normal = torch.randn(shape, generator=generator, device=device, dtype=torch.float64)
            u = self.size * (1 + self.spread * normal) / math.sqrt(rows)
            u = self.size * normal if self.start == "normal" else u
        if self.authors_seed is not None:
            u[0] = self.authors().to(u)
        if self.negated:
            u[:, 0] = -u[:, 0]
        return u

    def authors(self) -> Float[Tensor, "row width"]:
        """Return the start that the authors' code draws."""
        rng = torch.Generator().manual_seed(self.authors_seed or 0)
        rows = self.task.dimensions
        return self.size * torch.rand(rows, rows, generator=rng).double()

    def ensemble(self, starts: Float[Tensor, "start row width"]) -> Ensemble:
        """Follow every start, and measure at a few thousand times at most."""
        target, rates = self.task.target.to(starts), self.rates.to(starts)
        weakest = self.weakest

        def look(w: Tensor) -> Tensor:
            output = w @ target
            loss = analysis.out_of_distribution_loss(output, target)
            lost = symmetric.lost(w).to(w) if self.iterate_w else torch.zeros_like(loss)
            # In its own rates: the loss that this flow descends.
            training = analysis.training_loss(w, rates)
            parts = Ensemble(output[..., weakest], w[..., weakest, weakest], loss, training, lost)
            return torch.stack(parts, dim=-1)

        return Ensemble(*self._followed(starts, self.every, look).unbind(dim=-1))

    def closely(self, start: Float[Tensor, "row width"]) -> Float[Tensor, "time row row"]:
        """Return every W of one start."""
        return self._followed(start, 1, lambda w: w)

    def _followed(self, start: Tensor, every: int, look: Observe) -> Tensor:
        """Return what `look` returns of W over time: W is iterated, or U is integrated."""
        rates = self.rates.to(start)
        if self.iterate_w:
            w = symmetric.jacobian(start)
            return symmetric.recurrence(w, rates, self.step or 0, self.steps, every, look)

        def of_u(u: Tensor) -> Tensor:
            return look(symmetric.jacobian(u))

        if self.step is not None:
            return symmetric.stepped(start, rates, self.step, self.steps, every, of_u)
        return symmetric.trajectories(start, rates, self.times.to(start), 1e-10, of_u)

    @property
    def steps(self) -> int:
        """How many equal steps are taken."""
        return round(self.time / self.step) if self.step else 0

    @property
    def every(self) -> int:
        """Equal steps between two measurements of all starts."""
        return max(1, -(-self.steps // self.looks))

    @property
    def times(self) -> Float[Tensor, " time"]:
        """When adaptive steps are measured: closer at first, when more happens."""
        return self.time * torch.linspace(0, 1, self.looks + 1).double() ** 1.5

    def clock(self, looks: int, every: int = 1) -> Float[Tensor, " time"]:
        """Return the time of every measurement."""
        if self.step is None:
            return self.times
        return self.step * every * torch.arange(looks).double()

    def measured(self, seen: Ensemble, sound: Tensor, rise: Tensor) -> dict[str, Measurement]:
        """Return shares of starts with exact intervals; starts that blew up have no bump."""
        loss, training = seen.loss[:, sound], seen.training[:, sound]
        falls = analysis.descents(loss, self.hysteresis)
        pulled = analysis.drawdown(seen.weak[:, sound]) / self.means[self.weakest]
        found = {
            "bump_share": share(rise > 0.01),
            "bump_share@5%": share(rise > 0.05),
            "bump_median": Measurement.median(rise.tolist()),
            "training_monotone_share": share(analysis.monotone(training)),
            "descents": Measurement.mean(falls.tolist()),
            **{f"descents_share@{k}": share(falls == k) for k in range(1, len(self.means) + 1)},
            "weak_drawdown_median": Measurement.median(pulled.tolist()),
            "weak_unlearned_share": share(seen.major[-1, sound] < 0.1),
            "blown_up_share": share(~sound),
        }
        if self.iterate_w:
            found["lost_share"] = share((seen.lost > 0).any(dim=0))
        return found

    def turned(self, w: Float[Tensor, "time row row"]) -> dict[str, Measurement]:
        """Return when, and at which losses, the loss of one start turns."""
        target = self.task.target.to(w)
        loss = analysis.out_of_distribution_loss(w @ target, target)
        # Two per mille: three and four concepts turn by less than half a per cent.
        turns = analysis.turning_points(loss, min(self.hysteresis, 0.002))
        time = self.clock(len(w))
        found = {"weak_major_at_end": one(w[-1, self.weakest, self.weakest])}
        for number, at in enumerate(turns, start=1):
            found |= {f"loss@turn{number}": one(loss[at]), f"time@turn{number}": one(time[at])}
        if self.authors_seed is not None:
            found["authors_descents"] = Measurement(1 + len(turns) // 2, None, None, 1)
        return found

    def curves(self, w: Tensor, losses: Tensor) -> dict[str, CurveRows]:
        """Return what the figure draws: one trajectory with its stages, and the spread of all."""
        task, target = self.task, self.task.target.to(w)
        output = w @ target
        over_time: dict[str, Tensor] = {
            **{f"output@{k + 1}": output[:, k] for k in range(task.concepts)},
            "loss": analysis.out_of_distribution_loss(output, target),
            "training_loss": analysis.training_loss(w, self.rates.to(w)),
            "stage": analysis.stages(w, target, task.concepts),
        }
        for i in range(task.concepts):
            over_time |= {f"w{i + 1}{j + 1}": w[:, i, j] for j in range(i, task.concepts)}
        kept, looks = thinned(len(w)), thinned(len(losses))
        time = self.clock(len(w))[kept]
        found = {name: curve(time, values[kept]) for name, values in over_time.items()}
        found["loss_of_starts"] = spread(
            self.clock(len(losses), self.every)[looks], losses[looks.to(w.device)]
        )
        number = torch.arange(1, task.concepts + 1)
        return {**found, "target": curve(number, target[: task.concepts])}


def one(value: Tensor) -> Measurement:
    """Return a number of one run."""
    return Measurement(float(value), None, None, 1)


def share(holds: Bool[Tensor, " start"]) -> Measurement:
    """Return the share of runs for which something holds."""
    return Measurement.rate(int(holds.sum()), len(holds))


_FIVE = SwingBy(
    means=(1.0, 1.5),
    sigma=(0.05, 0.05, 0.05),
    dimensions=3,
    start="uniform",
    size=0.2,
    authors_seed=2333,
    step=0.01,
    time=20.0,
    looks=2500,
)
_EIGHT = replace(
    _FIVE,
    means=(1.0, 1.7, 2.25),
    sigma=(0.5, 0.25, 0.25),
    size=0.1,
    authors_seed=233333,
    time=100.0,
    hysteresis=0.002,
)
_NINE = replace(_EIGHT, means=(1.0, 1.5, 2.2, 2.7), sigma=(0.05,), dimensions=4)
FIGURES: Mapping[str, tuple[str, SwingBy]] = {
    "figure5": ("Figures 5, 17 and 18 of the paper.", _FIVE),
    "figure8": ("Figure 8, with the numbers of the code.", _EIGHT),
    "figure8_caption": (
        "Figure 8, with the numbers of the caption.",
        replace(_EIGHT, means=(1.0, 1.5, 2.2), sigma=(0.05,)),
    ),
    "figure9": ("Figure 9, with the numbers of the code.", _NINE),
    "figure9_caption": (
        "Figure 9, with the numbers of the caption.",
        replace(_NINE, sigma=(0.05, 0.05, 0.05, 0.5)),
    ),
    "figure10": ("Figure 10.", replace(_EIGHT, means=(0.7, 1.7, 3.0), sigma=(0.05,))),
}


def _figures() -> dict[str, Level]:
    """Return a level per figure; each was computed three ways, one after the other."""
    found, before = {}, 0
    for name, (says, run) in FIGURES.items():
        found[name] = Level(says, _instead(replace(run, skip=before + 2 * run.numbers)))
        before += 3 * run.numbers
    return found


def _instead(run: SwingBy) -> Callable[[SwingBy], SwingBy]:
    return lambda _: run


def _squared(run: SwingBy) -> SwingBy:
    return replace(run, rates_squared=True, skip=run.skip - run.numbers)


def _code(run: SwingBy) -> SwingBy:
    return replace(run, rates_squared=True, iterate_w=True, skip=run.skip - 2 * run.numbers)


def _wide(run: SwingBy) -> SwingBy:
    return replace(run, dimensions=16, start="normal", size=0.1)


_DATA = ("means", "sigma", "dimensions", "start", "size", "time", "hysteresis")
_NUMERICS = ("starts", "authors_seed", "step", "looks", "skip")
AXES = {
    "setting": Axis(
        (*_DATA, *_NUMERICS),
        {"two_concepts": Level("Two concepts with means 1 and 2, random starts."), **_figures()},
    ),
    "way": Axis(
        ("rates_squared", "iterate_w", "skip"),
        {
            "theory": Level("U is integrated, with the rates of the theory."),
            "squared": Level("U is integrated, with squared rates as in the code.", _squared),
            "code": Level("As the authors' code: W is iterated, rates are squared.", _code),
        },
    ),
    "initial": Axis(
        ("negated", "dimensions", "start", "size"),
        {
            "positive": Level("All entries of W start positive."),
            "negative": Level(
                "The minor entries start negative.", lambda run: replace(run, negated=True)
            ),
            "wide": Level("In 16 dimensions, from a start around zero.", _wide),
        },
    ),
}

STUDY = study(
    "Does the error on a new sum of concepts rise while training goes on?",
    SwingBy(starts=1000),
    AXES,
    (
        {"initial": ["positive", "negative", "wide"]},
        {"setting": list(FIGURES), "way": ["code", "squared", "theory"]},
    ),
    headline=("bump_share", "bump_median", "training_monotone_share", "descents"),
    cost="seconds on one core",
)
