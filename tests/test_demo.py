"""The tour: the same request to every model, counted, on one page."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from recombine.experiment import Trained
from recombine.report.record import Record

from recombine import __main__ as command_line
from recombine import zoo
from recombine.commands import demo, tour
from recombine.condition import Conditioner, Grid
from recombine.measurement import Measurement
from recombine.render.camera import places
from recombine.report.page import Group, Picture, Section, page
from recombine.worlds.circles import Circles
from small_zoo import SMALL, bright_pixels, painted, shipped, use

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    return shipped(out, out / "zoo", ("grid_all", "grid_one", "grid_one_local"))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path) -> list[torch.Tensor]:
    """Models that leave out one object, a reader that sees it, and what the models were told."""
    told: list[torch.Tensor] = []

    def images(self: Trained, condition: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        told.append(torch.cat([condition.flatten(), torch.rand(3, generator=generator)]))
        return painted(condition, missing=1)

    use(folder, monkeypatch)
    monkeypatch.setattr(Trained, "images", images)
    monkeypatch.setattr(zoo, "detector", lambda: bright_pixels)
    monkeypatch.setattr(demo, "WORLDS", (Circles(),))
    monkeypatch.setattr(demo, "COUNTS", (1, 4))
    monkeypatch.chdir(tmp_path)
    return told


def test_the_tour_ends_in_one_page_and_a_figure(
    asked: list[torch.Tensor], capsys: pytest.CaptureFixture[str]
):
    assert command_line.main(["demo", "--device", "cpu", "--samples", "2"]) == 0
    output = capsys.readouterr()
    assert {path.name for path in Path("recombine-demo").iterdir()} == {"report.html", "figure.png"}
    text = Path("recombine-demo/report.html").read_text()
    # Three models, two numbers of objects, two images each, and a world.
    assert text.count("data:image/png;base64,") == 3 * 2 * 2 + 1
    assert not re.search(r'(?:src|href)="(?!data:|#)', text)
    for stop in tour.TOUR:
        assert stop.name in text
        assert stop.name in output.out
    assert "4 objects told, never seen" in text
    assert "3 of 4 hit, 3 found" in text
    assert "recombine-demo/report.html" in output.err
    with Image.open("recombine-demo/figure.png") as figure:
        assert figure.width > 500
        low = figure.height
    # Three images to a number of objects take two rows where two take one.
    assert command_line.main(["demo", "--device", "cpu", "--samples", "3"]) == 0
    with Image.open("recombine-demo/figure.png") as figure:
        assert figure.height > 1.4 * low


def test_every_model_is_asked_for_the_same_from_the_same_noise(asked: list[torch.Tensor]):
    assert command_line.main(["demo", "--device", "cpu", "--samples", "2", "--json"]) == 0
    assert len(asked) == 3
    assert all(torch.equal(asked[0], each) for each in asked[1:])


def test_the_demo_may_run_again_and_tells_json(
    asked: list[torch.Tensor], capsys: pytest.CaptureFixture[str]
):
    for _ in range(2):
        words = ["demo", "--device", "cpu", "--samples", "2", "--out", "d", "--json"]
        assert command_line.main(words) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["report"] == str(Path("d/report.html"))
        found = told["measurements"]
        assert found["hit_rate@4@grid_one"]["value"] == 0.75
        assert found["all_hit@4@grid_one"]["value"] == 0
        assert found["count@4@grid_one_local"]["value"] == 3
        assert found["hit_rate@1@grid_all"] == {"value": 0, "low": 0, "high": 0, "n": 2}
        # Nothing in a true render is as bright as what this reader looks for.
        assert found["count_ceiling@4@grid_all"]["value"] == 0


def test_what_cannot_be_toured_is_said_before_anything_is_written(
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


def test_requested_objects_are_in_cells_of_their_own_and_rendered_there():
    # The third scene of twelve objects has two in one cell.
    asked = tour.requests(SMALL, (2, 12), samples=4, seed=1, device=CPU)
    assert list(asked) == [2, 12]
    for count, request in asked.items():
        assert request.present.sum(dim=1).tolist() == [count] * 4
        assert request.condition.sum(dim=(1, 2)).tolist() == [count] * 4
        assert request.image.shape == (4, 3, 64, 64)
        cells = (request.place * 16).floor().long()
        assert all(
            condition[y, x] == 1
            for condition, row in zip(request.condition, cells, strict=True)
            for x, y in row.tolist()
        )


def test_requested_images_show_the_requested_scenes():
    (request,) = tour.requests(SMALL, (1,), samples=2, seed=3, device=CPU).values()
    world = replace(SMALL.world, objects=(1, 1))
    scenes = world.scenes(torch.arange(2), 3 + tour.NOT_TRAINED_ON)
    assert torch.equal(request.image, world.image(scenes))
    assert (places(scenes)[0] - request.place).abs().max() <= 1 / 32


def test_only_models_of_told_places_go_on_the_tour():
    strangers = (replace(SMALL, world=Circles()), replace(SMALL, conditioner=Conditioner()))
    for stranger in strangers:
        with pytest.raises(ValueError, match="the tour is for models of CLEVR that are told"):
            tour.requests(stranger, (1,), 2, 0, CPU)
    assert isinstance(SMALL.conditioner.encode, Grid)


def visit(**values: float) -> tour.Visit:
    found = {
        name.replace("_at_", "@"): Measurement(value, value, value, n=256, paper=7, grade="paper")
        for name, value in values.items()
    }
    record = Record("?", "recombine run x:y --seed 0", "Experiment()", 0, "an H200", 60.0, found)
    return tour.Visit(tour.TOUR[0], (), record)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ({"k_max": 7, "success_at_8": 0.1}, "composes, up to 7 objects"),
        ({"k_max": 4, "success_at_5": 0.1}, "composes, up to 4 objects"),
        ({"k_max": 3, "success_at_4": 0.1}, "fails beyond 3"),
        ({"k_max": 12}, "composes, to 12 objects and perhaps beyond"),
        ({"k_max": 2}, "fails beyond 2"),
        ({"success_at_4": 0.9}, ""),
    ],
)
def test_what_the_full_study_found_is_read_off_its_record(values, verdict: str):
    assert visit(**values).verdict == verdict


def test_the_story_is_told_only_where_it_is_true():
    good, bad = visit(k_max=7), visit(k_max=2)
    assert "repaired by a local network" in demo.story([good, bad, good])
    assert demo.story([good, good, good]) == ""
    assert demo.story([good, bad, visit(success_at_4=0.9)]) == ""


def test_the_full_study_is_quoted_from_the_records():
    section = demo.study([visit(k_max=7, success_at_8=0.1), visit(success_at_4=0.9)])
    assert section.table is not None
    first, second = section.table.rows
    assert first[1:4] == ("7 [7, 7], n = 256", "7", "paper")
    assert first[5] == "60 s on an H200"
    assert second[1:3] == ("not named", "")
    assert section.command == "recombine run x:y --seed 0"


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
