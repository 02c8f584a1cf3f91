"""The command line as a user meets it: exit codes, one line on an error, whole folders."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from jaxtyping import Float, Int
from PIL import Image
from torch import Tensor

from recombine import __main__ as command_line
from recombine import zoo
from recombine.commands import choice, console, demo, listing, parse, render
from recombine.draw import whole
from recombine.measurement import Measurement
from recombine.report.record import Record
from recombine.scene import Concepts, Factor, Scenes, World, concept_rows
from recombine.worlds import WORLDS, scene_file

COLOUR = Factor("colour", ("red", "green", "blue"))
SIDE = Factor("side", ("left", "right"))


@dataclass(frozen=True)
class Dots:
    """A world of one half-painted picture per scene, small enough to check pixel by pixel."""

    size: int = 8
    objects: tuple[int, int] = (1, 2)
    among: tuple[Concepts, ...] = ()

    name: ClassVar[str] = "dots"
    factors: ClassVar[tuple[Factor, ...]] = (COLOUR, SIDE)

    def scenes(self, index: Int[Tensor, " batch"], seed: int) -> Scenes:
        most = self.objects[1]
        draw = torch.arange(most)
        among = self.among or tuple((a, b) for a in COLOUR.concepts for b in SIDE.concepts)
        rows = concept_rows(self.factors, among)
        concepts = rows[whole(seed, index, draw, len(rows))]
        count = self.objects[0] + whole(seed, index, draw + 99, 2)[:, :1]
        return scenes_of(concepts, draw < count.clamp(max=most))

    def image(self, scenes: Scenes) -> Float[Tensor, "batch 3 height width"]:
        images = torch.zeros(len(scenes), 3, self.size, self.size)
        for image, concepts, present in zip(images, scenes.concepts, scenes.present, strict=True):
            for (colour, side), there in zip(concepts.tolist(), present.tolist(), strict=True):
                half = self.size // 2
                image[colour, :, side * half : (side + 1) * half] = float(there)
        return images


def scenes_of(concepts: Tensor, present: Tensor) -> Scenes:
    batch, objects = present.shape
    nothing = torch.zeros(batch, objects)
    return Scenes(
        position=torch.zeros(batch, objects, 2),
        size=nothing,
        rotation=nothing,
        colour=torch.zeros(batch, objects, 3),
        shape=nothing.long(),
        material=nothing.long(),
        concepts=concepts,
        present=present,
        backdrop=torch.zeros(batch, 1, 3),
        camera=torch.zeros(batch, 3),
        lamps=torch.zeros(batch, 0, 3),
    )


@dataclass(frozen=True)
class Plain:
    """A world with nothing to set."""

    name: ClassVar[str] = "plain"
    factors: ClassVar[tuple[Factor, ...]] = (COLOUR,)
    size: ClassVar[int] = 8

    def scenes(self, index: Int[Tensor, " batch"], seed: int) -> Scenes:
        return scenes_of(torch.zeros(len(index), 1, 1).long(), torch.ones(len(index), 1).bool())

    def image(self, scenes: Scenes) -> Float[Tensor, "batch 3 height width"]:
        return torch.full((len(scenes), 3, 8, 8), 0.5)


def write(scenes: Scenes, world: World, names: Sequence[str], first: int) -> dict:
    rows = zip(scenes.concepts.tolist(), scenes.present.tolist(), names, strict=True)
    listed = [
        {"image_index": first + n, "image_filename": name, "concepts": concepts, "present": present}
        for n, (concepts, present, name) in enumerate(rows)
    ]
    return {"info": {"world": world.name}, "scenes": listed}


def read(data: object, world: World, size: tuple[int, int] | None) -> tuple[Scenes, list[str]]:
    if not isinstance(data, dict) or not data["scenes"]:
        raise ValueError("expected an object with scenes")
    if size not in (None, (480, 320)):
        raise ValueError(f"told of {size}")
    listed = data["scenes"]
    concepts = torch.tensor([each["concepts"] for each in listed])
    present = torch.tensor([each["present"] for each in listed])
    return scenes_of(concepts, present), [each["image_filename"] for each in listed]


@pytest.fixture(autouse=True)
def small_worlds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    for module in (choice, listing, demo):
        monkeypatch.setattr(module, "WORLDS", (Dots(), Plain()))
    monkeypatch.setattr(render, "scene_file", SimpleNamespace(read=read, write=write))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def real_worlds(monkeypatch: pytest.MonkeyPatch, small_worlds: None):
    for module in (choice, listing, demo):
        monkeypatch.setattr(module, "WORLDS", WORLDS)
    monkeypatch.setattr(render, "scene_file", scene_file)


Refused = Callable[..., str]


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """Run a command that must be refused: exit code 2, one line on standard error, no files."""

    def run(*words: str) -> str:
        before = sorted(Path.cwd().rglob("*"))
        assert command_line.main(words) == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.startswith("recombine: ")
        assert output.err.count("\n") == 1
        assert sorted(Path.cwd().rglob("*")) == before
        return output.err.removeprefix("recombine: ").strip()

    return run


# Finding the command and its options


def test_no_command_shows_them_all(capsys: pytest.CaptureFixture[str]):
    assert command_line.main([]) == 2
    assert command_line.main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name in command_line.COMMANDS:
        assert f"\n  {name} " in shown


@pytest.mark.parametrize("name", command_line.COMMANDS)
def test_every_command_helps_with_an_example(name: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stop:
        command_line.main([name, "--help"])
    assert stop.value.code == 0
    assert f"Example: recombine {name}" in capsys.readouterr().out


def test_an_unknown_command_is_answered_with_the_nearest(refused: Refused):
    assert refused("rendr") == (
        f"'rendr' is not one of {', '.join(command_line.COMMANDS)}; did you mean render?"
    )
    assert "did you mean" not in refused("xyz")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("render",), "WORLD"),
        (("render", "dots", "--cuont", "3"), "--cuont, 3; did you mean --count?"),
        (("render", "dots", "--count", "many"), "--count: expected a whole number, got 'many'"),
        (("render", "dots", "--size", "1e2"), "--size: expected a whole number, got '1e2'"),
        (("render", "dots", "--count"), "'--count'"),
        (("render", "dots", "again"), "again"),
        (("list", "--jsn"), "--jsn"),
    ],
)
@pytest.mark.parametrize("width", ["40", "200"])
def test_wrong_options_are_named_in_one_line(words, complaint, width, refused, monkeypatch):
    monkeypatch.setenv("COLUMNS", width)
    said = refused(*words)
    assert complaint in said
    assert said.endswith(f"(see recombine {words[0]} --help)")


def test_options_that_may_be_left_out_take_no_word_for_nothing():
    @dataclass(frozen=True)
    class Options:
        name: str | None = None
        share: float | None = None
        place: Path | None = None

    words = ["--name", "None", "--share", "-0.5", "--place", "None"]
    assert parse.parsed(Options, "x", words) == Options("None", -0.5, Path("None"))
    with pytest.raises(ValueError, match="--share: expected a number, got 'half'"):
        parse.parsed(Options, "x", ["--share", "half"])


# Exit codes


def failing(error: BaseException) -> SimpleNamespace:
    def run(options: listing.Options) -> None:
        raise error

    return SimpleNamespace(Options=listing.Options, run=run, __doc__="x: y")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ValueError("a list of\nlength 2"), 2, "recombine: a list of length 2\n"),
        (PermissionError(13, "denied", "x"), 1, "recombine: [Errno 13] denied: 'x'\n"),
        (ImportError("needs h5py"), 1, "recombine: needs h5py\n"),
        (torch.OutOfMemoryError("no room"), 1, "recombine: no room\n"),
        (KeyboardInterrupt(), 130, "recombine: interrupted\n"),
    ],
)
def test_what_goes_wrong_has_its_exit_code_and_line(error, code, said, monkeypatch, capsys):
    monkeypatch.setitem(command_line.COMMANDS, "list", failing(error))
    assert command_line.main(["list"]) == code
    assert capsys.readouterr().err == said


def test_our_own_mistakes_keep_their_traceback(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(command_line.COMMANDS, "list", failing(AssertionError("ours")))
    with pytest.raises(AssertionError, match="ours"):
        command_line.main(["list"])


def test_a_reader_that_leaves_is_no_reason_to_complain():
    environment = {**os.environ, "PYTHONPATH": str(Path(command_line.__file__).parents[1])}
    with subprocess.Popen(
        [sys.executable, "-m", "recombine", "--help"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


# list


def test_list_shows_worlds_with_factors_and_sizes(capsys: pytest.CaptureFixture[str]):
    assert command_line.main(["list"]) == 0
    shown = capsys.readouterr().out
    assert "dots" in shown
    assert "8 px" in shown
    assert "colour (red, green, blue)" in shown


def test_list_prints_one_json_object(capsys: pytest.CaptureFixture[str]):
    assert command_line.main(["list", "--json"]) == 0
    output = capsys.readouterr()
    printed = json.loads(output.out)
    assert printed["zoo"] == zoo.names()
    first, _ = printed["worlds"]
    assert first == {
        "name": "dots",
        "size": 8,
        "factors": {"colour": ["red", "green", "blue"], "side": ["left", "right"]},
    }
    assert output.err == ""


def test_list_shows_shipped_weights_with_the_command_that_trained_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    record = SimpleNamespace(command="recombine run b:c --seed 0")
    monkeypatch.setattr(zoo, "names", lambda: ["a"])
    monkeypatch.setattr(zoo, "record", lambda name: record)
    assert command_line.main(["list"]) == 0
    shown = capsys.readouterr().out
    assert "zoo:a" in shown
    assert "recombine run b:c --seed 0" in shown


# render


def rendered(*words: str) -> dict[str, Image.Image]:
    assert command_line.main(["render", "dots", "--device", "cpu", *words]) == 0
    folder = Path(words[words.index("--out") + 1])
    return {path.name: Image.open(path).copy() for path in sorted(folder.glob("*.png"))}


def test_render_writes_the_images_of_the_scenes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(render, "BATCH", 3)
    images = rendered("--count", "7", "--seed", "-5", "--out", "a/b")
    assert list(images) == [f"dots_{number:06d}.png" for number in range(7)]
    scenes = Dots().scenes(torch.arange(7), seed=-5)
    expected = (Dots().image(scenes) * 255).byte().permute(0, 2, 3, 1)
    for picture, pixels in zip(images.values(), expected, strict=True):
        assert picture.tobytes() == bytes(pixels.flatten().tolist())


def test_render_writes_scenes_that_read_back(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(render, "BATCH", 3)
    first = rendered("--count", "7", "--out", "first")
    content = json.loads(Path("first/scenes.json").read_text())
    assert content["info"] == {"world": "dots"}
    assert [scene["image_index"] for scene in content["scenes"]] == list(range(7))
    again = rendered("--scenes", "first/scenes.json", "--out", "again")
    assert list(again) == list(first)
    assert all(again[name].tobytes() == first[name].tobytes() for name in first)
    assert json.loads(Path("again/scenes.json").read_text()) == content


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_every_world_renders_again_from_its_own_scenes(world: World, real_worlds: None):
    words = ["render", world.name, "--device", "cpu", "--size", "24"]
    assert command_line.main([*words, "--count", "2", "--out", "first"]) == 0
    assert command_line.main([*words, "--scenes", "first/scenes.json", "--out", "again"]) == 0
    first = {path.name: path.read_bytes() for path in Path("first").iterdir()}
    assert len(first) == 3
    assert first == {path.name: path.read_bytes() for path in Path("again").iterdir()}


def test_render_sets_size_objects_and_compositions():
    words = ("--count", "9", "--size", "12", "--objects", "1", "--composition", "green,left")
    for picture in rendered(*words, "--out", "set").values():
        assert picture.size == (12, 12)
        assert picture.getpixel((0, 0)) == (0, 255, 0)
        assert picture.getpixel((11, 0)) == (0, 0, 0)


def test_render_without_options_takes_sixteen_of_seed_0_into_a_folder_of_the_worlds_name():
    assert command_line.main(["render", "dots"]) == 0
    first = {path.name: path.read_bytes() for path in Path("dots").glob("*.png")}
    assert len(first) == 16
    rendered("--count", "16", "--seed", "0", "--out", "same")
    assert first == {path.name: path.read_bytes() for path in Path("same").glob("*.png")}


def test_render_tells_in_json_what_it_did(capsys: pytest.CaptureFixture[str]):
    rendered("--count", "2", "--out", "x", "--json")
    told = json.loads(capsys.readouterr().out)
    speed = told.pop("measurements")["images_per_second"]
    assert speed["value"] > 0
    assert (speed["low"], speed["high"], speed["n"]) == (None, None, 2)
    scenes = str(Path("x/scenes.json"))
    assert told == {"subject": "dots", "images": 2, "folder": "x", "scenes": scenes}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("dotz",), "world 'dotz' is not one of dots, plain; did you mean dots?"),
        (("dots", "--count", "0"), "--count is 1 or more; got 0"),
        (("dots", "--count", "-3"), "--count is 1 or more; got -3"),
        (("dots", "--size", "7"), "between 8 and 2048 pixels; got 7"),
        (("dots", "--size", "2049"), "between 8 and 2048 pixels; got 2049"),
        (("dots", "--objects", "6-3"), "such as 4 or 3-6; got '6-3'"),
        (("dots", "--objects", "few"), "such as 4 or 3-6; got 'few'"),
        (("dots", "--composition", "red"), "one concept each for colour, side; got ('red',)"),
        (("dots", "--composition", "red,up"), "side is one of left, right; got 'up'"),
        (("dots", "--jitter"), "world dots has no jitter to set"),
        (("plain", "--size", "9"), "world plain has no size to set; got 9"),
        (("plain", "--objects", "2"), "world plain has no objects to set"),
        (("dots", "--device", "gpu"), "device 'gpu' cannot be used here"),
        (("dots", "--image-size", "9"), "--image-size 9 needs the --scenes it is about"),
        (("dots", "--scenes", "none.json"), "none.json is not there, or not a file"),
        (("dots", "--scenes", "."), "is not there, or not a file"),
    ],
)
def test_render_refuses_what_it_cannot_do(words, complaint: str, refused: Refused):
    assert complaint in refused("render", *words)


def test_a_count_of_objects_may_be_a_number_or_a_range():
    assert choice.chosen_objects("4") == (4, 4)
    assert choice.chosen_objects("0-12") == (0, 12)


def test_compositions_are_checked_before_anything_is_made():
    assert choice.chosen_compositions(Dots(), ["red, left", "blue,right"]) == (
        ("red", "left"),
        ("blue", "right"),
    )
    with pytest.raises(ValueError, match="side is one of left, right; got 'up'"):
        choice.chosen_compositions(Dots(), ["red,up"])


def test_render_touches_no_folder_that_holds_something(refused: Refused):
    Path("full").mkdir()
    Path("full/mine").write_text("mine")
    assert "full is not empty" in refused("render", "dots", "--out", "full")
    assert Path("full/mine").read_text() == "mine"
    assert "full/mine is a file" in refused("render", "dots", "--out", "full/mine")


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (OSError("full"), 1), (ValueError("no"), 2)]
)
def test_a_render_that_stops_half_way_leaves_nothing(error, code, monkeypatch, capsys):
    monkeypatch.setattr(render, "BATCH", 2)
    draw = Dots.image

    def stops(world: Dots, scenes: Scenes) -> Tensor:
        if list(Path.cwd().glob(".out.*/*.png")):
            raise error
        return draw(world, scenes)

    monkeypatch.setattr(Dots, "image", stops)
    assert command_line.main(["render", "dots", "--count", "4", "--out", "out"]) == code
    assert list(Path.cwd().iterdir()) == []


def scene(name: object) -> dict:
    return {"image_filename": name, "concepts": [[0, 0]], "present": [True]}


@pytest.mark.parametrize(
    "name",
    ["../a.png", "a/b.png", "/a.png", "..", "", "a\\b.png", "C:a.png", "a\0.png", "a.jpg", "."],
)
def test_an_image_name_that_leads_elsewhere_is_refused(name: str, refused: Refused):
    Path("scenes.json").write_text(json.dumps({"scenes": [scene("b.png"), scene(name)]}))
    said = refused("render", "dots", "--scenes", "scenes.json", "--out", "out")
    assert said == f"scenes.json: image name {name!r} is not a plain file name that ends in .png"


def test_an_image_name_that_occurs_twice_is_refused(refused: Refused):
    Path("scenes.json").write_text(json.dumps({"scenes": [scene("A.png"), scene("a.png")]}))
    assert "'a.png' occurs twice" in refused("render", "dots", "--scenes", "scenes.json")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "scenes.json is not whole JSON"),
        ('{"scenes": [', "scenes.json is not whole JSON"),
        ('{"scenes": [NaN]}', "NaN is not a number of JSON"),
        ("[" * 100_000, "scenes.json is not whole JSON"),
        ("[]", "scenes.json: expected an object with scenes"),
        ('{"scenes": []}', "scenes.json: expected an object with scenes"),
    ],
)
def test_a_file_that_is_no_scenes_is_refused(text: str, complaint: str, refused: Refused):
    Path("scenes.json").write_text(text)
    assert complaint in refused("render", "dots", "--scenes", "scenes.json")


@pytest.mark.parametrize(
    ("size", "complaint"),
    [
        ("96", "told of (96, 96)"),
        ("7", "between 8 and 2048 pixels; got 7"),
        ("480x9999", "got 9999"),
        ("wide", "such as 128 or 480x320; got 'wide'"),
    ],
)
def test_the_size_of_the_original_images_is_told(size: str, complaint: str, refused: Refused):
    Path("scenes.json").write_text(json.dumps({"scenes": [scene("a.png")]}))
    words = ("--scenes", "scenes.json", "--image-size")
    assert complaint in refused("render", "dots", *words, size)
    assert list(rendered(*words, "480x320", "--out", "out")) == ["a.png"]


def test_a_huge_file_is_refused_unread(refused: Refused):
    with Path("scenes.json").open("wb") as file:
        file.truncate(513 * 2**20)
    said = refused("render", "dots", "--scenes", "scenes.json")
    assert said == "scenes.json has 513 MB; expected 512 MB at most"


@pytest.mark.parametrize(
    "words",
    [("--count", "3"), ("--seed", "0"), ("--objects", "2"), ("--composition", "red,left")],
    ids=" ".join,
)
def test_given_scenes_leave_nothing_to_choose(words: tuple[str, ...], refused: Refused):
    Path("scenes.json").write_text(json.dumps({"scenes": [scene("a.png")]}))
    said = refused("render", "dots", "--scenes", "scenes.json", *words)
    assert said == f"{words[0]} chooses scenes, but scenes.json gives them; leave it out"


# report


def checkout() -> None:
    measured = {"k_max": Measurement(9, 8, 10, n=500)}
    Record("Long?", "recombine run x", "x", 0, "cpu", 3.0, measured, headline=("k_max",)).save(
        Path("results/long.json")
    )
    Path("README.md").write_text("<!-- table:findings -->\n<!-- /table -->\n")
    Path("docs/deep").mkdir(parents=True)
    Path("docs/deep/a.md").write_text("<!-- table:measurements:long -->\n<!-- /table -->\n")
    Path("docs/b.md").write_text("nothing to fill in\n")


def test_report_fills_in_the_tables_once(capsys: pytest.CaptureFixture[str]):
    checkout()
    assert command_line.main(["report", "--check"]) == 1
    assert Path("README.md").read_text().count("\n") == 2
    assert "README.md is out of date" in capsys.readouterr().err
    assert command_line.main(["report", "--json"]) == 0
    changed = json.loads(capsys.readouterr().out)
    assert changed == {
        "subject": "report",
        "records": 1,
        "changed": ["README.md", "docs/deep/a.md"],
        "papers": [],
    }
    assert "| Long? | `recombine run x` | 3.0 s | k_max 9 [8, 10]" in Path("README.md").read_text()
    assert "| k_max | 9 | [8, 10] | 500 |" in Path("docs/deep/a.md").read_text()
    assert command_line.main(["report", "--check"]) == 0


def test_report_links_figures_from_the_page_wherever_the_checkout_lies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    Path("clone").mkdir()
    monkeypatch.chdir("clone")
    checkout()
    Path("docs/b.md").write_text("<!-- table:findings -->\n<!-- /table -->\n")
    record = Record.load(Path("results/long.json"))
    replace(record, figure="docs/figures/long.svg").save(Path("results/long.json"))
    monkeypatch.chdir(tmp_path)
    assert command_line.main(["report", "--root", "clone"]) == 0
    assert "[figure](docs/figures/long.svg)" in Path("clone/README.md").read_text()
    assert "[figure](figures/long.svg)" in Path("clone/docs/b.md").read_text()


def test_report_writes_a_page_of_every_record():
    checkout()
    assert command_line.main(["report", "results/long.json", "--page", "all.html"]) == 0
    assert "9 [8, 10], n = 500" in Path("all.html").read_text()


def test_report_names_what_is_wrong(refused: Refused):
    assert "results is not there" in refused("report")
    checkout()
    Path("docs/b.md").write_text("<!-- table:finding -->\n<!-- /table -->\n")
    assert "docs/b.md: table 'finding' is not known" in refused("report")
    Path("results/more").mkdir()
    Path("results/more/long.json").write_text(Path("results/long.json").read_text())
    twice = refused("report", "results/long.json", "results/more/long.json")
    assert "the second record named long" in twice
    Path("results/long.json").write_text("{")
    assert "long.json is not whole JSON" in refused("report", "results/long.json")


# What is said where


def test_progress_and_messages_stay_off_standard_output(capsys: pytest.CaptureFixture[str]):
    with console.image_progress("making", 4) as advance:
        advance(3)
        advance(1)
    console.say("done")
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == "done\n"


def test_json_holds_no_value_that_json_does_not_know(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(ValueError, match="not JSON compliant"):
        console.print_json({"value": float("nan")})
    assert capsys.readouterr().out == ""


UNICODE = "╭─ T ────╮\n│ Some   │\n│ reason │\n│ ────── │\n│ more   │\n╰────────╯\n"
ASCII = " T     \n ------ \n  Some  \n  reason\n  ------\n  more  \n        \n"
COLOURED = UNICODE.replace("│", "\x1b[31;1m│\x1b[0m")


@pytest.mark.parametrize("box", [UNICODE, ASCII, COLOURED], ids=["unicode", "ascii", "coloured"])
def test_the_box_of_tyro_becomes_a_line(box: str):
    assert parse.one_line(box, "recombine x") == "Some reason (see recombine x --help)"
