"""What is read off an image of one circle: nothing is learned, and noise may hide it."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from recombine.measure.circles import (
    CircleReading,
    concept_mse,
    coordinates,
    mean_scenes,
    probe_errors,
    read,
    spotted,
)
from recombine.scene import compositions
from recombine.studies.concept_space import SEPARATIONS
from recombine.worlds.circles import Circles

CPU = torch.device("cpu")


@pytest.mark.parametrize("separation", SEPARATIONS)
def test_the_probe_knows_all_four_compositions_at_every_separation(separation: float):
    world = Circles(colour_separation=separation)
    found = probe_errors(world, 64, CPU)
    assert found["probe_colour_accuracy"].value == 1
    assert found["probe_size_accuracy"].value == 1
    assert found["probe_circles"].value > 0.97
    assert found["probe_circles"].n == 256


@pytest.mark.parametrize("which", compositions(Circles.factors))
def test_true_renders_are_at_their_corner(which: tuple[str, str]):
    world = Circles(colour_separation=SEPARATIONS[0])
    reading = read(world.image(mean_scenes(world, which, 64, CPU)), world)
    corner = torch.tensor([float(which[0] == "blue"), float(which[1] == "small")])
    assert reading.circle.all()
    torch.testing.assert_close(reading.way.mean(dim=0), corner, atol=0.12, rtol=0)
    found = coordinates(reading, "")
    assert (found["blue"].value, found["small"].value) == tuple(corner.tolist())
    assert concept_mse(reading).value == pytest.approx(float((corner - 1).square().mean()))


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("noise", lambda g: 0.5 + 0.3 * torch.randn(64, 3, 32, 32, generator=g)),
        ("grey", lambda g: torch.full((4, 3, 32, 32), 0.5)),
        ("not a number", lambda g: torch.full((4, 3, 32, 32), torch.nan)),
    ],
)
def test_what_is_no_circle_has_no_coordinates(
    name: str, image: Callable[[torch.Generator], Tensor], rng: torch.Generator
):
    # Far apart, so that it is not for its colour that nothing is read.
    reading = read(image(rng), Circles(colour_separation=0.8))
    assert not reading.circle.any()
    found = coordinates(reading, "")
    assert found["circles"].value == 0
    for axis in ("blue", "small"):
        assert (found[axis].value, found[axis].low, found[axis].high) == (0.5, 0, 1)
    assert "blue_way" not in found
    error = concept_mse(reading)
    assert (error.value, error.low, error.high) == (0.25, 0, 1)


def noisy(which: tuple[str, str], noise: float, rng: torch.Generator) -> tuple[Tensor, Circles]:
    world = Circles(colour_separation=0.137)
    image = world.image(mean_scenes(world, which, 256, CPU))
    return (image + noise * torch.randn(image.shape, generator=rng)).clamp(0, 1), world


@pytest.mark.parametrize("which", compositions(Circles.factors))
def test_what_is_read_through_noise_is_right(which: tuple[str, str], rng: torch.Generator):
    reading = read(*noisy(which, 0.15, rng))
    assert reading.circle.float().mean() > 0.9
    right = (reading.way > 0.5) == torch.tensor([which[0] == "blue", which[1] == "small"])
    assert right[reading.circle].all(dim=1).float().mean() > 0.96


def test_noise_that_hides_a_colour_hides_a_circle(rng: torch.Generator):
    image, world = noisy(("red", "small"), 0.35, rng)
    assert read(image, world).circle.float().mean() < 0.1
    # The same noise does not hide colours that are further apart.
    assert read(image, Circles(colour_separation=0.8)).circle.float().mean() > 0.8


def test_the_noise_of_a_pixel_is_estimated(rng: torch.Generator):
    image = 0.5 + 0.1 * torch.randn(64, 3, 64, 64, generator=rng)
    assert float(spotted(image).noise.mean()) == pytest.approx(3 * 0.1**2, rel=0.03)


def test_two_circles_are_not_one():
    world = Circles(among=(("red", "small"),), spread=0.0, noise=0.0)
    scenes = world.scenes(torch.arange(2), 0)
    left, right = (
        world.image(
            replace(
                scenes,
                position=torch.full_like(scenes.position, place),
                backdrop=torch.full_like(scenes.backdrop, 0.9),
            )
        )
        for place in (-0.5, 0.5)
    )
    assert read(left, world).circle.all()
    assert not read(torch.minimum(left, right), world).circle.any()


def test_samples_that_are_no_circles_do_not_count():
    way = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    circle = torch.tensor([True, True, True, False])
    found = coordinates(CircleReading(circle, way), "@x")
    assert (found["blue@x"].value, found["blue@x"].n) == (pytest.approx(2 / 3), 3)
    assert found["small@x"].value == pytest.approx(2 / 3)
    assert found["circles@x"].value == 0.75
    assert found["blue_way@x"].value == pytest.approx(2 / 3)
    assert concept_mse(CircleReading(circle, way)).value == pytest.approx(1 / 9)
