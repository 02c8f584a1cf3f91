"""The camera: where it stands, what it projects where, and where it must have stood."""

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.scene import Scenes

HALF_FIELD = 16 / 35
"""Tangent of half the field of view: 35 mm of focal length on a sensor of 32 mm."""


def look_at(
    eye: Float[Tensor, "batch 3"], target: Float[Tensor, "batch 3"]
) -> Float[Tensor, "batch 12"]:
    """Return the camera's columns of a stage's view: eye, right, up, forward; z is up.

    Right and up are scaled to reach the edge of the image. Computed in float64, so that every
    device rounds to the same float32.
    """
    start = eye.double()
    forward = _unit(target.double() - start)
    # The product of forward and (0, 0, 1); a constant from the host would make a GPU wait for it.
    right = _unit(torch.stack([forward[:, 1], -forward[:, 0], 0 * forward[:, 2]], dim=1))
    up = torch.linalg.cross(right, forward)
    scaled = torch.cat([start, right * HALF_FIELD, up * HALF_FIELD, forward], dim=1)
    return scaled.to(eye.dtype)


def project(
    camera: Float[Tensor, "batch 12"], points: Float[Tensor, "batch object 3"]
) -> tuple[Float[Tensor, "batch object 2"], Float[Tensor, "batch object"]]:
    """Return where points lie in the image (x right, y down, the image is [0, 1]) and how deep."""
    eye, right, up, forward = camera.double()[:, None].split(3, dim=-1)
    gap = points.double() - eye
    depth = (gap * forward).sum(-1)
    across, along = ((gap * axis).sum(-1) / (HALF_FIELD**2 * depth) for axis in (right, up))
    place = torch.stack([(1 + across) / 2, (1 - along) / 2], dim=-1)
    return place.to(points.dtype), depth.to(points.dtype)


def places(scenes: Scenes) -> tuple[Float[Tensor, "batch object 2"], Float[Tensor, "batch object"]]:
    """Return where in the image each centre is ([0, 1], x right, y down), and its depth."""
    return project(look_at(scenes.camera, torch.zeros_like(scenes.camera)), scenes.position)


def directions(camera: Float[Tensor, "batch 12"]) -> dict[str, Float[Tensor, "batch 3"]]:
    """Return CLEVR's six directions: the camera's axes laid on the floor."""
    _, right, _, forward = camera.double().split(3, dim=-1)
    flat = forward.new_tensor([1.0, 1, 0])
    behind, aside = _unit(forward * flat), _unit(right * flat)
    above = forward.new_tensor([0.0, 0, 1]).expand_as(forward)
    pairs = {"behind": behind, "front": -behind, "left": -aside, "right": aside}
    return {
        name: value.to(camera.dtype)
        for name, value in (pairs | {"above": above, "below": -above}).items()
    }


def _unit(vector: Float[Tensor, "batch 3"]) -> Float[Tensor, "batch 3"]:
    return vector / vector.norm(dim=-1, keepdim=True)
