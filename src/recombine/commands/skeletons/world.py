"""One disc on grey. (Say here what the images of this world show.)

    recombine run FILE --tiny       # a study of this world, at the end of the file
    python -m pytest FILE           # the tests after it

A world is a frozen value with a name, factors, the side of an image, `scenes` and `image`.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recombine.condition import Conditioner, Labels, all_objects
from recombine.draw import uniform, whole
from recombine.models.dit import DiT
from recombine.models.entry import Vector
from recombine.render.raster import CIRCLE, coverage, flat_scenes, painted
from recombine.scene import Concepts, Factor, Scenes, compositions, concept_rows
from recombine.split import Split
from recombine.study import Cell, study
from recombine.training import Budget, Training

COLOURS = {"red": (0.9, 0.1, 0.1), "blue": (0.1, 0.1, 0.9)}
SIDES = {"left": -0.4, "right": 0.4}


@dataclass(frozen=True)
class SkeletonWorld:
    """A disc that is red or blue, on the left or on the right; an empty `among` means all."""

    size: int = 28
    among: tuple[Concepts, ...] = ()
    # Fields that users may set are fields here; wrong values are refused in __post_init__.
    jitter: float = 0.1

    name: ClassVar[str] = "skeleton"
    factors: ClassVar[tuple[Factor, ...]] = (
        Factor("colour", tuple(COLOURS)),
        Factor("side", tuple(SIDES)),
    )

    def __post_init__(self) -> None:
        if not 0 <= self.jitter <= 0.2:
            raise ValueError(f"jitter is from 0 to 0.2; got {self.jitter}")

    def scenes(self, index: Int[Tensor, " batch"], seed: int) -> Scenes:
        """Return the scenes of these numbers; each depends on its number and the seed alone."""
        rows = concept_rows(self.factors, self.among or compositions(self.factors)).to(index.device)
        # Every random value has a draw number of its own: here 0 for which, 1 and 2 for the place.
        draw = torch.arange(3, device=index.device)
        which = rows[whole(seed, index, draw[:1], below=len(rows))[:, 0]]
        away = self.jitter * (2 * uniform(seed, index, draw[1:]) - 1)
        colour = away.new_tensor(list(COLOURS.values()))[which[:, 0]]
        side = away.new_tensor(list(SIDES.values()))[which[:, 1]]
        return flat_scenes(
            position=torch.stack([side, torch.zeros_like(side)], dim=1) + away,
            size=torch.full_like(side, 0.3),
            colour=colour,
            shape=torch.full_like(index, CIRCLE),
            concepts=which,
            backdrop=torch.full_like(colour, 0.5),
        )

    def image(self, scenes: Scenes) -> Float[Tensor, "batch 3 height width"]:
        """Return what the scenes look like, sRGB in [0, 1]."""
        return painted(coverage(scenes, self.size), scenes)


# A study of this world, so that it can be run: one composition is held out.
SPLIT = Split(
    "skeleton", SkeletonWorld.factors, (("red", "left"), ("red", "right"), ("blue", "left"))
)
TRAINING = Training(
    world=SkeletonWorld(among=SPLIT.seen),
    network=DiT(3, 28, patch=4, entry=Vector(6), width=64, layers=4, heads=4),
    budget=Budget(steps=1_000, batch=64, warm_up=100),
    conditioner=Conditioner(all_objects, Labels((2, 2))),
)
STUDY = study("Is a disc drawn on a side where it was never seen?", Cell(TRAINING, seeds=(0,)), {})


def test_a_scene_depends_on_its_number_and_the_seed() -> None:
    world, index = SkeletonWorld(), torch.arange(16)
    whole_batch, part = world.scenes(index, seed=1), world.scenes(index[4:8], seed=1)
    assert torch.equal(whole_batch.position[4:8], part.position)
    assert not torch.equal(world.scenes(index, seed=2).position, whole_batch.position)


def test_an_image_shows_what_its_scene_says() -> None:
    scenes = SkeletonWorld().scenes(torch.arange(16), seed=0)
    images = SkeletonWorld().image(scenes)
    assert images.shape == (16, 3, 28, 28)
    for image, (colour, side) in zip(images, scenes.concepts[:, 0].tolist(), strict=True):
        disc = (image - 0.5).abs().amax(dim=0) > 0.3
        assert (disc[:, 14:].sum() > disc[:, :14].sum()) == (side == 1)
        assert (image[2][disc].mean() > image[0][disc].mean()) == (colour == 1)


def test_held_out_compositions_do_not_occur() -> None:
    assert SPLIT.holds(SkeletonWorld(among=SPLIT.seen).scenes(torch.arange(64), seed=0)).all()
