"""Objects as the solids a ray can meet."""

from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recombine.render.stage import FAR, SOLID_COLUMNS
from recombine.scene import SHAPES, Scenes

PerObject: TypeAlias = Float[Tensor, "batch object"]
Colours: TypeAlias = Float[Tensor, "batch object 3"]
Bodies: TypeAlias = Float[Tensor, "batch object 16"]
"""The columns of `Stage.solids`, a row for each object."""

# What part of its nominal half side each shape really fills, measured on Blender's masks.
FILL = {"sphere": 1.0, "cube": 0.953, "cylinder": 0.993, "capsule": 0.6}
BEVEL = {"sphere": 0.094, "cube": 0.094, "cylinder": 0.094, "capsule": 1e-3}
# Circumscribed spheres, with one per cent for rounding: they only save work.
REACH = {"sphere": 1.01, "cube": 1.75, "cylinder": 1.43, "capsule": 1.01}


def solids(
    scenes: Scenes, angle: PerObject, colour: Colours, *, capsules: bool
) -> tuple[Float[Tensor, "batch solid 16"], Int[Tensor, "batch solid"]]:
    """Return every object's solids and which object each belongs to (-1: to an absent one).

    Angle is in radians and colour is linear. With capsules each object has three solids: a body
    and, where it is a capsule, two round ends.
    """
    number = torch.arange(scenes.present.shape[1], device=scenes.present.device)
    owner = torch.where(scenes.present, number, -1)
    body = _rows(scenes, angle, colour, _outline(scenes))
    body = torch.where(scenes.present[..., None], body, _nothing(body))
    if not capsules:
        return body, owner
    is_capsule = scenes.present & (scenes.shape == SHAPES.index("capsule"))
    ends = [_end(body, scenes, sign) for sign in (-1.0, 1.0)]
    ends = [torch.where(is_capsule[..., None], end, _nothing(body)) for end in ends]
    return torch.cat([body, *ends], dim=1), owner.repeat(1, 3)


def _per_shape(scenes: Scenes, values: dict[str, float]) -> PerObject:
    table = scenes.size.new_tensor([values.get(shape, 1.0) for shape in SHAPES])
    return table[torch.where(scenes.present, scenes.shape, 0)]


def _outline(scenes: Scenes) -> Float[Tensor, "batch object 5"]:
    """Return half sides in x, y, z, the radius and the roundness of each body."""
    is_a = {shape: scenes.shape == SHAPES.index(shape) for shape in FILL}
    fill = scenes.size * _per_shape(scenes, FILL)
    far = torch.full_like(fill, FAR)
    aside = torch.where(is_a["cube"], fill, far)
    # A capsule stands as high as the others: its straight part ends a radius below the top.
    height = torch.where(is_a["capsule"], scenes.size - fill, fill)
    height = torch.where(is_a["sphere"], far, height)
    radius = torch.where(is_a["cube"], far, fill)
    return torch.stack([aside, aside, height, radius, is_a["sphere"].to(fill)], dim=-1)


def _rows(
    scenes: Scenes, angle: PerObject, colour: Colours, outline: Float[Tensor, "batch object 5"]
) -> Bodies:
    turn = torch.stack([angle.double().cos(), angle.double().sin()], dim=-1).to(scenes.position)
    reach, bevel = (scenes.size * _per_shape(scenes, each) for each in (REACH, BEVEL))
    rest = torch.stack([scenes.material.to(angle), reach, bevel], dim=-1)
    return torch.cat([scenes.position, turn, outline, colour, rest], dim=-1)


def _end(body: Bodies, scenes: Scenes, sign: float) -> Bodies:
    """Return the ball at one end of a capsule."""
    end = body.clone()
    radius = scenes.size * FILL["capsule"]
    end[..., 2] = scenes.position[..., 2] + sign * (scenes.size - radius)
    end[..., 5:8] = FAR
    end[..., 9] = 1.0
    end[..., 14] = radius * REACH["sphere"]
    return end


def _nothing(like: Bodies) -> Float[Tensor, " 16"]:
    """Return a solid that no ray meets: a box of negative width, out of reach."""
    row = like.new_zeros(SOLID_COLUMNS)
    row[3], row[5:8] = 1.0, -1.0
    return row
