"""In what order are concepts learned, and why can the error on their sum rise on the way?

    recombine run swing_by                     # 200 starts, seconds on one core
    recombine run swing_by --means 1,3 --sigma 0.05 --seeds 500
    recombine run swing_by:all                 # figures 5, 8, 9, 10, 17 and 18 of the paper

Two tied linear layers learn to return points of clusters on the axes; the test point is the sum
of the centres. Yang et al. (2024, arXiv 2410.08309) draw single runs; the authors' scripts square
the rates and iterate W instead of U. Each of their figures is here three times: as its caption
says, as the code does, and with the caption's or the code's numbers integrated correctly.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recombine.experiment import Findings, Watched
from recombine.linear import analysis, symmetric
from recombine.linear.integrate import Observe
from recombine.linear.sim import Sim
from recombine.measurement import Measurement, Number

HEADLINE = ("bump_share", "bump_median", "training_monotone_share", "descents")
KEPT = 400
"""Points of a curve in the record."""


class Seen(NamedTuple):
    """An ensemble over time: of the weakest concept its output at the test point and its entry of
    W; the losses; and whether W has no root."""

    weak: Float[Tensor, "time seed"]
    major: Float[Tensor, "time seed"]
    loss: Float[Tensor, "time seed"]
    training: Float[Tensor, "time seed"]
    lost: Float[Tensor, "time seed"]


@dataclass(frozen=True)
class SwingBy:
    """Many starts of two tied layers, and what the loss at the test point does."""

    question: str
    means: tuple[float, ...] = (1.0, 2.0)
    """Distance of each concept's cluster from the origin."""
    sigma: tuple[float, ...] = (0.05,)
    """Standard deviation of a cluster: one for all, one per concept or one per dimension."""
    seeds: int = 200
    """How many random starts."""
    dimensions: int = 0
    """Dimensions of the data (0: as many as concepts)."""
    start: Literal["positive", "uniform", "normal", "correlated"] = "positive"
    """Law of U: size (1 + spread N)/sqrt(d), size U(0,1), size N, or a W of this correlation."""
    size: float = 0.3
    """Size of the start."""
    spread: float = 0.3
    """How much positive starts differ."""
    correlation: float = 0.9
    """Correlation of the rows of a correlated start."""
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
    """Times at which the starts are looked at."""
    hysteresis: float = 0.005
    """Moves of the loss below this share of its start are not counted as descents."""
    expected: tuple[float, ...] = ()
    """Losses at which the first start turns, from the fact sheet (graded: derived)."""

    headline: ClassVar[tuple[str, ...]] = HEADLINE

    def __post_init__(self) -> None:
        if self.seeds < 2:
            raise ValueError(f"a share needs 2 seeds or more; got {self.seeds}")
        if not (self.size > 0 and self.time > 0 and self.looks > 0):
            values = f"{self.size}, {self.time} and {self.looks}"
            raise ValueError(f"size, time and looks are above 0; got {values}")
        if self.iterate_w and self.step is None:
            raise ValueError("to iterate W takes a step; got step none")
        if not -1 < self.correlation < 1:
            raise ValueError(f"a correlation lies between -1 and 1; got {self.correlation}")
        _ = self.task

    @property
    def task(self) -> Sim:
        """The data."""
        dimensions = self.dimensions or len(self.means)
        sigma = self.sigma * len(self.means) if len(self.sigma) == 1 else self.sigma
        return Sim(self.means, sigma, dimensions)

    @property
    def rates(self) -> Float[Tensor, " row"]:
        """What the concepts are learned at."""
        rates = self.task.rates
        return rates**2 if self.rates_squared else rates

    @property
    def steps(self) -> int:
        """How many equal steps are taken."""
        return round(self.time / self.step) if self.step else 0

    def __call__(self, generator: torch.Generator, watch: Watched) -> Findings:
        """Follow every start, then one of them closely."""
        starts = self.starts(generator)
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
        return replace(self, seeds=4, time=min(self.time, 4.0), looks=40)

    def starts(self, generator: torch.Generator) -> Float[Tensor, "seed row width"]:
        """Draw U of every seed."""
        rows, device = self.task.dimensions, generator.device
        shape = (self.seeds, rows, rows)
        if self.start == "uniform":
            u = torch.rand(shape, generator=generator, device=device, dtype=torch.float64)
            u = self.size * u
        else:
            normal = torch.randn(shape, generator=generator, device=device, dtype=torch.float64)
            u = self.size * (1 + self.spread * normal) / math.sqrt(rows)
            u = self.size * normal if self.start == "normal" else u
        if self.start == "correlated":
            u = self._correlated().to(u).expand(shape).clone()
        if self.authors_seed is not None:
            drawn = torch.rand(
                rows, rows, generator=torch.Generator().manual_seed(self.authors_seed)
            )
            u[0] = self.size * drawn.to(u)
        if self.negated:
            u[:, 0] = -u[:, 0]
        return u

    def _correlated(self) -> Float[Tensor, "row width"]:
        """Return the U of W = size [[1, rho], [rho, 1]]."""
        identity = torch.eye(self.task.dimensions).double()
        return torch.linalg.cholesky(
            self.size * (self.correlation + (1 - self.correlation) * identity)
        )

    def ensemble(self, starts: Float[Tensor, "seed row width"]) -> Seen:
        """Follow every start, and look a few thousand times at most."""
        target, rates = self.task.target.to(starts), self.rates.to(starts)
        weakest = self.weakest

        def look(w: Tensor) -> Tensor:
            output = w @ target
            loss = analysis.out_of_distribution_loss(output, target)
            lost = symmetric.lost(w).to(w) if self.iterate_w else torch.zeros_like(loss)
            # In its own rates: the loss that this flow goes down.
            training = analysis.training_loss(w, rates)
            parts = Seen(output[..., weakest], w[..., weakest, weakest], loss, training, lost)
            return torch.stack(parts, dim=-1)

        if self.iterate_w:
            w = symmetric.jacobian(starts)
            seen = symmetric.recurrence(w, rates, self.step or 0, self.steps, self.every, look)
        else:
            seen = self._of_u(starts, self.every, lambda u: look(symmetric.jacobian(u)))
        return Seen(*seen.unbind(dim=-1))

    def _of_u(self, starts: Tensor, every: int, look: Observe) -> Tensor:
        rates = self.rates.to(starts)
        if self.step is not None:
            return symmetric.stepped(starts, rates, self.step, self.steps, every, look)
        return symmetric.trajectories(starts, rates, self.times.to(starts), 1e-10, look)

    @property
    def weakest(self) -> int:
        """The concept that is learned last."""
        return int(self.rates[: self.task.concepts].argmin())

    @property
    def every(self) -> int:
        """Equal steps between looks at the ensemble."""
        return max(1, -(-self.steps // self.looks))

    @property
    def times(self) -> Float[Tensor, " time"]:
        """When adaptive steps are looked at: closer at first, when more happens."""
        return self.time * torch.linspace(0, 1, self.looks + 1).double() ** 1.5

    def clock(self, looks: int, every: int = 1) -> Float[Tensor, " time"]:
        """Return the time of every look."""
        if self.step is None:
            return self.times
        return self.step * every * torch.arange(looks).double()

    def closely(self, start: Float[Tensor, "row width"]) -> Float[Tensor, "time row row"]:
        """Return every W of one start."""
        rates = self.rates.to(start)
        if self.iterate_w:
            w = symmetric.jacobian(start)
            return symmetric.recurrence(w, rates, self.step or 0, self.steps)
        return self._of_u(start, 1, symmetric.jacobian)

    def measured(self, seen: Seen, sound: Tensor, rise: Tensor) -> dict[str, Measurement]:
        """Return shares of seeds with exact intervals; what blew up has no bump to speak of."""
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
        """Return the losses at which the start that is drawn turns, beside those of the sheet."""
        target = self.task.target.to(w)
        loss = analysis.out_of_distribution_loss(w @ target, target)
        # Two per mille: three and four concepts turn by less than half a per cent (sheet, 3).
        turns = analysis.turning_points(loss, min(self.hysteresis, 0.002))
        time = self.clock(len(w))
        found = {"weak_major_at_end": Measurement(float(w[-1, self.weakest, self.weakest]), *_ONE)}
        for number, at in enumerate(turns, start=1):
            value = float(loss[at])
            known = self.expected[number - 1 : number]
            said = (known[0], "derived", verdict(value, known[0])) if known else ()
            found[f"loss@turn{number}"] = Measurement(value, *_ONE, *said)
            found[f"time@turn{number}"] = Measurement(float(time[at]), *_ONE)
        return found

    def curves(self, w: Tensor, losses: Tensor) -> dict[str, list]:
        """Return what the figure draws: one trajectory with its stages, and the spread of all."""
        task, target = self.task, self.task.target.to(w)
        stage = analysis.stages(w, target, task.concepts)
        output = w @ target
        loss = analysis.out_of_distribution_loss(output, target)
        training = analysis.training_loss(w, self.rates.to(w))
        kept = thinned(len(w))
        looks = thinned(len(losses))
        spread = torch.quantile(losses[looks.to(w.device)], _LEVELS.to(w), dim=1)
        entries = {
            f"w{i + 1}{j + 1}": w[kept, i, j]
            for i in range(task.concepts)
            for j in range(i, task.concepts)
        }
        found = {
            "time": self.clock(len(w))[kept],
            "output": output[kept][:, : task.concepts],
            "loss": loss[kept],
            "training_loss": training[kept],
            "stage": stage[kept],
            **entries,
            "all_time": self.clock(len(losses), self.every)[looks],
            "all_loss": spread.mT,
            "target": target[: task.concepts],
        }
        return {name: rounded(each) for name, each in found.items()}


_ONE = (None, None, 1)
_LEVELS = torch.tensor([0.1, 0.5, 0.9]).double()


def thinned(count: int) -> Int[Tensor, " kept"]:
    """Return which of so many points a figure shows: closer at first, when more happens."""
    return ((count - 1) * torch.linspace(0, 1, KEPT).double() ** 2).round().long().unique()


def rounded(values: Tensor) -> list:
    """Return numbers with six digits that count, as no figure shows more."""

    def short(value: Number | list) -> Number | list:
        return [short(each) for each in value] if isinstance(value, list) else float(f"{value:.6g}")

    return [short(value) for value in values.tolist()]


def share(told: Tensor) -> Measurement:
    """Return the share of seeds of which something is true."""
    return Measurement.rate(int(told.sum()), len(told))


def verdict(value: float, expected: float) -> str:
    """Say how far a number is from the one that is expected."""
    apart = abs(value - expected) / expected
    return "agrees within 2 %" if apart <= 0.02 else f"differs by {100 * apart:.0f} %"


def three_ways(figure: str, by_the_code: SwingBy, *expected: tuple[float, ...]) -> list[SwingBy]:
    """Return a figure as the authors' code makes it, then integrated in U, then with theory's a."""
    first = "the authors' code (W, rates squared)"
    changes: dict[str, dict[str, Any]] = {
        f"{figure} as {first}?": {"iterate_w": True, "rates_squared": True},
        f"{figure} with U integrated, rates squared as in the code?": {"rates_squared": True},
        f"{figure} with U integrated and the rates of the theory?": {},
    }
    return [
        replace(by_the_code, question=f"What happens in {question}", expected=turns, **change)
        for (question, change), turns in zip(changes.items(), expected, strict=True)
    ]


base = SwingBy("Does the error on a new sum of concepts rise while training goes on?")
negated = replace(base, question="Does it when the minor entries start negative?", negated=True)
wide = replace(
    base,
    question="Does it in 16 dimensions, from a start around zero?",
    dimensions=16,
    start="normal",
    size=0.1,
)

_FIVE = SwingBy(
    "",
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
_EIGHT_CAPTION = replace(_EIGHT, means=(1.0, 1.5, 2.2), sigma=(0.05,))
_NINE = replace(_EIGHT, means=(1.0, 1.5, 2.2, 2.7), sigma=(0.05,), dimensions=4)
_NINE_CAPTION = replace(_NINE, sigma=(0.05, 0.05, 0.05, 0.5))
_TEN = replace(_EIGHT, means=(0.7, 1.7, 3.0), sigma=(0.05,))

fig5_code, fig5_squared, fig5_theory = three_ways(
    "figures 5, 17 and 18", _FIVE, (0.181, 0.255), (0.182, 0.253), ()
)
fig8_code, fig8_squared, fig8_theory = three_ways(
    "figure 8 (numbers of the code)",
    _EIGHT,
    (1.247, 1.379, 0.358, 0.430),
    (1.254, 1.372, 0.348, 0.412),
    (0.146, 0.169),
)
fig8_caption_code, fig8_caption_squared, fig8_caption_theory = three_ways(
    "figure 8 (numbers of the caption)",
    _EIGHT_CAPTION,
    (1.156, 1.386, 0.421, 0.480),
    (1.161, 1.378, 0.415, 0.475),
    (0.833, 0.858, 0.279, 0.322),
)
fig9_code, fig9_squared, fig9_theory = three_ways(
    "figure 9 (numbers of the code)",
    _NINE,
    (1.323, 1.491, 1.243, 1.336, 0.367, 0.469),
    (1.343, 1.474, 1.216, 1.314, 0.371, 0.453),
    (0.508, 0.636, 0.219, 0.253),
)
fig9_caption_code, fig9_caption_squared, fig9_caption_theory = three_ways(
    "figure 9 (numbers of the caption)", _NINE_CAPTION, (), (), ()
)
fig10_code, fig10_squared, fig10_theory = three_ways(
    "figure 10",
    _TEN,
    (1.227, 1.612, 0.226),
    (1.248, 1.587, 0.214, 0.244),
    (1.010, 1.165, 0.189, 0.234),
)
