"""The reader by rendering: exact on renders, equal to its naive twin, and it refuses debris."""

from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor

from recombine import zoo
from recombine.measure.fit import LIMITS, Fit, Fitted, Limits
from recombine.reader import FactorReader, Reading
from recombine.render.raster import AREA, CIRCLE, TRIANGLE, blurred, coverage, flat_scenes
from recombine.scene import SHAPES, Scenes, compositions, concept_rows
from recombine.worlds.clevr import Clevr
from recombine.worlds.debris import DEBRIS, debris
from recombine.worlds.shapes2d import COLOURS, EXTENT, FIXED, PAPER, PIXEL, Shapes2D

WORLD = Shapes2D()
FIT = Fit(WORLD)
CPU = torch.device("cpu")


def of_each(world: Shapes2D, seed: int = 5) -> Scenes:
    """One scene of every composition, with all jitters."""
    rows = concept_rows(world.factors, compositions(world.factors))
    scenes = world.scenes(torch.arange(30 * len(rows)), seed)
    same = (scenes.concepts[:, :1] == rows).all(dim=2)
    return scenes[same.int().argmax(dim=0)]


def alone(shape: int, size: Tensor, place: Tensor, colour: Tensor | None = None) -> Tensor:
    """Images of a shape; sizes and places in pixels."""
    red = torch.tensor([COLOURS["red"]]).expand(len(size), -1)
    scenes = flat_scenes(
        position=place * PIXEL,
        size=size * PIXEL,
        colour=red if colour is None else colour,
        shape=torch.full((len(size),), shape),
        concepts=torch.zeros(len(size), 3, dtype=torch.int64),
        backdrop=torch.ones(len(size), 3),
    )
    return WORLD.image(scenes)


def sub_pixels(count: int) -> Tensor:
    return 4 * torch.rand(count, 2, generator=torch.Generator().manual_seed(0)) - 2


@pytest.fixture(scope="module")
def scenes() -> Scenes:
    return of_each(WORLD)


@pytest.fixture(scope="module")
def clean(scenes: Scenes) -> Fitted:
    return FIT(WORLD.image(scenes))


def exact(found: Fitted, scenes: Scenes, side: int = 28) -> None:
    pixel = 2 * EXTENT / side
    assert found.rows.equal(scenes.concepts[:, 0])
    assert (found.place - scenes.position[:, 0] / pixel).abs().max() < 1e-3
    assert (found.size * pixel / scenes.size[:, 0] - 1).abs().max() < 1e-3
    assert (found.colour - scenes.colour[:, 0]).abs().max() < 1e-3


def test_clean_renders_are_fitted_exactly(scenes: Scenes, clean: Fitted):
    exact(clean, scenes)
    assert isinstance(clean, Reading)
    assert isinstance(FIT, FactorReader)
    assert clean.valid.all()
    assert clean.rms.max() < 1e-3
    assert clean.unexplained.max() < 1e-3
    assert clean.misfit.max() < 1e-2
    assert clean.second_colour.max() < 1e-2
    assert clean.blur.max() < 0.3
    assert (clean.pieces == 1).all()
    # The ink of a composition without jitter is its area.
    jitter = scenes.size[:, 0] / WORLD.radii[scenes.concepts[:, 0, 0], scenes.concepts[:, 0, 1]]
    assert (clean.ink / jitter**2 - 1).abs().max() < 0.02


@pytest.mark.parametrize("world", [PAPER, FIXED, Shapes2D(size=32, shapes=("square", "circle"))])
def test_every_shapes2d_is_read(world: Shapes2D):
    scenes = of_each(world)
    scenes = scenes[torch.arange(0, len(scenes), max(len(scenes) // 8, 1))]
    exact(Fit(world)(world.image(scenes)), scenes, world.size)


def test_a_little_blur_or_noise_changes_nothing(scenes: Scenes):
    images, chance = WORLD.image(scenes), torch.Generator().manual_seed(0)
    noise = torch.randn(images.shape, generator=chance)
    noisy = FIT((images + 0.05 * noise)[::3].clamp(0, 1))
    assert noisy.rows.equal(scenes.concepts[::3, 0])
    assert (noisy.rms / 0.05).min() > 0.6
    far = FIT(blurred(images, 1.5)[1::3])
    assert far.rows.equal(scenes.concepts[1::3, 0])
    assert far.blur.sub(1.5).abs().max() < 1e-2


def test_a_disc_is_never_a_triangle():
    size = torch.linspace(2, 9, 16)
    for shape, name in ((CIRCLE, "circle"), (TRIANGLE, "triangle")):
        colours = torch.tensor([COLOURS[each] for each in WORLD.colours])[torch.arange(16) % 6]
        found = FIT(alone(shape, size, sub_pixels(16), colours))
        assert (found.concepts[:, 0] == WORLD.shapes.index(name)).all()
        assert (found.size - size).abs().max() < 1e-3


@pytest.mark.parametrize("opacity", [1.0, 0.6])
def test_the_colour_depends_on_nothing_else(opacity: float):
    colours = torch.tensor([COLOURS[name] for name in WORLD.colours])
    pale = 1 - opacity * (1 - colours)
    size = torch.tensor([3.0, 4.5, 6.0, 8.0, 3.5, 7.0])
    images = alone(CIRCLE, size, sub_pixels(6), pale)
    for seen in (images, blurred(images, 1.5)):
        found = FIT(seen)
        assert found.concepts[:, 2].tolist() == [*range(6)]
        assert (found.colour_off < 0).all()
        # Paleness is no other colour, but it is not valid.
        assert ((found.opacity_off < 0) == (opacity == 1)).all()


def test_places_follow_whole_pixels():
    images = alone(CIRCLE, torch.tensor([4.0, 4.0]), sub_pixels(2))
    images = torch.cat([images, alone(TRIANGLE, torch.tensor([5.0, 5.0]), sub_pixels(2))])
    here, there = FIT(images), FIT(images.roll((-3, 2), dims=(2, 3)))
    assert (there.place - here.place - torch.tensor([2.0, -3.0])).abs().max() < 1e-4
    for name in ("size", "blur", "colour", "misfit"):
        assert (getattr(there, name) - getattr(here, name)).abs().max() < 1e-4
    assert here.concepts.equal(there.concepts)


def test_neighbouring_sizes_are_never_confused():
    scenes = of_each(WORLD.means)[torch.arange(0, 96, 6)]
    for jitter in (0.95, 1.05):
        found = FIT(WORLD.image(replace(scenes, size=scenes.size * jitter)))
        assert found.rows.equal(scenes.concepts[:, 0])
        assert (found.size_off.abs() < 0.01).all()
    assert (found.ink - 1.05**2).abs().max() < 0.02


@pytest.mark.parametrize("kind", DEBRIS)
def test_debris_is_refused(kind: str):
    found = FIT(debris(WORLD, kind, torch.arange(6), 17))
    assert not found.valid.any()
    assert (found.rows == -1).all()


def test_a_shape_that_the_world_lacks_is_refused():
    world = Shapes2D(shapes=("circle", "triangle"))
    squares = alone(SHAPES.index("square"), torch.tensor([3.0, 7.2]), sub_pixels(2))
    found = Fit(world)(squares)
    assert (found.margin < 0).all()
    assert not found.valid.any()


def test_each_limit_refuses_alone(clean: Fitted):
    for each in fields(Limits):
        most = getattr(LIMITS, each.name)
        sign = -1 if each.name == "margin" else 1
        for off, good in ((0.99, sign > 0), (1.01, sign < 0)):
            value = torch.full_like(clean.size, most * off)
            marred = replace(clean, **{each.name: value})
            assert marred.valid.all() if good else not marred.valid.any()
    value = torch.full_like(clean.size, LIMITS.misfit * 1.5)
    marred = replace(clean, misfit=value)
    assert marred.within(2.0).all()
    assert not marred.within(1.0).any()
    weak = replace(clean, margin=torch.full_like(clean.size, LIMITS.margin * 1.5))
    assert weak.within(1.0).all()
    assert not weak.within(0.5).any()
    assert LIMITS.scaled(2.0).cut == 2 * LIMITS.cut


def test_what_is_found_of_a_shape_with_a_flaw():
    """One more dark pixel of the same colour, and a green one, are seen for what they are."""
    images = alone(CIRCLE, torch.full((4,), 5.0), torch.zeros(4, 2))
    images[1, 1:, 2:5, 2:5] = 0.1
    images[1, 0, 2:5, 2:5] = 0.9
    images[2, :, 13:16, 13:16] = torch.tensor(COLOURS["green"])[:, None, None]
    images[3, :, 13:16, 13:16] = 1.0
    plain, spotted, coloured, holed = (FIT(images[k : k + 1]) for k in range(4))
    assert plain.pieces.item() == 1
    assert holed.misfit.item() > 0.5
    assert spotted.pieces.item() == 2
    assert spotted.misfit.item() == pytest.approx(1.0, abs=0.05)
    assert coloured.second_colour.item() > 0.3
    assert spotted.second_colour.item() < 0.05
    # 9 pixels of 78.5 more, all of it not explained.
    assert spotted.unexplained.item() == pytest.approx(9 / (9 + 25 * AREA[CIRCLE]), rel=0.1)
    cut = FIT(alone(CIRCLE, torch.tensor([5.0]), torch.tensor([[10.0, 0.0]])))
    assert cut.cut.item() == pytest.approx(1.0, abs=1e-3)


def test_it_equals_a_search_of_a_fine_grid():
    world = Shapes2D(shift=1.0)
    scenes = world.scenes(torch.arange(20), 9)
    images = world.image(scenes)
    found = Fit(world)(images)
    missing, best = (1 - images.double()).flatten(2), {}
    line = torch.arange(-1.25, 1.3, 0.25)
    for number, name in enumerate(world.shapes):
        log_size = torch.arange(0.9, 2.45, 0.05)
        right, down, size = torch.cartesian_prod(line, line, log_size).unbind(dim=1)
        grid = flat_scenes(
            position=torch.stack([right, down], dim=1) * PIXEL,
            size=size.exp() * PIXEL,
            colour=torch.zeros(len(size), 3),
            shape=torch.full((len(size),), SHAPES.index(name)),
            concepts=torch.zeros(len(size), 3, dtype=torch.int64),
            backdrop=torch.ones(len(size), 3),
        )
        shares = coverage(grid, 28, EXTENT).double().flatten(1)
        power = shares.square().sum(dim=1)
        for k, image in enumerate(missing):
            left = image.square().sum() - (image @ shares.T).square().sum(dim=0) / power
            least, at = left.min(dim=0)
            if k not in best or least < best[k][0]:
                best[k] = (least, number, size[at].exp(), right[at], down[at])
    for k, (least, number, size, right, down) in best.items():
        assert found.concepts[k, 0] == number == scenes.concepts[k, 0, 0]
        assert (found.size[k] / size).log().abs() < 0.05
        assert (found.place[k] - torch.stack([right, down])).abs().max() < 0.25
        assert found.rms[k] ** 2 * missing[0].numel() <= least + 1e-6


def test_an_answer_does_not_depend_on_the_batch():
    scenes = WORLD.scenes(torch.arange(5), 3)
    images = torch.cat([WORLD.image(scenes), debris(WORLD, "star", torch.arange(3), 3)])
    images = images + 0.02 * torch.randn(images.shape, generator=torch.Generator().manual_seed(0))
    whole, backward = FIT(images), FIT(images.flip(0))
    parts = [FIT(part) for part in images.split([1, 2, 5])]
    for each in fields(Fitted):
        if each.name == "limits":
            continue
        value = getattr(whole, each.name)
        assert value.equal(getattr(backward, each.name).flip(0)), each.name
        assert value.equal(torch.cat([getattr(part, each.name) for part in parts])), each.name


def test_a_model_gives_a_fit_of_its_world():
    assert zoo.reader("fit", CPU, PAPER) == Fit(PAPER)
    with pytest.raises(ValueError, match="reader 'fit' reads Shapes2D; got clevr"):
        zoo.reader("fit", CPU, Clevr())


@pytest.mark.parametrize(
    ("images", "words"),
    [
        (torch.rand(2, 3, 27, 28), "sees images of 3 x 28 x 28; got 3 x 27 x 28"),
        (torch.rand(2, 1, 28, 28), "sees images of 3 x 28 x 28; got 1 x 28 x 28"),
        (torch.zeros(2, 3, 28, 28, dtype=torch.uint8), "floats from 0 to 1; got torch.uint8"),
        (torch.full((2, 3, 28, 28), torch.nan), "image 0 does not"),
        (torch.rand(0, 3, 28, 28), "at least 1 image"),
    ],
)
def test_other_images_are_refused(images: Tensor, words: str):
    with pytest.raises(ValueError, match=words):
        FIT(images)


def test_a_factor_of_limits_is_above_0():
    with pytest.raises(ValueError, match="a factor above 0; got 0"):
        LIMITS.scaled(0.0)
