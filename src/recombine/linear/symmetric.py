"""Two tied layers, f = U U^T x: gradient flow in U, and the paper's recurrence in W beside it.

W = U U^T obeys dW/dt = V(W) = AW + WA - WAW - (AW^2 + W^2 A)/2 with A = diag(rates), in the
paper's time (Eq. 4.3), which runs twice as long as that of gradient flow. Only U is integrated: a
step of W alone leaves the matrices that any U has, those without negative eigenvalues.
"""

from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.linear.integrate import (
    Observe,
    Rates,
    Seen,
    Square,
    Times,
    Velocity,
    adaptive,
    fixed,
    whole,
)

Root: TypeAlias = Float[Tensor, " *batch row width"]
"""U, of which W = U U^T."""
_SMALL = 4
"""Up to so many rows a product is faster entry by entry."""


def jacobian(u: Root) -> Square:
    """Return W = U U^T."""
    return u @ u.mT


def velocity(u: Root, rates: Rates) -> Root:
    """Return dU/dt in the paper's time: -(A(W - I) + (W - I)A) U / 2."""
    return _flow(u, rates)(u)


def _flow(like: Tensor, rates: Tensor) -> Velocity:
    """Return `velocity` at these rates for any U of one shape."""
    # A E + E A has the entries (a_i + a_j) e_ij.
    sums = rates[..., :, None] + rates[..., None, :]
    identity = torch.eye(like.shape[-2], dtype=like.dtype, device=like.device)
    return lambda u: (sums * (identity - u @ u.mT)) @ u / 2


def jacobian_velocity(w: Square, rates: Rates) -> Square:
    """Return V(W)."""
    sums = rates[..., :, None] + rates[..., None, :]
    return sums * (w - w @ w / 2) - (w * rates[..., None, :]) @ w


def trajectories(
    start: Root, rates: Rates, times: Times, tolerance: float = 1e-9, observe: Observe = whole
) -> Seen:
    """Return U, or what is observed of it, at these times."""
    if start.shape[-2] <= _SMALL:
        return _trajectories_of_small(start, rates, times, tolerance, observe)
    return adaptive(_flow(start, rates), start, times, tolerance, observe)


def _trajectories_of_small(
    start: Tensor, rates: Tensor, times: Tensor, tolerance: float, observe: Observe
) -> Tensor:
    """Do the same with the batch last: products of tiny matrices are slow one matrix at a time."""
    rows, width = start.shape[-2:]
    flat = start.reshape(-1, rows, width).permute(1, 2, 0).contiguous()
    each = rates.expand(*start.shape[:-2], rows).reshape(-1, rows).mT
    sums = (each[:, None] + each[None]) / 2
    identity = torch.eye(rows, dtype=start.dtype, device=start.device)[..., None]

    def velocity_of(u: Tensor) -> Tensor:
        return _product((identity - _product(u, u.transpose(0, 1))) * sums, u)

    def seen(u: Tensor) -> Tensor:
        return observe(u.permute(2, 0, 1).reshape(start.shape))

    return adaptive(velocity_of, flat, times, tolerance, seen)


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Multiply matrices whose batch is the last axis."""
    found = left[:, 0, None] * right[None, 0]
    for k in range(1, left.shape[1]):
        found.addcmul_(left[:, k, None], right[None, k])
    return found


def stepped(
    start: Root, rates: Rates, step: float, steps: int, every: int = 1, observe: Observe = whole
) -> Seen:
    """Return U, or what is observed of it, by equal steps of Euler."""
    if not 0 < step < (largest := largest_step(start, rates)):
        raise ValueError(f"a step of {step} is not stable; the largest stable one is {largest:.3g}")
    flow = _flow(start, rates)
    return fixed(lambda u: u + step * flow(u), start, steps, every, observe)


def recurrence(
    start: Square, rates: Rates, step: float, steps: int, every: int = 1, observe: Observe = whole
) -> Seen:
    """Return W by the authors' W <- W + step V(W), which may blow up: see `lost`."""
    return fixed(lambda w: w + step * jacobian_velocity(w, rates), start, steps, every, observe)


def lost(w: Square, below: float = -1e-12) -> Tensor:
    """Return which matrices no U has: not finite, or with a negative eigenvalue."""
    finite = w.isfinite().flatten(-2).all(dim=-1)
    symmetric = torch.where(finite[..., None, None], (w + w.mT) / 2, 0.0)
    return ~finite | (torch.linalg.eigvalsh(symmetric)[..., 0] < below)


def largest_step(start: Root, rates: Rates) -> float:
    """Return the step above which Euler no longer settles: near W = I rates are up to 2 max a."""
    beyond = float(torch.linalg.matrix_norm(start, 2).max()) ** 2 - 1
    return 2 / (float(rates.max()) * max(2.0, beyond))
