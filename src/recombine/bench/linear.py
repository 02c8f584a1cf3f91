"""Trajectories of the linear model, all at once, beside one call of scipy's solver for each."""

import math
from functools import partial

import numpy as np
import torch
from scipy.integrate import solve_ivp
from torch import Tensor

from recombine.bench.timing import known, over, speed
from recombine.linear import symmetric
from recombine.linear.sim import Sim
from recombine.measurement import Measurement

TASK = Sim((1.0, 2.0), (0.05, 0.05), 2)
TIMES = torch.linspace(0, 40, 101).double()
# Both are within a millionth of the exact trajectory with these.
TOLERANCE, PEER_TOLERANCE = 1e-6, 1e-7
PEERS = 8


def measured(device: torch.device, seconds: float) -> dict[str, Measurement]:
    """Measure both on the same starts, and how far the results are apart."""
    count = 400_000 if device.type == "cuda" else 8_000
    starts = drawn(count).to(device)
    every = partial(together, starts)
    apart = every()[:, :PEERS].cpu() - torch.stack([alone(u) for u in starts[:PEERS].cpu()], dim=1)
    ours = speed(every, count, seconds)
    first = [start.cpu() for start in starts[:PEERS]]
    peer = speed(lambda: [alone(start) for start in first], PEERS, seconds)
    return {
        "trajectories_per_second@together": ours,
        "trajectories_per_second@solve_ivp": peer,
        "ratio@solve_ivp": over(ours, peer),
        "largest_difference": known(float(apart.abs().max()), n=apart.numel()),
    }


def drawn(count: int) -> Tensor:
    """Return the starts of the reference test."""
    generator = torch.Generator().manual_seed(0)
    normal = torch.randn(count, 2, 2, generator=generator, dtype=torch.float64)
    return 0.3 * (1 + 0.3 * normal) / math.sqrt(2)


def together(starts: Tensor) -> Tensor:
    """Return U of every start at every time."""
    times, rates = TIMES.to(starts), TASK.rates.to(starts)
    return symmetric.trajectories(starts, rates, times, TOLERANCE)


def alone(start: Tensor) -> Tensor:
    """Return U of one start at every time, by scipy's solver of the same order."""
    rates = TASK.rates.numpy()
    sums, identity = (rates[:, None] + rates) / 2, np.eye(len(rates))

    def slope(time: float, flat: np.ndarray) -> np.ndarray:
        u = flat.reshape(identity.shape)
        return ((sums * (identity - u @ u.T)) @ u).ravel()

    times, first = TIMES.numpy(), start.numpy().ravel()
    tolerances = {"rtol": PEER_TOLERANCE, "atol": 1e-3 * PEER_TOLERANCE}
    solved = solve_ivp(slope, (times[0], times[-1]), first, t_eval=times, **tolerances)
    return torch.from_numpy(solved.y.T.copy()).view(-1, *start.shape)
