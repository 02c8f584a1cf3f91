"""Where CLEVR's camera stood, from what its files record of the objects.

The generator moves its camera by up to half a unit and does not record where to. It does record
each object's depth (exactly), pixel (rounded) and the camera's direction on the floor (exactly).
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from recombine.render.camera import HALF_FIELD
from recombine.worlds.clevr import EYE

JITTER = 0.5
STEPS = 30
EXACT, ROUNDED = 1e-4, 0.3
"""How far a written depth or direction, and a written pixel, may be off."""
STRAY = 3.0
"""Pixels by which no rounding is off."""


def recovered_eye(
    position: Float[Tensor, "object 3"],
    pixels: Float[Tensor, "object 3"],
    behind: list[float] | None,
    image: tuple[int, int],
) -> Float[Tensor, "3"]:
    """Return the camera within the generator's jitter that explains depths, pixels, direction.

    One object does not determine it: fewer than two give the base camera.
    """
    base = np.array(EYE)
    if len(position) < 2:
        return torch.tensor(EYE)
    points, recorded = position.double().numpy(), pixels.double().numpy()

    def misfit(shift: NDArray[np.float64], *, by_pixel: bool = True) -> NDArray[np.float64]:
        place, depth, forward = _projected(base + shift, points, image)
        off = [(depth - recorded[:, 2]) / EXACT]
        if by_pixel:
            off.append((place - recorded[:, :2]).ravel() / ROUNDED)
        if behind is not None:
            flat = forward[:2] / np.hypot(*forward[:2])
            off.append((flat - np.array(behind[:2])) / EXACT)
        return np.concatenate(off)

    found = _settled(misfit)
    place, _, _ = _projected(base + found, points, image)
    if np.abs(place - recorded[:, :2]).max() > STRAY:
        # Pixels of an image of another size: what is exact decides alone.
        found = _settled(partial(misfit, by_pixel=False))
    return torch.tensor(base + found, dtype=torch.float32)


def _settled(misfit: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the shift of least misfit within the jitter, by Gauss and Newton's steps.

    Far faster than a general solver: a file has tens of thousands of cameras to recover.
    """
    shift, nudge, reach = np.zeros(3), 1e-6, JITTER + 1e-3
    for _ in range(STEPS):
        here = misfit(shift)
        slopes = [(misfit(shift + nudge * axis) - here) / nudge for axis in np.eye(3)]
        step = np.linalg.lstsq(np.stack(slopes, axis=1), -here, rcond=None)[0]
        moved = np.clip(shift + step, -reach, reach)
        if np.abs(moved - shift).max() < 1e-9:
            break
        shift = moved
    return shift


def _projected(
    eye: NDArray[np.float64], points: NDArray[np.float64], image: tuple[int, int]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return pixels and depths of points, and the forward axis, of a camera facing the origin."""
    forward = -eye / np.linalg.norm(eye)
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    up = np.cross(right, forward)
    gap = points - eye
    depth = gap @ forward
    # The longer side of an image spans the field of view.
    scale = max(image) / 2 / (HALF_FIELD * depth)
    place = np.stack([gap @ right * scale, -(gap @ up) * scale], axis=1)
    return place + np.array(image) / 2, depth, forward
