"""CLEVR: spheres, cubes and cylinders on a grey floor, placed and lit as the original's are.

Johnson et al. 2017; facts of the scene from the original generator's assets.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.draw import uniform, whole
from recombine.render.camera import directions, look_at
from recombine.render.engine import picture, visible
from recombine.render.solids import solids
from recombine.render.stage import FAR, LAMP_POSITIONS, Stage
from recombine.scene import (
    SHAPES,
    Concepts,
    Factor,
    SceneNumbers,
    Scenes,
    as_numbers,
    compositions,
    concatenate,
    concept_rows,
)
from recombine.spelling import brief

PALETTE = {
    "gray": (87, 87, 87),
    "red": (173, 35, 35),
    "blue": (42, 75, 215),
    "green": (29, 105, 20),
    "brown": (129, 74, 25),
    "purple": (129, 38, 192),
    "cyan": (41, 208, 208),
    "yellow": (255, 238, 51),
}
SIZES = {"large": 0.7, "small": 0.35}
EYE = (7.4811, -6.5076, 5.3437)
FLOOR = 0.79
EXTENT, APART, MARGIN = 3.0, 0.25, 0.4
MARGIN_FITS = 10
TRIES = 50
ATTEMPTS = 4_000
MOST = 12
# An object shows at least so many pixels at these image sides (200 of the original's 320 x 240).
# The small side comes first: it is cheap, and rejects most.
SHOWN = ((64, 11), (128, 43))

# Draw numbers: one block per object (attributes, then places to try), and one for the view.
# An attempt at a scene is a scene number of its own, far beyond those of any stream.
_PER_OBJECT, _VIEW, _PER_ATTEMPT = 128, 1 << 20, 1 << 40


@dataclass(frozen=True)
class Clevr:
    """Scenes with `objects` from the first to the second number, each composition from `among`.

    Jitter moves camera and lamps as in CLEVR_v1.0. The margin keeps objects apart along the four
    image directions; 11 and 12 objects only fit without it, so they never have it.
    """

    size: int = 128
    objects: tuple[int, int] = (3, 10)
    jitter: bool = False
    margin: bool = True
    among: tuple[Concepts, ...] = ()

    name: ClassVar[str] = "clevr"
    factors: ClassVar[tuple[Factor, ...]] = (
        Factor("shape", SHAPES[:3]),
        Factor("colour", tuple(PALETTE)),
        Factor("material", ("rubber", "metal")),
        Factor("size", tuple(SIZES)),
    )
    __repr__ = brief

    def __post_init__(self) -> None:
        least, most = self.objects
        if not 0 <= least <= most <= MOST:
            raise ValueError(f"a clevr scene holds 0 to {MOST} objects; got {least}-{most}")
        if self.size < 1:
            raise ValueError(f"an image has a side of at least 1 pixel; got {self.size}")
        concept_rows(self.factors, self.among)

    def scenes(self, index: SceneNumbers, seed: int = 0) -> Scenes:
        """Place objects as the original does: all anew until they keep their distance and show."""
        index = as_numbers(index)
        pending, found = torch.arange(len(index), device=index.device), []
        attempt, at_once = 0, 1
        while len(pending):
            if attempt >= ATTEMPTS:
                number = int(index[pending[0]])
                raise ValueError(
                    f"scene {number} of seed {seed}: {self.objects[1]} objects were not placed in "
                    f"{ATTEMPTS} attempts; use fewer objects, or margin=False"
                )
            proposed, good = self._proposed(index[pending], seed, attempt, at_once)
            good = good.reshape(len(pending), at_once)
            first = torch.arange(len(pending), device=index.device) * at_once
            first = (first + good.byte().argmax(dim=1))[good.any(dim=1)]
            found.append((pending[good.any(dim=1)], proposed[first]))
            pending = pending[~good.any(dim=1)]
            attempt, at_once = attempt + at_once, min(2 * at_once, 64)
        if not found:
            return self._proposed(index, seed, 0, 1)[0]
        order = torch.cat([numbers for numbers, _ in found]).argsort()
        return concatenate([scenes for _, scenes in found])[order]

    def image(self, scenes: Scenes) -> Float[Tensor, "batch 3 height width"]:
        """Return what the scenes look like."""
        return picture(stage(scenes), self.size)

    def _proposed(
        self, index: Int[Tensor, " batch"], seed: int, attempt: int, at_once: int
    ) -> tuple[Scenes, Bool[Tensor, " attempt"]]:
        """Return some attempts at each scene, side by side, and which of them are good."""
        tried = attempt + torch.arange(at_once, device=index.device).repeat(len(index))
        scenes, placed = self._placed(index.repeat_interleave(at_once), seed, tried)
        good = placed.clone()
        for side, least in SHOWN:
            good[good.clone()] = shows(scenes[good], side, least)
        return scenes, good

    def _placed(
        self, index: Int[Tensor, " batch"], seed: int, tried: Int[Tensor, " batch"]
    ) -> tuple[Scenes, Bool[Tensor, " batch"]]:
        """Draw objects and put them where they keep their distance; return where that worked."""
        least, most = self.objects
        slot = torch.arange(most, device=index.device)
        view = torch.tensor(_VIEW, device=index.device)
        count = least + whole(seed, index, view, most - least + 1)
        present = slot < count[:, None]
        camera, lamps = self._view(index, seed)
        own, slot = index + tried * _PER_ATTEMPT, slot * _PER_OBJECT
        rows = self._rows().to(index.device)
        concepts = rows[whole(seed, own, slot, len(rows))]
        scale = torch.tensor(list(SIZES.values()), device=index.device)[concepts[..., 3]]
        tries = slot[:, None] + 8 + torch.arange(2 * TRIES, device=index.device)
        spots = uniform(seed, own, tries).unflatten(2, (TRIES, 2)) * (2 * EXTENT) - EXTENT
        position, placed = self._settled(spots, scale, present, camera)
        palette = (torch.tensor(list(PALETTE.values())) / 255).to(index.device)
        scenes = Scenes(
            position=torch.cat([position, scale[..., None]], dim=-1),
            size=scale,
            rotation=uniform(seed, own, slot + 1) * 360,
            colour=palette[concepts[..., 1]],
            shape=concepts[..., 0],
            material=concepts[..., 2],
            concepts=concepts,
            present=present,
            backdrop=camera.new_full((len(index), 1, 3), FLOOR),
            camera=camera,
            lamps=lamps,
        )
        return scenes, placed

    def _rows(self) -> Int[Tensor, "composition factor"]:
        return concept_rows(self.factors, self.among or compositions(self.factors))

    def _view(
        self, index: Int[Tensor, " batch"], seed: int
    ) -> tuple[Float[Tensor, "batch 3"], Float[Tensor, "batch 3 3"]]:
        eye = torch.tensor(EYE, device=index.device).expand(len(index), 3)
        lamps = torch.tensor(LAMP_POSITIONS, device=index.device).expand(len(index), 3, 3)
        if not self.jitter:
            return eye.contiguous(), lamps.contiguous()
        shift = uniform(seed, index, _VIEW + 1 + torch.arange(12, device=index.device))
        return eye + (shift[:, :3] - 0.5), lamps + (2 * shift[:, 3:] - 1).unflatten(1, (3, 3))

    def _settled(
        self,
        spots: Float[Tensor, "batch object tried 2"],
        scale: Float[Tensor, "batch object"],
        present: Bool[Tensor, "batch object"],
        camera: Float[Tensor, "batch 3"],
    ) -> tuple[Float[Tensor, "batch object 2"], Bool[Tensor, " batch"]]:
        """Give each object the first of its spots that keeps its distance to those before."""
        axes = directions(look_at(camera, torch.zeros_like(camera)))
        crowded = present.sum(dim=1) > MARGIN_FITS if self.margin else present.any(dim=1)
        position, placed = spots[:, :, 0].clone(), torch.ones_like(crowded)
        for new in range(1, spots.shape[1]):
            gap = spots[:, new, :, None] - position[:, None, :new]
            x, y = gap[..., 0], gap[..., 1]
            apart = (scale[:, new, None] + scale[:, :new])[:, None] + APART
            fits = x * x + y * y >= apart * apart
            for axis in (axes["right"], axes["behind"]):
                along = x * axis[:, None, None, 0] + y * axis[:, None, None, 1]
                fits &= (along.abs() >= MARGIN) | crowded[:, None, None]
            fits = fits.all(dim=2)
            first = fits.byte().argmax(dim=1)[:, None, None].expand(-1, 1, 2)
            position[:, new] = spots[:, new].gather(1, first)[:, 0]
            placed &= fits.any(dim=1) | ~present[:, new]
        return position, placed


def stage(scenes: Scenes) -> Stage:
    """Return the scenes as a stage.

    The original writes its palette, meant as sRGB, into linear colours, and its rotations, drawn
    in degrees, into radians; its images show both, so ours do too.
    """
    rows, owner = solids(scenes, scenes.rotation, scenes.colour, capsules=False)
    floor = scenes.backdrop[:, 0]
    far = floor.new_full((len(scenes), 1), FAR)
    camera = look_at(scenes.camera, torch.zeros_like(scenes.camera))
    view = torch.cat([camera, scenes.lamps.flatten(1), floor, floor, far], dim=1)
    return Stage(view, rows, owner)


def shows(scenes: Scenes, side: int, least: int) -> Bool[Tensor, " batch"]:
    """Return in which scenes every object shows at least so many pixels at this image side."""
    pixels = visible(stage(scenes), side, scenes.present.shape[1])
    return ((pixels >= least) | ~scenes.present).all(dim=1)
