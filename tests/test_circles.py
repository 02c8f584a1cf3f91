from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from torch import Tensor

from recombine.scene import Scenes, compositions
from recombine.worlds.circles import Circles

MANY = torch.arange(4000)
LAW = {"colour_separation": 0.247, "size_separation": 0.4}


def of(name: str, concept: str, scenes: Scenes) -> Tensor:
    axis = [factor.name for factor in Circles().factors].index(name)
    return scenes.concepts[:, 0, axis] == Circles().factors[axis].index(concept)


def described(scenes: Scenes, size: int) -> np.ndarray:
    """Draw one image after another from the paper's own description, without noise."""
    line = np.linspace(-1, 1, size)
    images = []
    for scene in range(len(scenes)):
        x, y = scenes.position[scene, 0].tolist()
        inside = (line[None] - x) ** 2 + (line[:, None] - y) ** 2 < scenes.size[
            scene, 0
        ].item() ** 2
        mask = gaussian_filter(inside.astype(np.float64), 1.0)
        colour, backdrop = scenes.colour[scene, 0].numpy(), scenes.backdrop[scene, 0].numpy()
        images.append(mask * colour[:, None, None] + (1 - mask) * backdrop[:, None, None])
    return np.stack(images)


def test_the_four_classes_are_in_the_papers_order():
    named = [" ".join(which) for which in compositions(Circles().factors)]
    assert named == ["red big", "red small", "blue big", "blue small"]


@pytest.mark.parametrize("size", [32, 15])
def test_images_are_as_described(size: int):
    world = Circles(size=size, noise=0.0, **LAW)
    scenes = world.scenes(MANY[:40], seed=0)
    twin = torch.from_numpy(described(scenes, size)).float()
    torch.testing.assert_close(world.image(scenes), twin, atol=1e-5, rtol=0)


def test_smooth_circles_are_nearly_the_same_and_have_gradients():
    world = Circles(noise=0.0, smooth=True)
    scenes = world.scenes(MANY[:40], seed=0)
    plain = replace(world, smooth=False).image(scenes)
    assert (world.image(scenes) - plain).square().mean().sqrt() < 0.01
    size = scenes.size.clone().requires_grad_()
    world.image(replace(scenes, size=size)).sum().backward()
    assert size.grad is not None
    assert (size.grad != 0).all()


def test_colours_are_a_separation_apart():
    scenes = Circles(**LAW).scenes(MANY, seed=0)
    half, swing = 0.247 / 2, 0.247 / 8
    means = {
        "red": [0.5 + half, 0.5 - half, 0.5 - half],
        "blue": [0.5 - half, 0.5 - half, 0.5 + half],
    }
    for name, mean in means.items():
        colour = scenes.colour[of("colour", name, scenes), 0]
        offset = (colour - torch.tensor(mean)) / swing
        evenly_spread(offset)


def test_radii_are_a_separation_apart():
    scenes = Circles(**LAW).scenes(MANY, seed=0)
    for name, mean in (("big", 0.65), ("small", 0.25)):
        radius = scenes.size[of("size", name, scenes)]
        evenly_spread((radius - mean) / 0.15)
    assert scenes.size.min() > 0.1 - 1e-6
    narrow = Circles(size_separation=0.2).scenes(MANY, seed=0)
    evenly_spread((narrow.size[of("size", "big", narrow)] - 0.55) / 0.075)


def test_all_that_varies_is_spread_evenly_and_independent_of_all_else():
    scenes = Circles(**LAW).scenes(MANY, seed=0)
    plain = Circles(**LAW, spread=0.0).scenes(MANY, seed=0)
    swings = [
        scenes.position[:, 0] / 0.5,
        (scenes.backdrop[:, 0] - 0.9) / 0.1,
        (scenes.colour - plain.colour)[:, 0] / (0.247 / 8),
        (scenes.size - plain.size) / 0.15,
    ]
    evenly_spread(torch.cat(swings, dim=1))
    numbers = torch.cat([*swings, scenes.concepts[:, 0]], dim=1)
    off = torch.corrcoef(numbers.T) - torch.eye(numbers.shape[1])
    assert off.abs().max() < 4.5 / len(MANY) ** 0.5


def evenly_spread(offset: Tensor) -> None:
    """Check a uniform law on [-1, 1], with independent columns."""
    assert 0.99 < offset.abs().max() < 1 + 1e-4
    columns = offset.shape[1]
    torch.testing.assert_close(offset.mean(dim=0), torch.zeros(columns), atol=0.06, rtol=0)
    covariance = offset.T.cov().reshape(columns, columns)
    torch.testing.assert_close(covariance, torch.eye(columns) / 3, atol=0.03, rtol=0)


def test_without_spread_every_scene_is_its_class_mean():
    scenes = Circles(spread=0.0, **LAW).scenes(MANY[:100], seed=0)
    small_blue = of("size", "small", scenes) & of("colour", "blue", scenes)
    assert small_blue.any()
    assert scenes.size[small_blue].unique().tolist() == pytest.approx([0.25])
    assert len(scenes.colour[:, 0].unique(dim=0)) == 2
    assert len(scenes.position[:, 0].unique(dim=0)) == 100


def test_the_pixel_noise_is_normal_and_white():
    world = Circles(**LAW)
    scenes = world.scenes(MANY[:200], seed=0)
    clean = replace(world, noise=0.0).image(scenes)
    noisy = world.image(scenes)
    inside = (noisy < 1) & (noisy > 0)
    noise = (noisy - clean)[inside] / 1e-3
    # Where the backdrop nearly is white the clipping bends the law; that is under 3 % of pixels.
    assert noise.mean().abs() < 0.02
    assert noise.std().item() == pytest.approx(1, abs=0.02)
    assert (noise.abs() < 1).float().mean().item() == pytest.approx(0.6827, abs=0.01)
    assert (noise.abs() > 3).float().mean().item() == pytest.approx(0.0027, abs=0.001)
    field = (noisy - clean)[(clean < 0.99).flatten(1).all(dim=1)].flatten(1) / 1e-3
    assert len(field) > 100
    for step in (1, 32, 32 * 32, field.shape[1] // 2):
        product = field[:, step:] * field[:, :-step]
        assert product.mean().abs() < 4.5 / product.numel() ** 0.5


def test_the_noise_stays_when_objects_change_and_differs_between_scenes():
    world = Circles()
    scenes = world.scenes(MANY[:50], seed=0)
    corner = (slice(None), slice(None), slice(0, 2), slice(0, 2))
    far = replace(scenes, position=torch.full_like(scenes.position, 0.5), size=scenes.size * 0.5)
    gone = far.without(0)
    assert torch.equal(world.image(far)[corner], world.image(gone)[corner])
    noise = (world.image(gone) - scenes.backdrop[:, 0, :, None, None]).flatten(1)
    assert len(noise.unique(dim=0)) == 50
    assert (torch.corrcoef(noise) - torch.eye(50)).abs().max() < 0.15


@pytest.mark.parametrize("channel", [0, 1, 2])
def test_every_channel_of_the_backdrop_counts_for_the_noise(channel: int):
    world = Circles()
    scenes = world.scenes(MANY[:2], seed=0).without(0)
    backdrop = scenes.backdrop.clone()
    backdrop[1] = backdrop[0]
    backdrop[1, 0, channel] -= 2.0**-10
    image = world.image(replace(scenes, backdrop=backdrop))
    first, second = (image - backdrop[:, 0, :, None, None]).flatten(1)
    assert torch.corrcoef(torch.stack([first, second]))[0, 1].abs() < 0.1


def test_an_image_has_the_precision_of_its_scenes():
    world = Circles()
    scenes = world.scenes(MANY[:3], seed=0)
    precise = scenes._each(lambda z: z.double() if z.is_floating_point() else z)
    assert world.image(precise).dtype == torch.float64
    torch.testing.assert_close(world.image(precise).float(), world.image(scenes))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("size", 1, "at least 2 pixels; got 1"),
        ("colour_separation", 0.81, "above 0 and at most 0.8; got 0.81"),
        ("colour_separation", 0.0, "colour_separation is above 0"),
        ("size_separation", 0.41, "size_separation is above 0 and at most 0.4; got 0.41"),
        ("size_separation", float("nan"), "got nan"),
        ("spread", 1.5, "spread is from 0 to 1; got 1.5"),
        ("noise", -1.0, "noise is at least 0; got -1.0"),
        ("among", (("red", "big"),) * 2, "named once"),
    ],
)
def test_a_law_that_makes_no_sense_is_refused(field: str, value: object, message: str):
    with pytest.raises(ValueError, match=message):
        replace(Circles(), **{field: value})


def test_the_whole_sweep_of_the_papers_is_within_range():
    for separation in (0.1, 0.137, 0.8):
        colour = Circles(colour_separation=separation).scenes(MANY, seed=0).colour
        assert colour.min() >= 0
        assert colour.max() <= 1
