"""Courses through concept space: rises, times of learning, speed, slow-down.

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
BLUR = 1.5
"""Width of the blur before speed is measured, in measurements, as in the authors' figure."""


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


def learned_at(steps: Float[Tensor, " time"], coordinate: Float[Tensor, " time"]) -> float | None:
    """Return the first step from which a concept is learned; None if it never is."""
    if len(steps) < IN_A_ROW:
        return None
    held = (coordinate >= LEARNED).unfold(0, IN_A_ROW, 1).all(dim=1)
    return float(steps[int(held.int().argmax())]) if held.any() else None


def speed(
    steps: Float[Tensor, " time"], course: Float[Tensor, "time axis"]
) -> Float[Tensor, " time"]:
    """Return |dC/dt| per step, after a Gaussian blur; the ends are repeated."""
    from scipy.ndimage import gaussian_filter1d  # here, as it takes a second to import

    blurred = gaussian_filter1d(course.cpu().double().numpy(), BLUR, axis=0, mode="nearest")
    (slope,) = torch.gradient(torch.from_numpy(blurred).to(course), spacing=(steps,), dim=0)
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
