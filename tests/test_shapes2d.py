from dataclasses import replace

import pytest
import torch

from recombine.render.raster import CIRCLE, SQUARE, TRIANGLE
from recombine.scene import Scenes, compositions
from recombine.worlds.shapes2d import COLOURS, EXTENT, SIZES, FewShapes2D, Shapes2D

MANY = torch.arange(4000)
PLAIN = Shapes2D(size_jitter=0.0, colour_jitter=0.0, place_jitter=0.0)


@pytest.fixture(scope="module")
def scenes() -> Scenes:
    return Shapes2D().scenes(MANY, seed=0)


def test_the_digits_are_shape_size_colour():
    assert [factor.name for factor in Shapes2D().factors] == ["shape", "size", "colour"]
    assert compositions(Shapes2D().factors)[0b011] == ("circle", "small", "blue")
    assert compositions(Shapes2D().factors)[0b110] == ("triangle", "small", "red")


def test_without_jitter_a_scene_is_what_its_concepts_say():
    scenes = PLAIN.scenes(MANY, seed=0)
    for scene in range(64):
        shape, size, colour = (
            factor.concepts[concept]
            for factor, concept in zip(
                PLAIN.factors, scenes.concepts[scene, 0].tolist(), strict=True
            )
        )
        assert scenes.shape[scene, 0] == {"circle": CIRCLE, "triangle": TRIANGLE}[shape]
        assert scenes.size[scene, 0].item() == pytest.approx({"large": 2.6, "small": 1.6}[size])
        red_or_blue = {"red": [0.9, 0.1, 0.1], "blue": [0.1, 0.1, 0.9]}[colour]
        assert scenes.colour[scene, 0].tolist() == pytest.approx(red_or_blue)
    assert not scenes.position.any()


def test_jitter_fills_its_range_evenly_and_depends_on_nothing_else(scenes: Scenes):
    mean_size = torch.tensor(list(SIZES.values()))[scenes.concepts[..., 1]]
    mean_colour = torch.tensor(list(COLOURS.values()))[scenes.concepts[..., 2]]
    swings = torch.cat(
        [
            (scenes.size / mean_size - 1) / 0.1,
            (scenes.colour - mean_colour)[:, 0] / 0.05,
            scenes.position[:, 0] / (0.25 * (EXTENT - scenes.size)),
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


def test_a_shape_stays_inside_the_image():
    world = Shapes2D(place_jitter=1.0, size_jitter=0.2)
    scenes = world.scenes(MANY, seed=1)
    assert (scenes.position.abs() + scenes.size[..., None]).max() <= EXTENT * (1 + 1e-6)
    assert (scenes.position.abs() + scenes.size[..., None]).max() > EXTENT * 0.99


def test_a_large_shape_fills_half_of_the_image():
    first = PLAIN.scenes(MANY, seed=0)
    large_circle = (first.concepts[:, 0] == torch.tensor([0, 0, 0])).all(dim=-1)
    image = PLAIN.image(first[large_circle][:1])[0]
    drawn = (image[1] < 0.55).any(dim=0).sum().item()
    assert drawn == pytest.approx(28 * 2.6 / 5, abs=1)
    torch.testing.assert_close(image[:, 14, 14], torch.tensor([0.9, 0.1, 0.1]))
    torch.testing.assert_close(image[:, 0, 0], torch.ones(3))


def test_squares_can_take_part():
    world = Shapes2D(shapes=("circle", "square"))
    scenes = world.scenes(MANY[:50], seed=0)
    assert set(scenes.shape.flatten().tolist()) == {CIRCLE, SQUARE}
    assert world.factors[0].concepts == ("circle", "square")


def test_a_linear_probe_reads_every_factor():
    """The papers' probe must not be the bottleneck: at least 99 % joint on fresh draws."""
    world = Shapes2D()
    scenes = world.scenes(torch.arange(3000), seed=0)
    pixels = world.image(scenes).flatten(1)
    pixels = torch.cat([pixels, torch.ones(len(pixels), 1)], dim=1)
    digits = scenes.concepts[:, 0].float() * 2 - 1
    known, asked = slice(0, 2500), slice(2500, None)
    # Ridge regression in the dual: 2,500 draws are about as many as there are pixels.
    gram = pixels[known] @ pixels[known].T + 0.1 * torch.eye(2500)
    weight = pixels[known].T @ torch.linalg.solve(gram, digits[known])
    right = (pixels[asked] @ weight > 0) == (digits[asked] > 0)
    assert right.all(dim=1).float().mean() >= 0.99


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("size", 0, "at least 1 pixel; got 0"),
        ("shapes", ("circle", "cube"), "circle, triangle and square; got .*cube"),
        ("shapes", (), "circle, triangle and square"),
        ("size_jitter", 0.3, "size_jitter is from 0 to 0.2; got 0.3"),
        ("colour_jitter", -0.1, "colour_jitter is from 0 to 0.1; got -0.1"),
        ("place_jitter", float("nan"), "place_jitter is from 0 to 1.0; got nan"),
        ("among", (("circle", "large", "red"),) * 2, "named once"),
    ],
)
def test_a_law_that_makes_no_sense_is_refused(field: str, value: object, message: str):
    with pytest.raises(ValueError, match=message):
        replace(Shapes2D(), **{field: value})


@pytest.mark.parametrize("seed", [3, 4])
def test_few_images_are_the_first_of_a_seeds_world_each_about_as_often(seed: int):
    few, index = FewShapes2D(images=10), torch.arange(20_000)
    found, first = few.scenes(index, seed), Shapes2D().scenes(torch.arange(10), seed)
    apart = (found.size - first.size.T).abs()
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
    found = [FewShapes2D(images=10).scenes(torch.arange(40), seed).size for seed in (3, 4)]
    orders = [(a - b.T).abs().argmin(dim=1) for a, b in zip(found, first, strict=True)]
    assert not torch.equal(*orders)
    # Which image comes is no matter of what it shows.
    among = Shapes2D().scenes(torch.arange(4000), 3).concepts[:, 0]
    drawn = FewShapes2D(images=4000).scenes(torch.arange(4000), 3).concepts[:, 0]
    assert (among != drawn).any(dim=1).float().mean() > 0.8


def test_few_images_are_taken_from_the_same_world():
    varied = {"size_jitter": 0.0, "colour_jitter": 0.02, "place_jitter": 0.5, "size": 16}
    few = FewShapes2D(images=10, among=(("circle", "small", "red"),), **varied)
    assert few.endless == Shapes2D(among=few.among, **varied)
    assert FewShapes2D().images == 6_000
    # More than it has are all different there.
    assert len(few.endless.scenes(torch.arange(100), seed=0).position.unique()) > 150
    assert len(few.scenes(torch.arange(100), seed=0).position.unique()) <= 20


def test_no_images_are_refused():
    with pytest.raises(ValueError, match="at least 1 image; got 0"):
        FewShapes2D(images=0)
