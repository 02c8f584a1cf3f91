"""A room with one object: the factors of 3dshapes (Burgess & Kim 2018), by our own ray caster.

Hue, shape and scale of the object are the factors of the compositions; the hues of floor and wall
and the orientation of the view vary freely and are kept in the scene.
"""

import colorsys
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recombine.draw import whole
from recombine.render.camera import look_at
from recombine.render.engine import picture
from recombine.render.solids import solids
from recombine.render.stage import LAMP_POSITIONS, LOOK, Stage
from recombine.scene import (
    SHAPES,
    Concepts,
    Factor,
    SceneNumbers,
    Scenes,
    as_numbers,
    compositions,
    concept_rows,
)
from recombine.spelling import brief
from recombine.split import Split, at_most_one

HUES = (
    "red", "orange", "yellow", "lime", "green", "cyan", "blue", "indigo", "purple", "magenta",
)  # fmt: skip
SOLIDS = ("cube", "cylinder", "sphere", "capsule")
SCALES = tuple(f"scale{number}" for number in range(8))
SMALLEST, LARGEST = 0.75, 1.25
ORIENTATIONS, WIDEST = 15, 30.0
"""The camera goes round the object from -30 to 30 degrees in fifteen steps."""
DISTANCE, HEIGHT, AIM, ROOM = 6.6, 3.4, 1.0, 5.5
INDOORS = replace(LOOK, ambient=0.28, bounce=0.05)
"""Walls send light everywhere, which the open floor of CLEVR does not."""
SATURATION, BRIGHTNESS = 0.9, 0.9


@dataclass(frozen=True)
class Shapes3D:
    """One object in a room, its composition from `among`; every other factor uniform."""

    size: int = 64
    among: tuple[Concepts, ...] = ()

    name: ClassVar[str] = "shapes3d"
    factors: ClassVar[tuple[Factor, ...]] = (
        Factor("hue", HUES),
        Factor("shape", SOLIDS),
        Factor("scale", SCALES),
    )
    __repr__ = brief

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"an image has a side of at least 1 pixel; got {self.size}")
        concept_rows(self.factors, self.among)

    def scenes(self, index: SceneNumbers, seed: int = 0) -> Scenes:
        """Return the scenes of these numbers."""
        index = as_numbers(index)
        here = index.device
        rows = concept_rows(self.factors, self.among or compositions(self.factors)).to(here)
        draw = torch.arange(4, device=here)
        concepts = rows[whole(seed, index, draw[:1], len(rows))]
        surfaces = whole(seed, index, draw[1:3], len(HUES))
        turn = whole(seed, index, draw[3], ORIENTATIONS)
        return rooms(concepts[:, 0], surfaces, turn)

    def image(self, scenes: Scenes) -> Float[Tensor, "batch 3 height width"]:
        """Return what the scenes look like."""
        return picture(stage(scenes), self.size, INDOORS)


_OUT = {"hue": HUES[6:], "shape": ("sphere",), "scale": SCALES[6:]}
_CAPSULES = tuple(which for which in compositions(Shapes3D.factors) if "capsule" in which)
SHAPES3D_240 = Split(
    "shapes3d_240",
    Shapes3D.factors,
    seen=tuple(which for which in at_most_one(Shapes3D.factors, _OUT) if which not in _CAPSULES),
    left_out=_CAPSULES,
)
"""Ten hues, three shapes, eight scales: out are blue to magenta, spheres, the two largest."""


def rooms(
    concepts: Int[Tensor, "batch 3"], surfaces: Int[Tensor, "batch 2"], turn: Int[Tensor, " batch"]
) -> Scenes:
    """Return an object in a room each: its concepts, hues of floor and wall, orientation."""
    here = concepts.device
    hues = hue_colours(here)
    hue, solid, scale = concepts[:, None].unbind(-1)
    size = SMALLEST + (LARGEST - SMALLEST) / (len(SCALES) - 1) * scale.float()
    shape = torch.tensor([SHAPES.index(name) for name in SOLIDS], device=here)
    nothing = torch.zeros_like(size)
    return Scenes(
        position=torch.stack([nothing, nothing, size], dim=-1),
        size=size,
        rotation=nothing,
        colour=hues[hue],
        shape=shape[solid],
        material=nothing.long(),
        concepts=concepts[:, None],
        present=torch.ones_like(size, dtype=torch.bool),
        backdrop=hues[surfaces],
        camera=eyes(here)[turn],
        lamps=torch.tensor(LAMP_POSITIONS, device=here).repeat(len(concepts), 1, 1),
    )


def stage(scenes: Scenes) -> Stage:
    """Return the scenes as a stage: a square room around the object; hues are taken as linear."""
    angle = torch.deg2rad(scenes.rotation)
    rows, owner = solids(scenes, angle, scenes.colour, capsules=True)
    floor, wall = scenes.backdrop.unbind(1)
    aim = torch.tensor([0.0, 0.0, AIM], device=floor.device).expand(len(scenes), 3)
    room = floor.new_full((len(scenes), 1), ROOM)
    camera = look_at(scenes.camera, aim)
    view = torch.cat([camera, scenes.lamps.flatten(1), floor, wall, room], dim=1)
    return Stage(view, rows, owner)


def eyes(device: torch.device) -> Float[Tensor, "orientation 3"]:
    """Return where the camera stands for each orientation."""
    angle = torch.linspace(-WIDEST, WIDEST, ORIENTATIONS, dtype=torch.float64).deg2rad()
    height = torch.full_like(angle, HEIGHT)
    places = [DISTANCE * angle.sin(), -DISTANCE * angle.cos(), height]
    return torch.stack(places, dim=1).float().to(device)


def hue_colours(device: torch.device) -> Float[Tensor, "hue 3"]:
    """Return the ten hues, evenly round the colour circle."""
    colours = [
        colorsys.hsv_to_rgb(number / len(HUES), SATURATION, BRIGHTNESS)
        for number in range(len(HUES))
    ]
    return torch.tensor(colours, device=device)
