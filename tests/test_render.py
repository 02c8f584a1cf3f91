"""`recombine render`: whole folders of images and scenes, or one line and no folder."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch
from jaxtyping import Float, Int
from PIL import Image
from torch import Tensor

from recombine import __main__ as command_line
from recombine.commands import choice, render
from recombine.draw import whole
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
        raise ValueError(f"of size {size}")
    listed = data["scenes"]
    concepts = torch.tensor([each["concepts"] for each in listed])
    present = torch.tensor([each["present"] for each in listed])
    return scenes_of(concepts, present), [each["image_filename"] for each in listed]


@pytest.fixture(autouse=True)
def small_worlds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(choice, "WORLDS", (Dots(), Plain()))
    monkeypatch.setattr(render, "scene_file", SimpleNamespace(read=read, write=write))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def real_worlds(monkeypatch: pytest.MonkeyPatch, small_worlds: None):
    monkeypatch.setattr(choice, "WORLDS", WORLDS)
    monkeypatch.setattr(render, "scene_file", scene_file)


Refused = Callable[..., str]


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
    both = rendered(*words, "--composition", "blue, left", "--out", "both").values()
    assert {picture.getpixel((0, 0)) for picture in both} == {(0, 255, 0), (0, 0, 255)}


def test_render_without_options_takes_sixteen_of_seed_0_into_a_folder_of_the_worlds_name():
    assert command_line.main(["render", "dots"]) == 0
    first = {path.name: path.read_bytes() for path in Path("dots").glob("*.png")}
    assert len(first) == 16
    rendered("--count", "16", "--seed", "0", "--out", "same")
    assert first == {path.name: path.read_bytes() for path in Path("same").glob("*.png")}


def test_render_prints_one_json_object(capsys: pytest.CaptureFixture[str]):
    rendered("--count", "2", "--out", "x", "--json")
    printed = json.loads(capsys.readouterr().out)
    speed = printed.pop("measurements")["images_per_second"]
    assert speed["value"] > 0
    assert (speed["low"], speed["high"], speed["n"]) == (None, None, 2)
    scenes = str(Path("x/scenes.json"))
    assert printed == {"subject": "dots", "images": 2, "folder": "x", "scenes": scenes}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("dotz",), "world 'dotz' is not one of dots, plain; did you mean dots?"),
        (("dots", "--count", "0"), "--count is 1 or more; got 0"),
        (("dots", "--count", "-3"), "--count is 1 or more; got -3"),
        (("dots", "--size", "7"), "between 8 and 2048 pixels; got 7"),
        (("dots", "--size", "2049"), "between 8 and 2048 pixels; got 2049"),
        (("dots", "--objects", "6-3"), "expected whole numbers such as 3,6-9, got '6-3'"),
        (("dots", "--objects", "few"), "expected whole numbers such as 3,6-9, got 'few'"),
        (("dots", "--objects", "3,6"), "a count or a range, such as 4 or 3-6; got 3,6"),
        (("dots", "--objects=-1,0"), "a count or a range, such as 4 or 3-6; got -1,0"),
        (("dots", "--composition", "red"), "one concept each for colour, side; got ('red',)"),
        (("dots", "--composition", "red,up"), "side is one of left, right; got 'up'"),
        (("dots", "--jitter"), "world dots has no jitter to set"),
        (("plain", "--size", "9"), "world plain has no size to set; got 9"),
        (("plain", "--objects", "2"), "world plain has no objects to set"),
        (("dots", "--device", "gpu"), "device 'gpu' cannot be used here"),
        (("dots", "--image-size", "9"), "--image-size 9 needs --scenes"),
        (("dots", "--scenes", "none.json"), "none.json is not there, or not a file"),
        (("dots", "--scenes", "."), "is not there, or not a file"),
    ],
)
def test_render_refuses_what_it_cannot_do(words, complaint: str, refused: Refused):
    assert complaint in refused("render", *words)


def test_a_count_of_objects_may_be_a_number_or_a_range():
    assert choice.chosen_objects((4,)) == (4, 4)
    assert choice.chosen_objects(tuple(range(13))) == (0, 12)
    assert choice.chosen_objects((3, 1, 2)) == (1, 3)


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
        ("96", "of size (96, 96)"),
        ("7", "between 8 and 2048 pixels; got 7"),
        ("480x9999", "got 9999"),
        ("wide", "such as 128 or 480x320; got 'wide'"),
    ],
)
def test_the_size_of_the_original_images_is_an_option(size: str, complaint: str, refused: Refused):
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
