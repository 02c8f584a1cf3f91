"""What the readers of our worlds see in images, one form for all of them."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine import zoo
from recombine.measure.fit import Fit
from recombine.measure.renders import FRESH
from recombine.scene import World
from recombine.scoring.matching import ABSENT, agreeing
from recombine.worlds.clevr import MOST, Clevr
from recombine.worlds.shapes2d import Shapes2D

NOTHING = "nothing I know"
"""What stands for an image that is not of the reader's world."""


@dataclass(frozen=True)
class SeenObjects:
    """The objects in a batch of images, and whether each image is of the world at all."""

    concepts: Int[Tensor, "batch object factor"]
    present: Bool[Tensor, "batch object"]
    valid: Bool[Tensor, " batch"]


def readable(world: World) -> Shapes2D | Clevr:
    """Return a world whose images can be read, or say which ones can."""
    if not isinstance(world, Shapes2D | Clevr):
        raise ValueError(f"images of shapes2d and of clevr can be scored; got {world.name}")
    return world


def most_objects(world: World) -> int:
    """Return how many objects an image of the world can show."""
    return MOST if isinstance(world, Clevr) else 1


def read(world: Shapes2D | Clevr, images: Float[Tensor, "batch 3 height width"]) -> SeenObjects:
    """Read images; what is seen in one does not depend on the others."""
    if isinstance(world, Clevr):
        return _detected(images)
    reading = Fit(world)(images)
    present = torch.ones(len(images), 1, dtype=torch.bool, device=images.device)
    return SeenObjects(reading.concepts[:, None], present, reading.valid)


def _detected(images: Float[Tensor, "batch 3 height width"]) -> SeenObjects:
    """Detect in each image by itself: sums of larger batches may differ in the last digit."""
    reader = zoo.detector(device=images.device)
    found = [reader(image[None]) for image in images]
    known = [each.known for each in found if each.known is not None]
    return SeenObjects(
        torch.cat([each.concepts for each in found]),
        torch.cat([each.present for each in found]),
        torch.cat(known),
    )


def renders(
    world: Shapes2D | Clevr, request: Int[Tensor, "requested factor"], count: int
) -> tuple[Float[Tensor, "batch 3 height width"], Int[Tensor, "batch object factor"]]:
    """Return true renders for a request that no training has seen, and what they show.

    In CLEVR they have as many objects, drawn from all compositions that are requested.
    """
    objects = request[(request != ABSENT).all(dim=1)]
    among = tuple(dict.fromkeys(each for row in objects for each in agreeing(world.factors, row)))
    declared: Any = replace(world, among=among)
    if isinstance(world, Clevr):
        declared = replace(declared, objects=(len(objects), len(objects)), margin=False)
    else:
        declared = replace(declared, images=None)
    scenes = declared.scenes(torch.arange(count), FRESH)
    if isinstance(world, Shapes2D):
        # What was requested of these renders is no more than what was requested.
        return declared.image(scenes), objects[None].expand(count, -1, -1)
    return declared.image(scenes), scenes.concepts
