"""Debris: images near Shapes2D that show none of its compositions."""

import pytest
import torch

from recombine.worlds.debris import DEBRIS, debris
from recombine.worlds.shapes2d import FIXED, PAPER, Shapes2D

WORLD = Shapes2D()
INDEX = torch.arange(24)
OUTLINES = ("ring", "bar", "star", "splinter", "crescent", "egg")


@pytest.mark.parametrize("kind", DEBRIS)
def test_debris_depends_on_its_number_and_the_seed_only(kind: str):
    images = debris(WORLD, kind, INDEX, 3)
    assert images.shape == (24, 3, 28, 28)
    assert images.min() >= 0
    assert images.max() <= 1
    assert images[4:9].equal(debris(WORLD, kind, INDEX[4:9], 3))
    assert not images.equal(debris(WORLD, kind, INDEX, 4))
    assert len(images.flatten(1).unique(dim=0)) == 24


@pytest.mark.parametrize("kind", DEBRIS)
@pytest.mark.parametrize("world", [PAPER, FIXED, Shapes2D(size=32, colours=("red",))])
def test_every_shapes2d_has_debris(kind: str, world: Shapes2D):
    assert debris(world, kind, INDEX[:3], 0).shape == (3, 3, world.size, world.size)


@pytest.mark.parametrize("kind", OUTLINES)
def test_an_outline_has_about_the_ink_and_the_colour_of_its_scene(kind: str):
    world = Shapes2D(sizes=("tiny", "small"))
    scenes = world.scenes(INDEX, 3)
    true, mine = (
        (1 - images).sum(dim=(2, 3))
        for images in (world.image(scenes), debris(world, kind, INDEX, 3))
    )
    area = mine.sum(dim=1) / true.sum(dim=1)
    assert ((area > 0.75) & (area < 1.3)).all()
    shares = (each / each.sum(dim=1, keepdim=True) for each in (true, mine))
    assert torch.allclose(*shares, atol=1e-3)


def test_a_ring_has_a_hole_and_a_bar_is_longer_than_wide():
    world = Shapes2D(sizes=("large",), shift=0.0)
    ring = 1 - debris(world, "ring", INDEX, 3).amin(dim=1)
    assert ring[:, 13:15, 13:15].max() == 0
    assert ring.sum(dim=2).max() > 8
    bar = 1 - debris(world, "bar", INDEX, 3).amin(dim=1)
    line = torch.arange(28) - 13.5
    weight = bar / bar.sum(dim=(1, 2), keepdim=True)
    down, right = line[:, None], line
    moments = [(weight * each).sum(dim=(1, 2)) for each in (right**2, down**2, right * down)]
    spread = ((moments[0] - moments[1]) ** 2 + 4 * moments[2] ** 2).sqrt()
    ratio = (moments[0] + moments[1] + spread) / (moments[0] + moments[1] - spread)
    assert (ratio > 2.3**2).all()


def test_mixtures_halves_and_wrong_sizes_are_what_they_say():
    scenes = WORLD.scenes(INDEX, 3)
    true = WORLD.image(scenes)
    mixed = debris(WORLD, "mixture", INDEX, 3)
    # Where both shapes are, colour is full; where one is, half of it: equal areas in all.
    ink = (1 - mixed).sum(dim=(1, 2, 3)) / (1 - true).sum(dim=(1, 2, 3))
    assert (ink - 1).abs().max() < 0.02
    assert ((mixed - true).abs().amax(dim=(1, 2, 3)) > 0.2).all()
    halves = debris(WORLD, "two_colours", INDEX, 3)
    same = ((halves - true).abs().amax(dim=1) < 1e-6).float().mean(dim=(1, 2))
    assert ((same > 0.3) & (same < 1)).all()
    wrong = debris(WORLD, "off_size", INDEX, 3)
    area = (1 - wrong).sum(dim=(1, 2, 3)) / (1 - true).sum(dim=(1, 2, 3))
    assert (area.log().abs() > 0.15).all()


def test_clipped_shapes_touch_the_border_and_two_objects_do_not_meet():
    paper = debris(WORLD, "clipped", INDEX, 3).amin(dim=1)
    edge = torch.stack([paper[:, 0], paper[:, -1], paper[:, :, 0], paper[:, :, -1]])
    assert (edge.amin(dim=(0, 2)) < 0.95).all()
    two = 1 - debris(WORLD, "two_objects", INDEX, 3).amin(dim=1)
    one = 1 - WORLD.image(WORLD.scenes(INDEX, 3)).amin(dim=1)
    assert one.sum(dim=(1, 2)).median() > 40
    assert two.sum(dim=(1, 2)).min() > 1.5 * 0.6 * 36


def test_unknown_debris_is_refused():
    with pytest.raises(ValueError, match="debris is one of empty, .*; got 'dust'"):
        debris(WORLD, "dust", INDEX, 0)
