"""Drawing at chosen places, and measuring shipped models with chosen settings."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image, ImageChops

from recombine import __main__ as command_line
from recombine import load, zoo
from recombine.commands import console
from recombine.commands.console import image_progress
from recombine.report.picture import Ring, enlarged
from recombine.run import Model
from recombine.run.devices import multiplies_bf16
from small_zoo import NAME, SIZE, Brightness, bright_pixels, painted, shipped, use

Said = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    return shipped(out, out / "zoo")


@pytest.fixture(autouse=True)
def _small(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use(folder, monkeypatch)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def run(*words: str) -> tuple[int, str, str]:
        code = command_line.main([*words, "--device", "cpu"])
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


@pytest.fixture
def obedient(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Models that draw at every requested place but one, and a reader of what they draw."""

    def images(self: Model, condition: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return painted(condition, missing=1)

    monkeypatch.setattr(Model, "images", images)
    monkeypatch.setattr(zoo, "names", lambda folder=None: ["detector", "grid_all"])
    monkeypatch.setattr(zoo, "detector", lambda: bright_pixels)


def opened(path: str) -> Image.Image:
    with Image.open(path) as picture:
        return picture.copy()


# sample


def test_a_sample_is_a_picture_with_every_pixel_enlarged(said: Said):
    words = ["sample", "zoo:grid_all", "--at", "0.2,0.4", "0.7,0.6"]
    code, out, err = said(*words, "--out", "x.png")
    assert code == 0
    assert out == ""
    assert "x.png is written: 1 image, conditioned on 2 places" in err
    assert opened("x.png").size == (4 * SIZE, 4 * SIZE)
    said(*words, "--scale", "1", "--out", "plain.png")
    plain = opened("plain.png")
    assert plain.size == (SIZE, SIZE)
    assert opened("x.png").resize((SIZE, SIZE), Image.Resampling.NEAREST).tobytes() == (
        plain.tobytes()
    )


def test_several_samples_become_a_sheet_and_the_first_ones_stay(said: Said):
    words = ["sample", "zoo:grid_all", "--at", "0.2,0.4", "--scale", "1"]
    said(*words, "--out", "one.png", "--seed", "5")
    said(*words, "--out", "five.png", "--seed", "5", "--count", "5")
    one, five = opened("one.png"), opened("five.png")
    assert five.size == (3 * (SIZE + 2) - 2, 2 * (SIZE + 2) - 2)
    # The last digits of a sum depend on how many images are drawn together.
    apart = ImageChops.difference(five.crop((0, 0, SIZE, SIZE)), one)
    assert max(high for _, high in apart.getextrema()) <= 2
    said(*words, "--out", "other.png", "--seed", "6")
    assert opened("other.png").tobytes() != one.tobytes()


def test_places_and_steps_matter(said: Said):
    pictures = set()
    for number, words in enumerate([["0.2,0.4"], ["0.7,0.6"], ["0.2,0.4", "--steps", "3"]]):
        said("sample", "zoo:grid_all", "--at", *words, "--out", f"{number}.png")
        pictures.add(opened(f"{number}.png").tobytes())
    assert len(pictures) == 3


def test_rings_show_hits_and_misses_around_the_requested_places(said: Said, obedient: None):
    requested = [(0.26, 0.13), (0.74, 0.9)]
    words = ["--at", *(f"{x},{y}" for x, y in requested), "--mark", "--scale", "8"]
    assert said("sample", "zoo:grid_all", *words, "--out", "x.png")[0] == 0
    picture = opened("x.png")
    side = 8 * SIZE
    assert picture.size == (side, side)
    # On the rings, right of the place itself; the first object was not drawn.
    (missed, found) = (
        picture.getpixel((round((x + 0.07) * side), round(y * side))) for x, y in requested
    )
    assert missed[0] > 200 > missed[2]
    assert found[1] > 200 > found[0]
    # Between a place and its ring nothing is drawn over.
    assert picture.getpixel((round(0.28 * side), round(0.13 * side))) == (0, 0, 0)


def test_what_was_drawn_is_counted_in_json(said: Said, obedient: None):
    words = ["--at", "0.1,0.2", "0.5,0.5", "0.9,0.3", "--count", "2", "--out", "x.png", "--json"]
    code, out, _ = said("sample", "zoo:grid_all", *words)
    printed = json.loads(out)
    assert code == 0
    assert printed["subject"] == "zoo:grid_all"
    assert printed["out"] == "x.png"
    assert printed["measurements"]["count"] == {"value": 2.0, "low": 2.0, "high": 2.0, "n": 2}
    assert printed["measurements"]["hit_rate"]["value"] == pytest.approx(2 / 3)
    assert printed["requested"] == [
        {"x": 0.1, "y": 0.2},
        {"x": 0.5, "y": 0.5},
        {"x": 0.9, "y": 0.3},
    ]
    assert printed["condition"] == [
        {"x": 0.09375, "y": 0.21875},
        {"x": 0.53125, "y": 0.53125},
        {"x": 0.90625, "y": 0.28125},
    ]
    assert [each["image"] for each in printed["images"]] == ["x.png#0", "x.png#1"]
    first = printed["images"][0]["objects"][0]
    assert first["x"] == pytest.approx(0.90625, abs=1 / SIZE)
    assert first["y"] == pytest.approx(0.28125, abs=1 / SIZE)
    assert {"shape", "colour", "size", "material", "confidence"} <= first.keys()


def test_one_sample_has_a_count_without_an_interval(said: Said, obedient: None):
    _, out, err = said("sample", "zoo:grid_all", "--at", "0.1,0.2", "0.5,0.5", "--out", "x.png")
    lines = out.splitlines()
    assert lines[0] == "x.png: 1 object"
    assert lines[-2:] == ["count 1, n = 1", "hit_rate 0.5, n = 1"]
    assert "1 image, conditioned on 2 places" in err


def test_two_places_in_one_cell_are_one_object_in_the_condition(said: Said, obedient: None):
    words = ["--at", "0.20,0.4", "0.6,0.6", "0.21,0.41", "--out", "x.png", "--json"]
    code, out, err = said("sample", "zoo:grid_all", *words)
    assert code == 0
    line = "0.20,0.4 and 0.21,0.41 lie in one cell: the condition holds one object there\n"
    assert err == line
    assert json.loads(out)["requested"] == [{"x": 0.2, "y": 0.4}, {"x": 0.6, "y": 0.6}]


def test_the_far_border_belongs_to_the_image(said: Said, obedient: None):
    _, out, _ = said("sample", "zoo:grid_all", "--at", "1,1", "0,0", "--out", "x.png", "--json")
    condition = json.loads(out)["condition"]
    assert condition == [{"x": 31 / 32, "y": 31 / 32}, {"x": 1 / 32, "y": 1 / 32}]


def test_a_list_holds_only_so_many_places(said: Said):
    thirteen = [f"0.{number:02},0.5" for number in range(1, 14)]
    code, _, err = said("sample", "zoo:list_all", "--at", *thirteen, "--out", "x.png")
    assert code == 2
    assert err == "recombine: a list of length 12 cannot hold 13 objects\n"
    assert not Path("x.png").exists()
    assert said("sample", "zoo:list_all", "--at", *thirteen[:12], "--out", "x.png")[0] == 0


def test_the_condition_may_be_of_no_object(said: Said, obedient: None):
    code, out, _ = said("sample", "zoo:grid_all", "--out", "x.png", "--json")
    assert code == 0
    assert json.loads(out)["measurements"].keys() == {"count"}


def test_own_runs_are_drawn_with_too(said: Said, folder: Path):
    run = folder.parent / NAME / "grid_all" / "seed0"
    named = [f"{NAME}:grid_all", "--runs", str(folder.parent)]
    for words in (named, [str(run)], [str(run / "checkpoint-4.safetensors")]):
        assert said("sample", *words, "--at", "0.5,0.5", "--out", "x.png", "--force")[0] == 0


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--at", "0.2,1.4"], "0.2,1.4 lies outside the image; x and y are from 0 to 1"),
        (["--at", "1.01,0"], "1.01,0 lies outside the image; x and y are from 0 to 1"),
        (["--at", "0.2"], "a place is X,Y such as 0.2,0.4; got '0.2'"),
        (["--at", "0.2,0.4,0.6"], "a place is X,Y such as 0.2,0.4; got '0.2,0.4,0.6'"),
        (["--at", "a,b"], "a place is X,Y such as 0.2,0.4; got 'a,b'"),
        (["--at", "nan,0.5"], "nan,0.5 lies outside the image; x and y are from 0 to 1"),
        (["--count", "0"], "--count is from 1 to 1024; got 0"),
        (["--scale", "0"], "--scale is from 1 to 16; got 0"),
        (["--steps", "0"], "a sampler takes at least 1 step; got 0"),
        (["--out", "x.gif"], "--out is a .png file or a folder; got x.gif"),
        (["--out", "no/x.png"], "no is no folder; expected one to write --out into"),
    ],
)
def test_what_cannot_be_drawn_is_refused(words: list[str], complaint: str, said: Said):
    code, out, err = said("sample", "zoo:grid_all", *words)
    assert (code, out, err) == (2, "", f"recombine: {complaint}\n")
    assert not list(Path.cwd().iterdir())


def test_a_place_left_of_the_image_is_named(said: Said):
    code, _, err = said("sample", "zoo:grid_all", "--at=-0.2,0.4")
    assert code == 2
    assert "-0.2,0.4 lies outside the image" in err


@pytest.mark.parametrize(
    ("subject", "complaint"),
    [
        ("zoo:circles", "zoo:circles is not conditioned on places; --at is not for it"),
        ("zoo:grid_al", "; did you mean grid_all?"),
        ("no/where", "no/where is not there; expected zoo:NAME, STUDY:CELL, a run's folder"),
    ],
)
def test_a_model_that_is_not_conditioned_on_places_is_named(
    subject: str, complaint: str, said: Said
):
    code, _, err = said("sample", subject, "--at", "0.5,0.5")
    assert code == 2
    assert complaint in err
    assert err.count("\n") == 1


def test_a_ring_is_around_its_place_and_leaves_it_as_it_is():
    black = Image.new("RGB", (50, 30))
    picture = enlarged(black, 4, [Ring((0.2, 0.5), True)])
    assert picture.size == (200, 120)
    assert picture.getpixel((40, 60)) == (0, 0, 0)
    for x, y in [(40 + 14, 60), (40, 60 - 14), (40 - 14, 60)]:
        assert picture.getpixel((x, y))[1] > 150
    assert picture.getpixel((100, 24)) == (0, 0, 0)


def test_a_missed_place_is_dashed_so_that_colour_is_not_all():
    grey = Image.new("RGB", (40, 40), "#808080")
    lines = []
    for found in (True, False):
        picture = enlarged(grey, 10, [Ring((0.5, 0.5), found)])
        angles = torch.linspace(0, 2 * torch.pi, 360).tolist()
        around = [(200 + 28 * math.cos(a), 200 + 28 * math.sin(a)) for a in angles]
        drawn = [picture.getpixel((int(x), int(y))) != (128, 128, 128) for x, y in around]
        lines.append(sum(drawn) / len(drawn))
    whole, dashed = lines
    assert whole == 1
    assert 0.45 < dashed < 0.85


def test_a_part_is_cut_at_whole_pixels_and_pixels_stay_sharp():
    image = Image.new("RGB", (10, 10))
    image.putpixel((3, 5), (255, 255, 255))
    part = enlarged(image, 3, part=(0.25, 0.41, 0.99, 0.8))
    assert part.size == (3 * 8, 3 * 4)
    bright = [(x, y) for x in range(24) for y in range(12) if part.getpixel((x, y))[0]]
    assert bright == [(x, y) for x in (3, 4, 5) for y in (3, 4, 5)]


# measure


def test_a_shipped_model_is_measured_with_chosen_settings(said: Said):
    words = ["--what", "length", "--samples", "2", "--objects", "1-3", "--steps", "1", "--json"]
    code, out, err = said("measure", "zoo:grid_all", *words)
    printed = json.loads(out)
    assert code == 0
    bf16 = " in bf16" if multiplies_bf16() else ""
    assert err == f"quick on a CPU (sampler: steps 1 for 2{bf16}); --full measures as declared\n"
    assert printed["quick"] == [f"sampler: steps 1 for 2{bf16}"]
    assert printed["subject"] == "zoo:grid_all"
    assert {name: each["n"] for name, each in printed["measurements"].items()} == {
        "count@1": 2,
        "count@2": 2,
        "count@3": 2,
    }


def test_without_settings_all_is_measured_as_declared(said: Said):
    printed = json.loads(said("measure", "zoo:grid_all", "--json")[1])["measurements"]
    assert {name: each["n"] for name, each in printed.items()} == {
        "count@1": 3,
        "count@2": 3,
        "steps": 1,
    }
    assert printed["steps"]["value"] == 2
    seven = json.loads(said("measure", "zoo:grid_all", "--steps", "7", "--json")[1])["measurements"]
    assert seven["steps"]["value"] == 7


def test_on_a_cpu_settings_are_quick_and_said_unless_all_is_wanted(
    said: Said, monkeypatch: pytest.MonkeyPatch
):
    def quick(self: Brightness) -> Brightness:
        return replace(self, samples=2)

    monkeypatch.setattr(Brightness, "quick", quick, raising=False)
    monkeypatch.setattr(Brightness, "size", property(lambda self: self.samples), raising=False)
    _, out, err = said("measure", "zoo:grid_all", "--json")
    assert json.loads(out)["measurements"]["count@1"]["n"] == 2
    assert "length: samples 2 for 3" in err
    assert json.loads(out)["quick"][-1] == "length: samples 2 for 3"
    _, out, err = said("measure", "zoo:grid_all", "--samples", "5", "--json")
    assert json.loads(out)["measurements"]["count@1"]["n"] == 5
    assert "samples" not in err
    _, out, err = said("measure", "zoo:grid_all", "--full", "--json")
    assert json.loads(out)["measurements"]["count@1"]["n"] == 3
    assert "quick" not in json.loads(out)
    assert err == ""


def test_the_declared_sampler_is_there_for_reference(said: Said):
    words = ["measure", "zoo:grid_all", "--what", "length", "--json"]
    value = {}
    for name in ("quick", "declared"):
        printed = json.loads(said(*words, "--sampler", name)[1])
        value[name] = printed["measurements"]["count@1"]["value"]
    assert value["quick"] != value["declared"]
    full = json.loads(said(*words, "--full")[1])
    assert full["measurements"]["count@1"]["value"] == value["declared"]


def test_what_takes_long_says_so_first(said: Said, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(console, "LONG", 0)
    said("sample", "zoo:grid_all", "--out", "x.png", "--count", "2")
    _, out, err = said("measure", "zoo:grid_all", "--what", "steps", "--json")
    assert "zoo:grid_all takes about 0.0 s here, by a short warm-up" in err
    assert json.loads(out)


def test_the_time_of_samples_is_that_of_their_evaluations(monkeypatch: pytest.MonkeyPatch):
    model = load("zoo:grid_all").of_steps(6)
    monkeypatch.setattr("recombine.run.model.warm", lambda work: work() * 0 + 0.5)
    condition = torch.zeros(10, 16, 16)
    # Four images in half a second, eleven evaluations each, ten images.
    assert model.seconds(condition) == pytest.approx(0.5 / 4 * 11 * 10)
    assert model.seconds(condition[:2]) == pytest.approx(0.5 * 11)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["zoo:grid_all", "--what", "lenght"], "measurement 'lenght' is not one of length,"),
        (["zoo:grid_all", "--what", "lenght"], "did you mean length?"),
        (["zoo:list_all", "--samples", "3"], "steps has no samples to set; got 3"),
        (["zoo:list_all", "--objects", "3"], "steps has no objects to set; got (3,)"),
        (["zoo:grid_all", "--samples", "0"], "--samples is at least 1; got 0"),
        (["zoo:grid_all", "--objects", "3-1"], "expected whole numbers such as 3,6-9"),
        (["zoo:nothing"], "zoo:nothing is not one of circles, grid_all,"),
    ],
)
def test_what_cannot_be_measured_is_named(words: list[str], complaint: str, said: Said):
    code, out, err = said("measure", *words)
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1


def test_the_bar_may_start_anew(said: Said, monkeypatch: pytest.MonkeyPatch):
    with image_progress("images") as watch:
        watch(2.0, 4)
        watch(4.0, 4)
        watch(1.0, 8)


# Several models, folders, files that are there


def test_models_draw_side_by_side_into_a_folder_and_nothing_is_replaced(said: Said):
    words = ["sample", "zoo:grid_all", "zoo:grid_one", "--at", "0.2,0.4", "--count", "2"]
    assert said(*words, "--out", "both", "--scale", "1")[0] == 0
    names = [
        f"zoo_{each}-000{number}.png" for each in ("grid_all", "grid_one") for number in (0, 1)
    ]
    assert sorted(path.name for path in Path("both").iterdir()) == sorted([*names, "sheet.png"])
    assert opened("both/sheet.png").size == (2 * SIZE + 2, 2 * SIZE + 2)
    tile = opened("both/sheet.png").crop((0, SIZE + 2, SIZE, 2 * SIZE + 2))
    assert tile.tobytes() == opened(f"both/{names[2]}").tobytes()
    before = Path("both/sheet.png").read_bytes()
    code, _, err = said(*words, "--out", "both", "--scale", "1", "--seed", "9")
    assert (code, err) == (2, f"recombine: both/{names[0]} is there already; --force replaces it\n")
    assert Path("both/sheet.png").read_bytes() == before
    assert said(*words, "--out", "both", "--scale", "1", "--seed", "9", "--force")[0] == 0
    assert Path("both/sheet.png").read_bytes() != before


def test_a_picture_that_is_there_is_kept(said: Said):
    Path("x.png").write_text("mine")
    code, _, err = said("sample", "zoo:grid_all", "--out", "x.png")
    assert (code, err) == (2, "recombine: x.png is there already; --force replaces it\n")
    assert Path("x.png").read_text() == "mine"


def test_guidance_changes_the_samples(said: Said):
    words = ["sample", "zoo:grid_all", "--at", "0.2,0.4", "--scale", "1"]
    said(*words, "--out", "plain.png")
    said(*words, "--guidance", "1", "--out", "one.png")
    said(*words, "--guidance", "4", "--out", "four.png")
    apart = ImageChops.difference(opened("plain.png"), opened("one.png"))
    assert max(high for _, high in apart.getextrema()) <= 2
    assert opened("plain.png").tobytes() != opened("four.png").tobytes()


def test_concepts_are_for_models_conditioned_on_factors(said: Said):
    for words, complaint in (
        (["--as", "cube"], "conditioned on places, not on factors"),
        (["--as", "rhombus"], "'rhombus' is no concept of this model's world (shape: "),
        (["--as", "cube,sphere"], "--as names each factor once; got 'cube,sphere'"),
        (["--as", "cube", "--at", "0.1,0.2"], "--at and --as exclude each other"),
    ):
        code, _, err = said("sample", "zoo:grid_all", *words, "--out", "some")
        assert code == 2
        assert complaint in err
