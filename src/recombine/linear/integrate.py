"""Many trajectories at once: fixed steps as the paper takes them, or steps that adapt."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

Times: TypeAlias = Float[Tensor, " time"]
Seen: TypeAlias = Float[Tensor, " time *seen"]
Rates: TypeAlias = Float[Tensor, " *#batch row"]
Square: TypeAlias = Float[Tensor, " *batch row row"]
Velocity: TypeAlias = Callable[[Tensor], Tensor]
Observe: TypeAlias = Callable[[Tensor], Tensor]

_SAFETY, _SMALLEST, _LARGEST, _MOST = 0.9, 0.2, 5.0, 100_000


def whole(state: Tensor) -> Tensor:
    """Observe all of it."""
    return state


def fixed(
    advance: Velocity,
    start: Float[Tensor, " *state"],
    steps: int,
    every: int = 1,
    observe: Observe = whole,
) -> Seen:
    """Return what is observed at the start and after every so many steps of `advance`."""
    if steps < 1 or every < 1:
        raise ValueError(f"steps are taken and seen 1 at a time or more; got {steps} and {every}")
    state, seen = start, [observe(start)]
    for step in range(1, steps + 1):
        state = advance(state)
        if step % every == 0:
            seen.append(observe(state))
    return torch.stack(seen)


def adaptive(
    velocity: Velocity,
    start: Float[Tensor, " *state"],
    times: Times,
    tolerance: float = 1e-9,
    observe: Observe = whole,
) -> Seen:
    """Return what is observed at these rising times, by the pair of Dormand and Prince.

    All trajectories take the same steps, short enough for the worst of them; between the ends of
    a step its own polynomial is read.
    """
    from scipy.integrate import RK45  # its table of coefficients; it takes a second to import

    wanted = times.tolist()
    if any(b <= a for a, b in zip(wanted, wanted[1:], strict=False)) or wanted[0] < 0:
        raise ValueError(f"times rise from 0 or more; got {wanted[:4]}...")
    state, now = start, 0.0
    stages = state.new_empty(7, *state.shape)
    stages[0] = velocity(state)
    length = _first_step(state, stages[0], wanted[-1], tolerance)
    seen: list[Tensor] = []
    if wanted[0] == 0:
        seen.append(observe(state))
    for _ in range(_MOST):
        if len(seen) == len(wanted):
            return torch.stack(seen)
        for number in range(1, 6):
            weights = length * RK45.A[number, :number]
            stages[number] = velocity(_moved(state, weights, stages))
        after = _moved(state, length * RK45.B, stages)
        stages[6] = velocity(after)
        scale = tolerance * (1e-3 + torch.maximum(state.abs(), after.abs()))
        wrong = _moved(torch.zeros_like(state), length * RK45.E, stages)
        error = float((wrong / scale).abs().max())
        if error < 1:
            while len(seen) < len(wanted) and wanted[len(seen)] <= now + length:
                share = (wanted[len(seen)] - now) / length
                weights = length * RK45.P @ [share**power for power in (1, 2, 3, 4)]
                seen.append(observe(_moved(state, weights, stages)))
            state, now = after, now + length
            # The slope at the end of a step is the first of the next.
            stages[0] = stages[6]
        # Not a number compares false: then the step is shortened, and the loop ends.
        factor = _SAFETY * error**-0.2 if error > 0 else _LARGEST
        length *= min(max(factor, _SMALLEST), _LARGEST) if error < float("inf") else _SMALLEST
        if length < 1e-12:
            break
    raise ValueError(f"no step is short enough at time {now:.4g}: the trajectories blow up")


def _moved(state: Tensor, weights: Iterable[float], stages: Tensor) -> Tensor:
    """Return the state and a weighted sum of slopes.

    One after the other: as a product with a matrix it is split over threads that wait for each
    other, twenty times slower on two busy cores.
    """
    moved = state.clone()
    for weight, stage in zip(weights, stages, strict=False):
        if weight:
            moved.add_(stage, alpha=float(weight))
    return moved


def _first_step(state: Tensor, slope: Tensor, last: float, tolerance: float) -> float:
    """Return a step that moves little (Hairer, Norsett and Wanner, II.4, the first guess)."""
    scale = tolerance * (1e-3 + state.abs())
    size, speed = float((state / scale).abs().max()), float((slope / scale).abs().max())
    return min(0.01 * size / speed if min(size, speed) > 0 else 1e-6, last)
