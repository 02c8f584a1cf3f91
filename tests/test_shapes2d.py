"""Shapes2D: what its fields say, equal areas, and that nothing is cut off."""

from dataclasses import replace

import pytest
import torch

from recombine.render.raster import AREA, FLAT, coverage
from recombine.scene import SHAPES, Scenes, compositions
from recombine.worlds.shapes2d import COLOURS, EXTENT, FIXED, PAPER, PIXEL, SIZES, Shapes2D

MANY = torch.arange(4000)


@pytest.fixture(scope="module")
def scenes() -> Scenes:
    return Shapes2D().scenes(MANY, seed=0)


def test_there_are_96_compositions_and_the_papers_eight():
    assert len(compositions(Shapes2D().factors)) == 4 * 4 * 6
    assert [factor.name for factor in PAPER.factors] == ["shape", "size", "colour"]
    assert compositions(PAPER.factors)[0b011] == ("circle", "small", "blue")
    assert compositions(PAPER.factors)[0b110] == ("triangle", "small", "red")


@pytest.mark.parametrize("world", [Shapes2D(), PAPER], ids=["equal", "authors"])
def test_without_jitter_a_scene_is_what_its_concepts_say(world: Shapes2D):
    scenes = world.means.scenes(MANY, seed=0)
    for scene in range(64):
        shape, size, colour = (
            factor.concepts[concept]
            for factor, concept in zip(
                world.factors, scenes.concepts[scene, 0].tolist(), strict=True
            )
        )
        assert SHAPES[scenes.shape[scene, 0]] == shape
        radius = world.radii[world.shapes.index(shape), world.sizes.index(size)]
        assert scenes.size[scene, 0] == radius
        assert scenes.colour[scene, 0].tolist() == pytest.approx(list(COLOURS[colour]))
    assert not scenes.position.any()


def test_the_shapes_of_a_size_cover_the_same_area():
    world = Shapes2D()
    for size in world.sizes:
        only = replace(world, among=tuple((shape, size, "red") for shape in FLAT))
        image = only.image(replace(only, size_jitter=0.0, colour_jitter=0.0).scenes(MANY[:64], 0))
        # Green of red is 0.1 on white 1.
        ink = (1 - image[:, 1]).sum(dim=(1, 2)) / 0.9
        assert (ink / (2 * SIZES["equal"][size]) ** 2 - 1).abs().max() < 1e-4


def test_the_authors_areas_tell_shapes_apart():
    assert PAPER.radii.unique().numel() == 2
    assert PAPER.radii[0].tolist() == pytest.approx([2.6, 1.6])


def test_jitter_fills_its_range_evenly_and_depends_on_nothing_else(scenes: Scenes):
    world = Shapes2D()
    shape, size, colour = scenes.concepts[:, 0].T
    swings = torch.cat(
        [
            (scenes.size[:, :1] / world.radii[shape, size][:, None] - 1) / 0.05,
            (scenes.colour[:, 0] - torch.tensor(list(COLOURS.values()))[colour]) / 0.04,
            scenes.position[:, 0] / (3 * PIXEL),
        ],
        dim=1,
    )
    assert swings.abs().max() < 1 + 1e-4
    assert (swings.min(dim=0).values < -0.99).all()
    assert (swings.max(dim=0).values > 0.99).all()
    # A uniform law on [-1, 1] has mean 0 and variance 1 / 3.
    torch.testing.assert_close(swings.mean(dim=0), torch.zeros(6), atol=0.04, rtol=0)
    torch.testing.assert_close(swings.T.var(dim=1), torch.ones(6) / 3, atol=0.03, rtol=0)
    numbers = torch.cat([swings, scenes.concepts[:, 0]], dim=1)
    off = torch.corrcoef(numbers.T) - torch.eye(9)
    assert off.abs().max() < 4.5 / len(MANY) ** 0.5


def test_no_shape_is_cut_off_and_every_composition_has_the_same_range(scenes: Scenes):
    assert (scenes.position.abs() + scenes.size[..., None]).max() < EXTENT
    # All of its area lies in the image.
    inside = coverage(scenes, 28, EXTENT).sum(dim=(1, 2, 3))
    area = torch.tensor([AREA[kind] for kind in scenes.shape[:, 0].tolist()])
    whole = area * (scenes.size[:, 0] / PIXEL) ** 2
    torch.testing.assert_close(inside, whole, rtol=1e-4, atol=0)
    for size in range(4):
        mine = scenes.position[scenes.concepts[:, 0, 1] == size]
        assert mine.abs().amax() > 0.98 * 3 * PIXEL
    assert not FIXED.scenes(MANY, seed=0).position.any()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("size", 0, "at least 1 pixel; got 0"),
        ("shapes", ("circle", "cube"), "circle, triangle, square, cross, each once; got .*cube"),
        ("shapes", (), "shapes are among circle"),
        ("sizes", ("small", "small"), "sizes are among tiny, .* each once; got"),
        ("colours", ("mauve",), "colours are among red, .*; got .*mauve"),
        ("areas", "odd", "areas are equal or authors; got 'odd'"),
        ("size_jitter", 0.3, "size_jitter is from 0 to 0.2; got 0.3"),
        ("colour_jitter", -0.1, "colour_jitter is from 0 to 0.1; got -0.1"),
        ("shift", float("nan"), "shift is from 0 to 3.31 pixels, so that no shape .*; got nan"),
        ("shift", 4.0, "shift is from 0 to 3.31 pixels, so that no shape is cut off; got 4.0"),
        ("images", 0, "at least 1 image; got 0"),
        ("among", (("circle", "large", "red"),) * 2, "named once"),
    ],
)
def test_a_law_that_makes_no_sense_is_refused(field: str, value: object, message: str):
    with pytest.raises(ValueError, match=message):
        replace(Shapes2D(), **{field: value})


@pytest.mark.parametrize("seed", [3, 4])
def test_few_images_are_the_first_of_a_seeds_world_each_about_as_often(seed: int):
    few, index = Shapes2D(images=10), torch.arange(20_000)
    found, first = few.scenes(index, seed), Shapes2D().scenes(torch.arange(10), seed)
    apart = (found.position - first.position.swapaxes(0, 1)).abs().sum(dim=-1)
    which = apart.argmin(dim=1)
    for name in ("size", "colour", "position", "concepts"):
        assert torch.equal(getattr(found, name), getattr(first, name)[which])
    # Drawn with replacement: as often as a die of ten sides, and in no order.
    often = torch.bincount(which, minlength=10)
    assert (often - 2000).abs().max() < 5 * (20_000 * 0.1 * 0.9) ** 0.5
    assert len(set(which[:10].tolist())) < 10
    assert torch.equal(few.image(found[:8]), Shapes2D().image(first[which[:8]]))


def test_seeds_draw_few_images_in_orders_of_their_own():
    first = [Shapes2D().scenes(torch.arange(10), seed).size for seed in (3, 4)]
    found = [Shapes2D(images=10).scenes(torch.arange(40), seed).size for seed in (3, 4)]
    orders = [(a - b.T).abs().argmin(dim=1) for a, b in zip(found, first, strict=True)]
    assert not torch.equal(*orders)
    # Which image comes is no matter of what it shows.
    among = Shapes2D().scenes(torch.arange(4000), 3).concepts[:, 0]
    drawn = Shapes2D(images=4000).scenes(torch.arange(4000), 3).concepts[:, 0]
    assert (among != drawn).any(dim=1).float().mean() > 0.9
