"""One linear layer: gradient flow in closed form, with and without a bias (Theorem 4.1)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.linear.sim import Sim


def relaxed(
    start: Float[Tensor, " *batch row column"],
    goal: Float[Tensor, " row column"],
    moment: Float[Tensor, "column column"],
    times: Float[Tensor, " time"],
) -> Float[Tensor, " time *batch row column"]:
    """Return the weights over time under dW/dt = -(W - goal) moment."""
    rates, basis = torch.linalg.eigh(moment)
    kept = torch.exp(-times[:, None] * rates)
    decay = (basis * kept[:, None, :]) @ basis.mT
    decay = decay.reshape(len(times), *[1] * (start.ndim - 2), *moment.shape)
    return goal + (start - goal) @ decay


def weights(
    task: Sim, start: Float[Tensor, " *batch row column"], times: Float[Tensor, " time"]
) -> Float[Tensor, " time *batch row column"]:
    """Return a layer over time; when `start` has a column more, that is its bias."""
    biased = start.shape[-1] == task.dimensions + 1
    moment = task.moment if biased else torch.diag(task.rates)
    goal = torch.eye(task.dimensions, dtype=start.dtype)
    goal = torch.nn.functional.pad(goal, (0, int(biased)))
    return relaxed(start, goal.to(start), moment.to(start), times)


def outputs(
    task: Sim, weights: Float[Tensor, " *batch row column"]
) -> Float[Tensor, " *batch row"]:
    """Return the output of a layer at the test point."""
    bias = weights.shape[-1] - task.dimensions
    point = torch.nn.functional.pad(task.target, (0, bias), value=1.0)
    return weights @ point.to(weights)


def half_time(rate: float) -> float:
    """Return when a concept of this rate is half learned, from nothing."""
    return math.log(2) / rate
