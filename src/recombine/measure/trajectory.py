"""Courses through concept space: rises, times of learning, speed, slow-down, theory.

A course is a coordinate per concept, from 0 (absent) to 1 (there), at rising steps of training.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.measurement import Measurement, exact_binomial

LEARNED, IN_A_ROW = 0.8, 3
"""A concept is learned where it reaches this coordinate in so many measurements in a row."""


def corner_distance(counts: Sequence[int], n: int) -> Measurement:
    """Return the mean over concepts of (coordinate - 1)^2, each coordinate a count out of n.

    The interval holds for all coordinates at once: each has its share of the error.
    """
    confidence = 1 - 0.05 / len(counts)
    ends = [exact_binomial(count, n, confidence) for count in counts]

    def distance(coordinates: Sequence[float]) -> float:
        return sum((coordinate - 1) ** 2 for coordinate in coordinates) / len(counts)

    value = distance([count / n for count in counts])
    far, near = (distance(side) for side in zip(*ends, strict=True))
    return Measurement(value, near, far, n=n)


class Rise(NamedTuple):
    """The largest rise above what was before, and where it begins and ends (places, not steps)."""

    height: float
    begin: int
    end: int


def rise(values: Float[Tensor, " time"]) -> Rise:
    """Return the largest rise of a curve; one that only falls rises by 0."""
    lowest, where = values.cummin(dim=0)
    height = values - lowest
    end = int(height.argmax())
    return Rise(float(height[end]), int(where[end]), end)


def learned_at(
    steps: Float[Tensor, " time"],
    coordinate: Float[Tensor, " time"],
    level: float = LEARNED,
    in_a_row: int = IN_A_ROW,
) -> float | None:
    """Return the first step from which a coordinate is at the level so many times in a row."""
    if len(steps) < in_a_row:
        return None
    held = (coordinate >= level).unfold(0, in_a_row, 1).all(dim=1)
    return float(steps[int(held.int().argmax())]) if held.any() else None


def smoothed(values: Float[Tensor, " time *axis"], width: float) -> Float[Tensor, " time *axis"]:
    """Return the values after a Gaussian blur over `width` measurements; the ends are repeated."""
    if width == 0:
        return values
    from scipy.ndimage import gaussian_filter1d  # here, as it takes a second to import

    blurred = gaussian_filter1d(values.cpu().double().numpy(), width, axis=0, mode="nearest")
    return torch.from_numpy(blurred).to(values)


def speed(
    steps: Float[Tensor, " time"], course: Float[Tensor, "time axis"], width: float = 1.5
) -> Float[Tensor, " time"]:
    """Return |dC/dt| per step, after a blur of 1.5 measurements as in the authors' figure."""
    (slope,) = torch.gradient(smoothed(course, width), spacing=(steps,), dim=0)
    return slope.square().sum(dim=1).sqrt()


class SlowDown(NamedTuple):
    """How speed falls after its peak: speed ~ exp(-rate step), and how well that fits.

    `explained` is the share of the variance of log speed that a line over steps explains,
    `explained_by_log` that of a line over log steps, which is a power law.
    """

    rate: Measurement
    explained: float
    explained_by_log: float


def slow_down(
    steps: Float[Tensor, " time"], speed: Float[Tensor, " time"], least: float = 0.0
) -> SlowDown | None:
    """Fit the fall of speed from its peak on; at least 4 points are needed.

    It ends where a course moves by `least` or less from one measurement to the next: there, what
    is left is the grain of the measurement and the tail of the blur.
    """
    if len(steps) < 4:
        return None
    peak = int(speed.argmax())
    after = speed[peak:]
    gaps = torch.gradient(steps)[0][peak:]
    ended = (after * gaps <= least).int()
    last = int(ended.argmax()) if ended.any() else len(after)
    if last < 4:
        return None
    from scipy import stats

    at, log = steps[peak : peak + last].tolist(), after[:last].log().tolist()
    fitted, power = stats.linregress(at, log), stats.linregress([*map(math.log, at)], log)
    reach = float(stats.t.ppf(0.975, last - 2)) * float(fitted.stderr)
    rate = -float(fitted.slope)
    found = Measurement(rate, rate - reach, rate + reach, n=last)
    return SlowDown(found, float(fitted.rvalue) ** 2, float(power.rvalue) ** 2)


class Course(NamedTuple):
    """Measured coordinates at steps of training."""

    steps: Float[Tensor, " time"]
    coordinates: Float[Tensor, "time axis"]


class Theory(NamedTuple):
    """Coordinates at moments of the theory's own time, from 0 on."""

    moments: Float[Tensor, " moment"]
    coordinates: Float[Tensor, "moment axis"]

    def at(self, steps: Float[Tensor, " time"], scale: float) -> Float[Tensor, "time axis"]:
        """Return the coordinates when a unit of time is `scale` steps; straight between moments."""
        time = (steps.to(self.moments) / scale).clamp(max=float(self.moments[-1]))
        after = torch.searchsorted(self.moments, time).clamp(1, len(self.moments) - 1)
        begin, end = self.moments[after - 1], self.moments[after]
        return torch.lerp(
            self.coordinates[after - 1],
            self.coordinates[after],
            ((time - begin) / (end - begin))[:, None],
        )


class TimeScale(NamedTuple):
    """Steps to a unit of the theory's time, and the root mean square distance that is left."""

    steps: float
    error: float


def time_scale(courses: Sequence[Course], theories: Sequence[Theory]) -> TimeScale:
    """Fit one time scale to all courses at once, every one beside its own theory."""
    from scipy.optimize import minimize_scalar

    def error(log_scale: float) -> float:
        scale = math.exp(log_scale)
        apart = [
            (theory.at(course.steps, scale) - course.coordinates.to(theory.moments)).square()
            for course, theory in zip(courses, theories, strict=True)
        ]
        return float(torch.cat([each.flatten() for each in apart]).mean())

    # The error may have several valleys: look everywhere, then closely at the deepest.
    first = min(float(course.steps.min()) for course in courses)
    last = max(float(course.steps.max()) for course in courses)
    longest = max(float(theory.moments[-1]) for theory in theories)
    shortest = min(float(theory.moments[1]) for theory in theories)
    ends = math.log(first / longest), math.log(last / shortest)
    places = torch.linspace(*ends, 400, dtype=torch.float64).tolist()
    best, gap = min(places, key=error), places[1] - places[0]
    close = minimize_scalar(error, bounds=(best - gap, best + gap), method="bounded")
    return TimeScale(math.exp(close.x), float(close.fun) ** 0.5)
