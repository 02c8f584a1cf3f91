"""Does an image show the detector's world at all? If not, the detector only guesses.

Two numbers decide, and true renders set their limits: how much of the confidence lies in centres
that the detector doubts, and how far the floor between the objects is from CLEVR's. Of 474 true
renders, 90 of them Blender's, with 0 to 10 objects and jittered or not, doubt is below .08 and the
floor beside objects off by .01 at most. Noise, gradients and flat shapes are beyond a limit.
"""

from functools import cache

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from recombine.worlds.clevr import Clevr

FAINT, UNSURE = 0.02, 0.5
"""Peaks below the first count for nothing; those between the two are doubted."""
MOST_DOUBT = 0.1
MOST_OFF, MOST_EMPTY_OFF, MOST_ROUGH = 0.02, 0.12, 0.005
"""How far the floor may be off: beside objects, in an empty image, and between neighbours there."""
CELLS = 8
"""Cells to a side in which the floor is compared; objects leave a quarter of them free."""


def doubt(confidence: Float[Tensor, "batch object"]) -> Float[Tensor, " batch"]:
    """Return the share of the confidence of all peaks that is in those that are doubted."""
    counted = torch.where(confidence > FAINT, confidence, 0)
    unsure = torch.where(counted < UNSURE, counted, 0)
    return unsure.sum(dim=1) / counted.sum(dim=1).clamp(min=FAINT)


def knows(
    square: Float[Tensor, "batch 3 side side"],
    confidence: Float[Tensor, "batch object"],
    found: Bool[Tensor, "batch object"],
) -> Bool[Tensor, " batch"]:
    """Return which images are of the detector's world; `found` are the objects it is sure of."""
    cells = F.interpolate(square, (CELLS, CELLS), mode="bilinear", antialias=True)
    off = (cells - floor(square.device)).abs().amax(dim=1).flatten(1)
    beside = torch.quantile(off, 0.25, dim=1) <= MOST_OFF
    smooth = F.avg_pool2d(square, 3, stride=1, padding=1, count_include_pad=False)
    rough = (square - smooth).square().mean(dim=(1, 2, 3)).sqrt()
    empty = (off.amax(dim=1) <= MOST_EMPTY_OFF) & (rough <= MOST_ROUGH)
    return torch.where(found.any(dim=1), beside & (doubt(confidence) <= MOST_DOUBT), empty)


@cache
@torch.inference_mode(False)
def floor(device: torch.device) -> Float[Tensor, "1 3 row column"]:
    """Return CLEVR's empty floor, in cells."""
    world = Clevr(size=64, objects=(0, 0))
    image = world.image(world.scenes(torch.zeros(1, dtype=torch.long), seed=0))
    cells = F.interpolate(image, (CELLS, CELLS), mode="bilinear", antialias=True)
    return cells.to(device)
