"""Is what the probe takes for red nearer to red, or to blue? (benchmarks/colour.py)"""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from benchmarks.colour import (
    ASKED,
    CPU,
    SAMPLES,
    WORLD,
    between,
    blueness,
    changes,
    coloured,
    main,
    read,
    settled,
)

from recombine import zoo
from recombine.experiments import still
from recombine.experiments.objective import fresh, means
from recombine.models.probe import Probe
from recombine.scene import concept_rows
from recombine.split import BINARY
from recombine.worlds.shapes2d import Shapes2D

NUMBERS = torch.arange(200)


def test_blueness_is_that_of_the_colour_whatever_the_shape_its_size_and_its_place():
    world = Shapes2D(colour_jitter=0.1)
    scenes = world.scenes(NUMBERS, seed=1)
    red, _, blue = (1 - scenes.colour[:, 0]).unbind(dim=1)
    assert len(scenes.shape.unique()) == 2
    torch.testing.assert_close(blueness(world.image(scenes)), red / (red + blue))


def test_between_red_and_blue_it_goes_from_a_tenth_to_nine_tenths_in_equal_steps():
    torch.testing.assert_close(blueness(between(9)), torch.linspace(0.1, 0.9, 9))


def test_by_light_colours_change_half_way_and_shapes_are_the_probes():
    rows = read(between(10))
    assert rows["_light"][:, 2].tolist() == [0] * 5 + [1] * 5
    assert torch.equal(rows["_light"][:, :2], rows[""][:, :2])
    # True small triangles, whatever their colour.
    assert rows[""][:, 0].tolist() == rows[""][:, 1].tolist() == [1] * 10


def test_it_is_read_by_the_readers_that_are_named():
    images = between(10)
    rows = read(images)
    for who, name in (("", "probe"), ("_linear", "probe_linear")):
        said = zoo.probe(name, Probe(linear=who == "_linear"), torch.device("cpu"))(images)
        assert torch.equal(rows[who], said)
    # Which the test would not notice if both said the same.
    assert not torch.equal(rows[""], rows["_linear"])


@pytest.mark.parametrize(
    ("says", "at"),
    [
        ([False, False, True, False, True, True], 0.5),
        ([True] * 6, 0.1),
        ([False] * 6, 1.0),
        ([True] * 5 + [False], 1.0),
    ],
)
def test_a_reader_changes_its_mind_where_it_says_blue_from_there_on(says: list[bool], at: float):
    assert settled([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], says) == at


def test_where_readers_change_their_minds():
    found = {name: each.value for name, each in changes().items()}
    # The first of 101 steps beyond the middle, which is not blue itself but for rounding.
    assert found["changes_at_light"] == pytest.approx(0.5, abs=0.0081)
    assert found["changes_at_nearest"] == pytest.approx(0.5, abs=0.0241)
    # Of true triangles both trained readers are right to within a tenth.
    assert found["changes_at"] == pytest.approx(0.5, abs=0.1)
    assert found["changes_at_linear"] == pytest.approx(0.5, abs=0.1)


def drawing(images: torch.Tensor) -> SimpleNamespace:
    """Return a model that draws these, told small blue triangles and nothing else."""
    experiment = still.vq_seen
    wanted = experiment.conditioner.encode(means(WORLD, ASKED, SAMPLES, CPU))

    def drawn(told: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        assert torch.equal(told, wanted)
        return images

    return SimpleNamespace(experiment=experiment, images=drawn)


def test_of_samples_that_go_from_red_to_blue_half_are_blue_by_light():
    images = between(SAMPLES)
    measured = coloured(drawing(images), torch.Generator().manual_seed(0))
    found = {name: each.value for name, each in measured.items()}
    assert found["blue_light"] == found["accuracy_light@level2"] == 0.5
    assert found["blueness"] == pytest.approx(0.5)
    red = read(images)[""][:, 2] == 0
    assert found["blue"] == found["accuracy@level2"]
    assert found["blue"] == pytest.approx(1 - int(red.sum()) / SAMPLES)
    assert found["blueness_doubted"] == pytest.approx(float(blueness(images)[red].mean()))
    # The probe says red of the first `red`, of which the first half of all are.
    assert found["blue_doubted"] == pytest.approx(1 - SAMPLES / 2 / int(red.sum()))


def test_what_is_blue_and_no_small_triangle_is_not_right():
    others = [("circle", "small", "blue"), ("triangle", "large", "blue"), ASKED, ASKED]
    images = torch.cat([WORLD.image(means(WORLD, each, SAMPLES // 4, CPU)) for each in others])
    found = coloured(drawing(images), torch.Generator().manual_seed(0))
    assert found["blue"].value == found["blue_light"].value == 1.0
    assert found["accuracy@level2"].value == found["accuracy_light@level2"].value == 0.5


def test_light_beyond_what_an_image_has_does_not_count():
    images = between(3)[-1:].expand(SAMPLES, -1, -1, -1)
    beyond = torch.where(images == 1, 1.5, images)
    found = coloured(drawing(beyond), torch.Generator().manual_seed(0))
    assert found["blueness"].value == pytest.approx(0.9)


def test_an_image_with_nothing_in_it_is_not_blue():
    assert blueness(torch.ones(2, 3, 28, 28)).tolist() == [0, 0]


def test_of_blue_samples_none_is_doubted():
    images = between(3)[-1:].expand(SAMPLES, -1, -1, -1)
    found = coloured(drawing(images), torch.Generator().manual_seed(0))
    assert found["accuracy@level2"].value == found["blue"].value == 1.0
    assert "blue_doubted" not in found


def test_what_is_neither_shipped_nor_a_run_is_named(tmp_path: Path):
    with pytest.raises(ValueError, match="still:vq is neither zoo:NAME nor a run of seed 7"):
        main(tmp_path / "out.json", "still:vq", 7)
    with pytest.raises(ValueError, match="does not draw red and blue shapes"):
        main(tmp_path / "out.json", "zoo:grid_one")
    assert not list(tmp_path.iterdir())


def test_nearest_renders_are_those_of_the_world():
    moving = Shapes2D(among=BINARY.seen)
    images = fresh(moving, ASKED, 16, CPU)
    wanted = concept_rows(BINARY.factors, (ASKED,))
    assert (read(images, moving)["_nearest"] == wanted).all()
    assert not (read(images)["_nearest"] == wanted).all()
