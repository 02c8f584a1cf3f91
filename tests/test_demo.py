"""The demo: the same scenes for every model, counted, on one page."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

from recombine import __main__ as command_line
from recombine import zoo
from recombine.commands import demo, tour
from recombine.measurement import Measurement
from recombine.render.camera import places
from recombine.report.page import Group, Picture, Section, page
from recombine.run import Model
from recombine.worlds.circles import Circles
from recombine.worlds.clevr import Clevr
from small_zoo import SMALL, bright_pixels, painted, shipped, use

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    return shipped(out, out / "zoo", ("grid_all", "grid_one", "grid_one_local"))


@pytest.fixture
def conditions(monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path) -> list[torch.Tensor]:
    """Models that leave out one object, a reader that sees it; returns what they were given."""
    given: list[torch.Tensor] = []

    def images(self: Model, condition: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        given.append(torch.cat([condition.flatten(), torch.rand(3, generator=generator)]))
        return painted(condition, missing=1)

    use(folder, monkeypatch)
    monkeypatch.setattr(Model, "images", images)
    monkeypatch.setattr(zoo, "detector", lambda: bright_pixels)
    monkeypatch.setattr(demo, "WORLDS", (Circles(),))
    monkeypatch.setattr(demo, "COUNTS", (1, 4))
    monkeypatch.chdir(tmp_path)
    return given


def test_the_demo_ends_in_one_page_and_a_figure(
    conditions: list[torch.Tensor], capsys: pytest.CaptureFixture[str]
):
    assert command_line.main(["demo", "--device", "cpu", "--samples", "2"]) == 0
    output = capsys.readouterr()
    assert {path.name for path in Path("recombine-demo").iterdir()} == {"report.html", "figure.png"}
    text = Path("recombine-demo/report.html").read_text()
    # Two numbers of objects: two marks, and two images of each of three models and of the truth.
    assert text.count("data:image/png;base64,") == 2 * (2 + 4 * 2) + 1
    assert not re.search(r'(?:src|href)="(?!data:|#)', text)
    for stop in (tour.TRUTH, *tour.TOUR):
        assert stop.label in text
        assert stop.name in output.out
    assert text.index("4 objects, training images had at most 3") < text.index("1 object, as in")
    assert "3 of 4 found (mean of 2 images)" in text
    assert "recombine-demo/report.html" in output.err
    with Image.open("recombine-demo/figure.png") as figure:
        # A row of true renders and one per model.
        assert figure.width > 500
        assert figure.height > 4 * 150


def test_every_model_draws_the_same_scenes_from_the_same_noise(conditions: list[torch.Tensor]):
    assert command_line.main(["demo", "--device", "cpu", "--samples", "2", "--json"]) == 0
    assert len(conditions) == 3
    assert all(torch.equal(conditions[0], each) for each in conditions[1:])


def test_the_demo_may_run_again_and_prints_json(
    conditions: list[torch.Tensor], capsys: pytest.CaptureFixture[str]
):
    for _ in range(2):
        words = ["demo", "--device", "cpu", "--samples", "2", "--out", "d", "--json"]
        assert command_line.main(words) == 0
        printed = json.loads(capsys.readouterr().out)
        assert printed["report"] == str(Path("d/report.html"))
        found = printed["measurements"]
        assert found["hit_rate@4@grid_one"]["value"] == 0.75
        assert found["all_hit@4@grid_one"]["value"] == 0
        assert found["count@4@grid_one_local"]["value"] == 3
        assert found["hit_rate@1@grid_all"] == {"value": 0, "low": 0, "high": 0, "n": 2}
        # Nothing in a true render is as bright as what this reader looks for.
        assert found["count@4@true_renders"]["value"] == 0


def test_what_is_wrong_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert command_line.main(["demo", "--samples", "1"]) == 2
    assert "--samples is at least 2; got 1" in capsys.readouterr().err
    shutil.copy(zoo.path("detector"), tmp_path)
    monkeypatch.setattr(zoo, "FOLDER", tmp_path)
    assert command_line.main(["demo", "--device", "cpu"]) == 2
    assert "zoo:grid_all is not one of detector" in capsys.readouterr().err
    assert not (tmp_path / "recombine-demo").exists()


def test_requested_objects_are_in_cells_of_their_own():
    # The third scene of twelve objects has two in one cell.
    for count, placed in zip(
        (2, 12), tour.requests(SMALL.training, (2, 12), 4, 1, CPU), strict=True
    ):
        request = placed.request
        assert request.present.sum(dim=1).tolist() == [count] * 4
        assert request.condition.sum(dim=(1, 2)).tolist() == [count] * 4
        assert request.image.shape == (4, 3, 64, 64)
        cells = (placed.centre * 16).floor().long()
        assert all(
            condition[y, x] == 1
            for condition, row in zip(request.condition, cells, strict=True)
            for x, y in row.tolist()
        )


def test_a_request_keeps_the_scenes_the_renders_and_where_each_object_really_is():
    (placed,) = tour.requests(SMALL.training, (2,), samples=2, seed=3, device=CPU)
    world = replace(SMALL.training.world, objects=(2, 2))
    scenes = world.scenes(torch.arange(2), 3 + tour.NOT_TRAINED_ON)
    assert torch.equal(placed.request.image, world.image(scenes))
    assert torch.equal(placed.centre, places(scenes)[0])
    # The condition says only the cell: its centre is near, and elsewhere.
    gap = (placed.centre - placed.request.place).abs()
    assert 0 < gap.max() <= 1 / 32


def test_the_part_in_use_holds_every_object_and_leaves_out_the_rest():
    world = tour.requests(SMALL.training, (1,), 2, 0, CPU) and SMALL.training.world
    assert isinstance(world, Clevr)
    left, upper, right, lower = tour.part_in_use(world)
    centres, _ = places(replace(world, objects=(9, 9)).scenes(torch.arange(40), 5))
    inside = torch.tensor([left, upper]) <= centres.amin(dim=(0, 1))
    assert inside.all()
    assert (centres.amax(dim=(0, 1)) <= torch.tensor([right, lower])).all()
    assert lower - upper < 0.7


def test_the_rings_of_a_picture_are_at_the_real_places_and_show_what_was_found():
    (placed,) = tour.requests(SMALL.training, (3,), samples=2, seed=3, device=CPU)
    images = painted(placed.request.condition, missing=1)
    answer = tour.Answer(placed, images, bright_pixels(images))
    assert answer.hit.sum(dim=1).tolist() == [2, 2]
    assert answer.note(2) == "2 of 3 found"
    assert answer.measurements["count"].value == 2
    picture = answer.picture(0, 8)
    left, upper = (int(end * 64) for end in placed.part[:2])
    for (x, y), hit in zip(placed.centre[0].tolist(), answer.hit[0].tolist(), strict=True):
        # To the right of the centre, on the ring; the crop begins at whole pixels.
        right, down = (x + 0.07) * 64 - left, y * 64 - upper
        red, green, _ = picture.getpixel((round(8 * right), round(8 * down)))
        assert (green > red) == hit


def test_objects_away_from_the_requested_places_are_counted_apart():
    (placed,) = tour.requests(SMALL.training, (1,), samples=2, seed=3, device=CPU)
    images = painted(placed.request.condition)
    images[0, :, 2, 2] = 1
    answer = tour.Answer(placed, images, bright_pixels(images))
    assert answer.note(1) == "1 of 1 found, 1 elsewhere"
    assert answer.note(2) == "1 of 1 found, 0.5 elsewhere"


def visit(k_max: int | None) -> tour.Visit:
    found = None if k_max is None else Measurement(k_max, k_max, k_max, n=256)
    known = tour.StudyNumbers(found, None, "7 (paper)", "60 s on an H200", "recombine run x:y")
    return tour.Visit(tour.TOUR[0], (), known)


def test_study_numbers_are_read_from_what_is_shipped_with_the_weights():
    found = tour.study_numbers("grid_all")
    assert found.k_max is not None
    assert found.k_max.value == 7
    assert found.published.startswith("7")
    assert found.trained.endswith(" min")
    assert found.locality is not None
    assert 0.9 < found.locality.value < 1


def test_the_shipped_models_end_the_story_as_the_page_tells_it():
    reached = [tour.study_numbers(stop.name).k_max for stop in tour.TOUR]
    assert all(found is not None for found in reached)
    assert [found.value > tour.SEEN for found in reached if found] == [True, False, True]


def test_the_full_study_is_a_table_of_models_and_not_of_true_renders():
    section = demo.study([tour.Visit(tour.TRUTH, ()), visit(7), visit(None)])
    first, second = section.rows
    assert first[1:] == ("7 [7, 7], n = 256", "7 (paper)", "60 s on an H200")
    assert second[1] == "undefined"
    assert section.command == "recombine run x:y"


def test_groups_of_pictures_have_a_title_and_a_note_and_are_escaped():
    tile = Picture.of(Image.new("RGB", (8, 8)), "words & more")
    groups = (Group("two <b>", "note <i>", (tile, tile)), Group("one", "alone", (tile,)))
    text = page("t", "l", [Section("s", groups=groups)])
    assert text.startswith("<!DOCTYPE html>")
    assert text.count("<figure>") == 2
    assert "two &lt;b&gt;" in text
    assert "note &lt;i&gt;" in text
    assert text.count('class="tiles"') == 1
    assert text.count("<img") == 3
    assert 'alt="words &amp; more"' in text


def test_marks_are_explained_once_a_section():
    mark = Picture.of(Image.new("RGB", (8, 8)), "object found")
    text = page("t", "l", [Section("s", key=(mark,), large=True), Section("u")])
    assert text.count('<ul class="key">') == 1
    assert text.count(" object found</li>") == 1
