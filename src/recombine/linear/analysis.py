"""What a trajectory shows: stages, bumps, descents, order of learning."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.linear.integrate import Rates, Square

GROWTH, SUPPRESSION, REGROWTH = 0, 1, 2
"""Stages: minor entries grow; they shrink and pull the output back; the next concept grows."""


def out_of_distribution_loss(
    output: Float[Tensor, " *batch row"], target: Float[Tensor, " row"]
) -> Float[Tensor, " *batch"]:
    """Return |f(x) - x|^2 / 2 at the test point."""
    return (output - target).square().sum(dim=-1) / 2


def training_loss(w: Square, rates: Rates) -> Float[Tensor, " *batch"]:
    """Return |(W - I) A^(1/2)|^2 / 2, the loss over the whole law of the training data."""
    identity = torch.eye(w.shape[-1], dtype=w.dtype, device=w.device)
    return ((w - identity).square() * rates[..., None, :]).sum(dim=(-2, -1)) / 2


def bump(loss: Float[Tensor, " time *batch"]) -> Float[Tensor, " *batch"]:
    """Return the largest rise of the loss above what it was before."""
    return (loss - loss.cummin(dim=0).values).amax(dim=0)


def drawdown(output: Float[Tensor, " time *batch"]) -> Float[Tensor, " *batch"]:
    """Return the largest fall of an output below what it was before."""
    return (output.cummax(dim=0).values - output).amax(dim=0)


def monotone(loss: Float[Tensor, " time *batch"], slack: float = 1e-10) -> Bool[Tensor, " *batch"]:
    """Return which losses never rise."""
    return (loss.diff(dim=0) <= slack).all(dim=0)


def descents(
    loss: Float[Tensor, " time *batch"], hysteresis: float = 0.005
) -> Int[Tensor, " *batch"]:
    """Count the falls that rises separate; moves below `hysteresis` of the start do not count."""
    least = hysteresis * loss[0]
    falling = torch.zeros_like(loss[0], dtype=torch.bool)
    extreme, count = loss[0].clone(), torch.zeros_like(loss[0], dtype=torch.int64)
    for now in loss[1:]:
        falls = ~falling & (extreme - now > least)
        rises = falling & (now - extreme > least)
        count += falls
        falling = (falling | falls) & ~rises
        extreme = torch.where(falling, torch.minimum(extreme, now), torch.maximum(extreme, now))
    return count


def learned_at(
    output: Float[Tensor, " time *batch row"],
    target: Float[Tensor, " row"],
    times: Float[Tensor, " time"],
    share: float = 0.5,
) -> Float[Tensor, " *batch row"]:
    """Return when each output first reaches its share of the target, between two times; or inf."""
    reached = output >= share * target
    after = reached.int().argmax(dim=0)
    before = (after - 1).clamp(min=0)
    high, low = (output.gather(0, at[None])[0] for at in (after, before))
    part = ((share * target - low) / (high - low)).nan_to_num(1.0).clamp(0, 1)
    found = times[before] + part * (times[after] - times[before])
    return torch.where(reached.any(dim=0), found, torch.inf)


def turning_points(loss: Float[Tensor, " time"], hysteresis: float = 0.005) -> list[int]:
    """Return where a loss turns: minimum, maximum, minimum, ... beyond the hysteresis."""
    least = hysteresis * float(loss[0])
    values, turns = loss.tolist(), []
    falling, at = True, 0
    for now, value in enumerate(values):
        sign = 1 if falling else -1
        if sign * (value - values[at]) <= 0:
            at = now
        elif sign * (value - values[at]) > least:
            turns.append(at)
            falling, at = not falling, now
    return turns


def stages(
    w: Float[Tensor, " time row row"], target: Float[Tensor, " row"], concepts: int
) -> Int[Tensor, " time"]:
    """Return the stage of one trajectory at each time.

    It follows the minor entries among the concepts, and the outputs that are less than half
    learned by their own major entry.
    """
    entries = w[:, :concepts, :concepts]
    minor = torch.triu(entries, diagonal=1).abs().sum(dim=(1, 2))
    waiting = entries.diagonal(dim1=1, dim2=2) < 0.5
    output = (w @ target)[:, :concepts]
    # Once every concept is half learned, only the last of them goes on growing.
    left = waiting[:-1].any(dim=1)
    moved = torch.where(waiting[:-1], output.diff(dim=0), 0.0).sum(dim=1)
    pulled = torch.where((moved < 0) & left, SUPPRESSION, REGROWTH)
    stage = torch.where((minor.diff() < 0) | ~left, pulled, GROWTH)
    return torch.cat([stage, stage[-1:]])


def corner_losses(
    outputs: Float[Tensor, " *batch corner row"], corners: Float[Tensor, "corner row"]
) -> Float[Tensor, " *batch corner"]:
    """Return the loss at every corner of the concept hypercube."""
    return (outputs - corners).square().sum(dim=-1) / 2


def edge_violations(
    losses: Float[Tensor, " *batch corner"], with_origin: bool = True
) -> Float[Tensor, " *batch"]:
    """Return the share of edges of the hypercube along which a concept more has a lower loss."""
    corners = losses.shape[-1]
    edges = [
        (corner, corner | bit)
        for corner in range(0 if with_origin else 1, corners)
        for bit in (1 << power for power in range(corners.bit_length() - 1))
        if not corner & bit
    ]
    fewer, more = (losses[..., [edge[end] for edge in edges]] for end in (0, 1))
    return (more < fewer).to(losses).mean(dim=-1)
