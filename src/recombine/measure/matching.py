"""Pairs: of detected objects and nearby places, one to one; of each thing and another one."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

RADIUS = 1 / 21
"""How far apart, in image sides, two centres of one object may be: 3 pixels of 64."""


def matched(
    found_place: Float[Tensor, "batch found 2"],
    found_present: Bool[Tensor, "batch found"],
    place: Float[Tensor, "batch object 2"],
    present: Bool[Tensor, "batch object"],
    radius: float,
) -> Int[Tensor, "batch object"]:
    """Return the number of the detected object that each object is paired with, or -1.

    As many pairs as can be made within the radius (in the unit of the places), and of these the
    ones with the smallest total distance.
    """
    gap = place[:, :, None].double().cpu() - found_place[:, None].double().cpu()
    share = gap.square().sum(dim=-1).sqrt() / radius
    allowed = (share <= 1) & present[:, :, None].cpu() & found_present[:, None].cpu()
    # A pair is worth more than all distances together can cost; what is not paired costs nothing.
    worth = 1 + min(share.shape[1:])
    cost = torch.where(allowed, share - worth, 0)
    pairs = torch.full(present.shape, -1)
    for index in allowed.flatten(1).any(dim=1).nonzero()[:, 0].tolist():
        pairs[index] = _assigned(cost[index], allowed[index])
    return pairs.to(present.device)


def _assigned(
    cost: Float[Tensor, "object found"], allowed: Bool[Tensor, "object found"]
) -> Int[Tensor, " object"]:
    """Return the cheapest assignment, less the pairs that only fill it up."""
    from scipy.optimize import linear_sum_assignment  # here, as it takes a while to import

    rows, columns = map(torch.from_numpy, linear_sum_assignment(cost.numpy()))
    pairs = torch.full((len(cost),), -1)
    pairs[rows] = torch.where(allowed[rows, columns], columns, -1)
    return pairs


def partners(n: int, generator: torch.Generator) -> Int[Tensor, " n"]:
    """Return a partner for each of n, never itself: the next one on a random round."""
    order = torch.randperm(n, generator=generator, device=generator.device)
    partner = torch.empty_like(order)
    partner[order] = order.roll(1)
    return partner
