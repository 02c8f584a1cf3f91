"""What every world promises. A new world is one more line in WORLDS."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from recombine.scene import PER_OBJECT, Scenes, World, composition_number, compositions, concatenate
from recombine.worlds.circles import Circles
from recombine.worlds.clevr import Clevr
from recombine.worlds.shapes2d import PAPER, Shapes2D
from recombine.worlds.shapes3d import Shapes3D

WORLDS: list[World] = [
    Shapes2D(size=16),
    replace(PAPER, size=16, shapes=("circle", "triangle", "square"), shift=1.0),
    Circles(size=16),
    Circles(size=16, colour_separation=0.1, size_separation=0.2, smooth=True),
    Clevr(size=48, objects=(1, 3)),
    Clevr(size=48, objects=(1, 2), jitter=True, margin=False),
    Shapes3D(size=16),
]
EVERY = pytest.mark.parametrize("world", WORLDS, ids=str)
SOME = torch.arange(100, 124)


def same(one: Scenes, other: Scenes) -> bool:
    return all(torch.equal(value, vars(other)[name]) for name, value in vars(one).items())


def seen_in(world: World, scenes: Scenes) -> set[int]:
    numbers = composition_number(scenes.concepts, world.factors)
    return set(numbers[scenes.present].tolist())


@EVERY
def test_a_world_is_a_world(world: World):
    assert isinstance(world, World)
    assert world.name.isidentifier()
    assert eval(repr(world)) == world
    assert hash(world) == hash(replace(world))  # type: ignore[type-var]


@EVERY
def test_scenes_do_not_depend_on_their_batch(world: World):
    together = world.scenes(SOME, seed=1)
    parts = [world.scenes(part, seed=1) for part in SOME.split([1, 7, 16])]
    assert same(concatenate(parts), together)
    backwards = torch.arange(len(SOME)).flip(0)
    assert same(world.scenes(SOME[backwards], seed=1), together[backwards])


@EVERY
def test_images_do_not_depend_on_their_batch(world: World):
    scenes = world.scenes(SOME, seed=1)
    together = world.image(scenes)
    parts = torch.cat([world.image(scenes[:1]), world.image(scenes[1:8]), world.image(scenes[8:])])
    assert torch.equal(parts, together)
    assert torch.equal(world.image(scenes), together)


@EVERY
@pytest.mark.parametrize("processes", [2, 3])
def test_processes_share_out_the_scenes(world: World, processes: int):
    together = world.scenes(SOME, seed=2)
    for process in range(processes):
        mine = slice(process, None, processes)
        assert same(world.scenes(SOME[mine], seed=2), together[mine])


@EVERY
def test_other_seeds_and_other_numbers_are_other_scenes(world: World):
    images = world.image(world.scenes(SOME, seed=0)).flatten(1)
    others = world.image(world.scenes(SOME, seed=1)).flatten(1)
    assert (images != others).any(dim=1).all()
    assert len(images.unique(dim=0)) == len(SOME)


@EVERY
def test_every_composition_occurs_and_only_those_asked_for(world: World):
    every = compositions(world.factors)
    many = torch.arange(max(400, 10 * len(every)))
    assert seen_in(world, world.scenes(many, seed=0)) == set(range(len(every)))
    allowed = (every[-1], every[0])
    narrow, many = replace(world, among=allowed), many[:400]  # type: ignore[type-var]
    scenes = narrow.scenes(many, seed=0)
    assert seen_in(narrow, scenes) == {0, len(every) - 1}
    share = (scenes.concepts[:, 0] == 0).all(dim=-1).float().mean()
    assert share.item() == pytest.approx(0.5, abs=4.5 * 0.5 / len(many) ** 0.5)


@EVERY
def test_images_are_pictures(world: World):
    scenes = world.scenes(SOME, seed=3)
    image = world.image(scenes)
    assert image.shape == (len(SOME), 3, world.size, world.size)
    assert image.dtype == torch.float32
    assert image.device == scenes.position.device
    assert image.isfinite().all()
    assert image.min() >= 0
    assert image.max() <= 1
    assert world.image(scenes[:0]).shape == (0, 3, world.size, world.size)


@EVERY
def test_the_size_of_an_image_can_be_chosen(world: World):
    assert world.image(world.scenes(SOME[:2], seed=0)).shape[-1] == world.size
    larger = replace(world, size=24)  # type: ignore[type-var]
    assert larger.image(larger.scenes(SOME[:2], seed=0)).shape == (2, 3, 24, 24)
    assert same(larger.scenes(SOME, seed=0), world.scenes(SOME, seed=0))


@EVERY
def test_the_concepts_of_every_factor_are_seen_in_the_image(world: World):
    """Scenes that differ in one factor only differ in their images, and in nothing random."""
    every = compositions(world.factors)
    first = every[0]
    reference = means(world, first)
    for axis, factor in enumerate(world.factors):
        for concept in factor.concepts[1:]:
            changed = (*first[:axis], concept, *first[axis + 1 :])
            difference = (means(world, changed) - reference).abs().flatten(1).max(dim=1).values
            assert difference.min() > 0.05, f"{factor.name} {concept} cannot be seen"


def means(world: World, composition: tuple[str, ...]) -> Tensor:
    """Return images of one composition; all else is as for any other composition."""
    only = replace(world, among=(composition,))  # type: ignore[type-var]
    return only.image(only.scenes(SOME[:8], seed=5))


def anything(value: Tensor, present: Tensor) -> Tensor:
    """Overwrite what is said of absent objects."""
    return torch.where(present.reshape(*present.shape, *[1] * (value.dim() - 2)), value, 7)


@EVERY
def test_absent_objects_leave_no_trace(world: World):
    scenes = world.scenes(SOME, seed=4)
    bare = scenes.without(0)
    others = [name for name in PER_OBJECT if name != "present"]
    broken = {name: anything(vars(bare)[name], bare.present) for name in others}
    assert torch.equal(world.image(replace(bare, **broken)), world.image(bare))
    padded = scenes.padded(scenes.present.shape[1] + 2)
    torch.testing.assert_close(world.image(padded), world.image(scenes))


@EVERY
def test_an_object_taken_away_is_gone(world: World):
    scenes = world.scenes(SOME, seed=4)
    changed = world.image(scenes.without(0)) != world.image(scenes)
    assert torch.equal(changed.flatten(1).any(dim=1), scenes.present[:, 0])


@EVERY
def test_a_world_says_which_concepts_it_knows(world: World):
    unknown = ("mauve", *compositions(world.factors)[0][1:])
    with pytest.raises(ValueError, match=f"{world.factors[0].name} is one of .*'mauve'"):
        replace(world, among=(unknown,))  # type: ignore[type-var]
    with pytest.raises(ValueError, match="one concept each"):
        replace(world, among=(("red",),))  # type: ignore[type-var]
