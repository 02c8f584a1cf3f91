"""Deep linear networks without ties: gradient flow of every layer, from balanced starts."""

from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.linear.integrate import Observe, Rates, Seen, Square, Times, adaptive, whole

DeepLayers: TypeAlias = Float[Tensor, " *batch layer row row"]


def product(layers: DeepLayers) -> Square:
    """Return the map of the whole network; the first layer acts first."""
    whole_map = layers[..., 0, :, :]
    for number in range(1, layers.shape[-3]):
        whole_map = layers[..., number, :, :] @ whole_map
    return whole_map


def velocity(layers: DeepLayers, rates: Rates) -> DeepLayers:
    """Return -dL/dlayer for L = |(product - I) A^(1/2)|^2 / 2; two layers keep the paper's time."""
    depth = layers.shape[-3]
    identity = torch.eye(layers.shape[-1], dtype=layers.dtype, device=layers.device)
    before = [identity.expand(layers[..., 0, :, :].shape)]
    for number in range(depth):
        before.append(layers[..., number, :, :] @ before[-1])
    back = (before[-1] - identity) * rates[..., None, :]
    slopes = []
    for number in reversed(range(depth)):
        slopes.append(back @ before[number].mT)
        back = layers[..., number, :, :].mT @ back
    return -torch.stack(slopes[::-1], dim=-3)


def balanced(start: Square, depth: int) -> DeepLayers:
    """Return layers whose product is `start`, a matrix without negative eigenvalues, all alike."""
    values, basis = torch.linalg.eigh(start)
    root = (basis * values.clamp(min=0)[..., None, :] ** (1 / depth)) @ basis.mT
    return root.unsqueeze(-3).expand(*root.shape[:-2], depth, *root.shape[-2:]).contiguous()


def trajectories(
    start: DeepLayers, rates: Rates, times: Times, tolerance: float = 1e-8, observe: Observe = whole
) -> Seen:
    """Return the layers, or what is observed of them, at these times."""
    return adaptive(lambda layers: velocity(layers, rates), start, times, tolerance, observe)
