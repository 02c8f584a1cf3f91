"""What is kept of many trajectories: rows of a time and the values there."""

from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

KEPT = 400
"""Points of a curve that are kept."""
CurveRows: TypeAlias = list[list[float]]


def thinned(count: int) -> Int[Tensor, " kept"]:
    """Return which of so many points a figure shows: closer at first, when more happens."""
    return ((count - 1) * torch.linspace(0, 1, KEPT).double() ** 2).round().long().unique()


def curve(x: Tensor, *values: Tensor) -> CurveRows:
    """Return rows of x and values there, six digits each, as no figure shows more."""
    columns = [each.double().tolist() for each in (x, *values)]
    return [[float(f"{value:.6g}") for value in row] for row in zip(*columns, strict=True)]


def spread(x: Tensor, values: Float[Tensor, "time run"]) -> CurveRows:
    """Return rows of x, the median over runs, and the tenths below and above which runs lie."""
    levels = torch.tensor([0.5, 0.1, 0.9]).to(values)
    return curve(x, *torch.quantile(values, levels, dim=1))
