"""The stage: all that a ray can meet, as plain numbers, and the look they were fitted to.

Every solid is one formula: a box intersected with a quadric x^2 + y^2 + w z^2 <= r^2. A cube has
a quadric too large to matter, a sphere (w = 1) a box too large to matter, a cylinder (w = 0) a box
that only cuts its height. So there is no branch on shape anywhere, and a new convex solid is a row.
"""

from dataclasses import dataclass, fields
from functools import cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

FAR = 1e3
"""Larger than anything on a stage: the half side or radius of a part that does not matter."""

# Columns of Stage.solids. Edges are rounded in the normals only, over a width `BEVEL`.
CENTRE, COSINE, SINE, HALF, RADIUS, ROUND = 0, 3, 4, 5, 8, 9
COLOUR, METAL, REACH, BEVEL = 10, 13, 14, 15
SOLID_COLUMNS = 16
# Columns of Stage.view. Right and up are scaled by the tangent of half the field of view.
EYE, RIGHT, UP, FORWARD, LAMPS, FLOOR, WALL, ROOM = 0, 3, 6, 9, 12, 21, 24, 27


@dataclass(frozen=True)
class Stage:
    """A batch of pictures to take; colours are linear, `owner` is an object's number or -1."""

    view: Float[Tensor, "batch 28"]
    solids: Float[Tensor, "batch solid 16"]
    owner: Int[Tensor, "batch solid"]

    def __len__(self) -> int:
        return len(self.view)

    def __getitem__(self, which: slice | Tensor) -> "Stage":
        return Stage(**{field.name: getattr(self, field.name)[which] for field in fields(self)})


LAMP_POSITIONS = ((6.447, -2.905, 4.258), (-4.671, -4.014, 3.011), (-1.169, 2.646, 5.816))
LAMP_WATTS = (78.5, 23.6, 39.3)
LAMP_COLOURS = ((1.0, 0.932, 0.817), (0.762, 0.818, 1.0), (1.0, 1.0, 1.0))
LAMP_SIDES = (0.5, 0.5, 1.0)
SUN = (0.414, -0.195, 0.889)
SUN_STRENGTH = 0.45
BEHIND = (-0.7545, 0.6563)


@dataclass(frozen=True)
class Look:
    """What Blender's materials amount to; fitted by `benchmarks/fit_look.py` on half the renders.

    Lamps and sun keep the wattage and colour of the original scene. They face the origin, which
    the reference images show and the original's notes leave out (docs/decisions/002).
    """

    ambient: float = 0.0187
    bounce: float = 0.20345
    rubber: float = 0.92322
    metal_dull: float = 0.03561
    metal_mirror: float = 0.92006
    metal_shine: float = 0.85284
    metal_second: float = 0.94197
    gloss: float = 0.00556
    spread: float = 0.30776
    sky_behind: float = 0.12242
    backdrop: float = 0.03712


LOOK = Look()
# Columns of one lamp in `look_numbers`: axis, two sides of its square, energy per colour channel.
LAMP_COLUMNS = 12
SUN_COLUMN = 3 * LAMP_COLUMNS
TERM_COLUMN = SUN_COLUMN + 6


# The cached tensor is also used where gradients are needed, so it is no inference tensor.
@cache
@torch.inference_mode(False)
def look_numbers(look: Look) -> Float[Tensor, " number"]:
    """Return lamps, sun and the terms of the look in one row, in the order the renderers read."""
    rows = []
    for place, watts, colour, side in zip(
        LAMP_POSITIONS, LAMP_WATTS, LAMP_COLOURS, LAMP_SIDES, strict=True
    ):
        axis = -_unit(torch.tensor(place, dtype=torch.float64))
        across = _unit(torch.linalg.cross(axis, axis.new_tensor([0, 0, 1])))
        along = torch.linalg.cross(across, axis)
        # A Lambertian square of P watts gives P / pi per steradian ahead; a matt surface 1 / pi.
        energy = axis.new_tensor(colour) * watts / torch.pi**2
        rows += [axis, across * side, along * side, energy]
    sun = _unit(torch.tensor(SUN, dtype=torch.float64))
    rows += [sun, torch.full_like(sun, SUN_STRENGTH / torch.pi)]
    terms = torch.tensor([getattr(look, field.name) for field in fields(look)])
    return torch.cat([*rows, terms]).to(torch.float32)


def _unit(vector: Float[Tensor, "3"]) -> Float[Tensor, "3"]:
    return vector / vector.norm()
