"""Pictures of a stage by the fastest way there is: the kernel, or its twin in tensor operations."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recombine.render import kernel, raycast
from recombine.render.stage import LOOK, REACH, Look, Stage

RAYS_AT_ONCE = 1 << 18
"""Bounds the twin's memory, and keeps its tensors in a CPU's cache."""


def picture(stage: Stage, size: int, look: Look = LOOK) -> Float[Tensor, "batch 3 height width"]:
    """Return pictures, sRGB in [0, 1]; differentiable where the stage requires gradients."""
    wants_gradient = stage.solids.requires_grad or stage.view.requires_grad
    if not wants_gradient and kernel.available(stage.view.device):
        return kernel.trace(stage, size, look)
    return twin_picture(stage, size, look)


def twin_picture(
    stage: Stage, size: int, look: Look = LOOK
) -> Float[Tensor, "batch 3 height width"]:
    """Return pictures by tensor operations, some at a time so that memory stays bounded."""
    parts, order = _parts(stage, RAYS_AT_ONCE // (2 * size) ** 2)
    return torch.cat([raycast.trace(part, size, look) for part in parts])[order]


def see(
    stage: Stage, size: int
) -> tuple[Int[Tensor, "batch height width"], Float[Tensor, "batch height width"]]:
    """Return the object at the centre of each pixel (-1: none) and its depth."""
    if kernel.available(stage.view.device):
        return kernel.see(stage, size)
    parts, order = _parts(stage, RAYS_AT_ONCE // size**2)
    owners, depths = zip(*(raycast.see(part, size) for part in parts), strict=True)
    return torch.cat(owners)[order], torch.cat(depths)[order]


def visible(stage: Stage, size: int, objects: int) -> Int[Tensor, "batch object"]:
    """Return how many pixels each object shows."""
    owner = see(stage, size)[0].flatten(1)
    # A histogram would be one pass, but on a GPU its adders queue up at the empty background.
    shown = [(owner == index).sum(dim=1) for index in range(objects)]
    return torch.stack(shown, dim=1) if shown else owner.new_zeros(len(stage), 0)


def _parts(stage: Stage, at_once: int) -> tuple[list[Stage], Int[Tensor, " batch"]]:
    """Cut a stage into parts of like numbers of solids, and return the way back to its order."""
    solid = stage.solids[..., REACH] > 0
    order = solid.sum(dim=1).argsort(stable=True)
    # At least one part, so that an empty batch keeps its shape.
    cuts = order.split(max(1, at_once)) if len(order) else [order]
    parts = []
    for cut in cuts:
        kept = solid[cut].any(dim=0)
        part = stage[cut]
        parts.append(Stage(part.view, part.solids[:, kept], part.owner[:, kept]))
    return parts, order.argsort()
