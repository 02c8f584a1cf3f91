import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from dataset_files import PLACES, grey, write_clevr
from recombine.render import camera
from recombine.worlds.clevr import EYE, Clevr
from recombine.worlds.files.clevr_v1 import ClevrV1


@pytest.fixture
def scenes(tmp_path: Path) -> Path:
    return write_clevr(tmp_path / "CLEVR_v1.0")


def test_scenes_whose_objects_the_square_would_cut_are_left_out(scenes: Path):
    clevr = ClevrV1(scenes, size=8)
    assert len(clevr) == 5
    counts = clevr.scenes_of(torch.arange(5)).present.sum(dim=1)
    assert counts.tolist() == [len(places) for places in PLACES[:5]]


def test_every_batch_has_room_for_the_most_objects_asked_for(scenes: Path):
    clevr = ClevrV1(scenes, size=8, objects=(1, 5))
    assert clevr.scenes_of(torch.tensor([0])).present.tolist() == [[True] + [False] * 4]


def test_a_scene_is_read_once(scenes: Path, monkeypatch: pytest.MonkeyPatch):
    clevr = ClevrV1(scenes)
    first = clevr.scenes_of(torch.tensor([1, 2]))
    monkeypatch.setattr("recombine.worlds.files.clevr_v1.read", None)
    assert torch.equal(clevr.scenes_of(torch.tensor([2, 1])).position, first.position.flip(0))


@pytest.mark.parametrize(
    ("objects", "numbers"), [((1, 1), [0]), ((2, 3), [1, 2, 4]), ((0, 1), [0, 3])]
)
def test_scenes_are_kept_by_their_number_of_objects(
    scenes: Path, objects: tuple[int, int], numbers: list[int]
):
    clevr = ClevrV1(scenes, size=8, objects=objects)
    corner = clevr.image_of(torch.arange(len(clevr)))[:, :, 0, 0]
    assert (corner * 255).round().int().tolist() == [[grey(number)] * 3 for number in numbers]


def test_objects_are_what_the_file_says(scenes: Path):
    clevr = ClevrV1(scenes, objects=(3, 3))
    found = clevr.scenes_of(torch.tensor([0]))
    rows = found.concepts[0].tolist()
    assert [
        tuple(factor.concepts[each] for factor, each in zip(Clevr.factors, row, strict=True))
        for row in rows[:3]
    ] == [
        ("cube", "red", "rubber", "large"),
        ("sphere", "blue", "metal", "small"),
        ("cylinder", "cyan", "rubber", "large"),
    ]
    expected = torch.tensor([[-1.2, -1.0, 0.7], [0.3, 1.1, 0.35], [1.4, 0.2, 0.7]])
    torch.testing.assert_close(found.position[0, :3], expected)


def test_the_camera_is_recovered_in_the_frame_of_the_file(scenes: Path):
    found = ClevrV1(scenes).scenes_of(torch.arange(5)).camera
    # Depths are written in full, pixels rounded: with the right frame they agree to this.
    torch.testing.assert_close(found, torch.tensor(EYE).expand(5, 3), atol=1e-3, rtol=0)


@pytest.mark.parametrize("size", [128, 64])
def test_objects_are_in_the_image_where_their_places_say(scenes: Path, size: int):
    clevr = ClevrV1(scenes, size=size, objects=(1, 3))
    number = torch.arange(len(clevr))
    made = clevr.scenes_of(number)
    places, present = 0.5 + 1.5 * (camera.places(made)[0] - 0.5), made.present
    for image, place, there in zip(clevr.image_of(number), places, present, strict=True):
        for channel, expected in enumerate(place[there] * size):
            mark = image[channel] - image.sum(dim=0) / 3 > 0.4
            found = mark.nonzero().flip(1).float().mean(dim=0) + 0.5
            # The file rounds to whole pixels of 320, which the recovered camera mostly undoes.
            assert (found - expected).abs().max() < size / 320 + 0.5


def test_clevr_is_cut_to_the_middle_square_and_resized(scenes: Path):
    pixels = np.random.default_rng(3).integers(0, 256, (320, 480, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(scenes / "images" / "train" / "CLEVR_train_000000.png")
    square = torch.from_numpy(pixels).permute(2, 0, 1)[None, :, :, 80:400].float()
    resized = torch.nn.functional.interpolate(square, (100, 100), mode="bicubic", antialias=True)
    image = ClevrV1(scenes, size=100, objects=(1, 1)).image_of(torch.tensor([0]))
    torch.testing.assert_close(image, resized.clamp(0, 255) / 255, atol=1.6 / 255, rtol=0)


def test_an_image_that_is_a_link_out_of_the_folder_is_refused(scenes: Path, tmp_path: Path):
    path = scenes / "images" / "train" / "CLEVR_train_000000.png"
    path.rename(tmp_path / "secret.png")
    path.symlink_to(tmp_path / "secret.png")
    with pytest.raises(ValueError, match="000000.png is a link that leaves the data set"):
        ClevrV1(scenes, objects=(1, 1)).image_of(torch.tensor([0]))


def test_each_part_has_its_own_files(scenes: Path):
    with pytest.raises(ValueError, match="images/val is not a folder"):
        len(ClevrV1(scenes, part="val"))
    write_clevr(scenes, part="val")
    assert len(ClevrV1(scenes, part="val")) == 5


def rewritten(scenes: Path, keys: tuple[str | int, ...], value: object) -> None:
    path = scenes / "scenes" / "CLEVR_train_scenes.json"
    data = json.loads(path.read_text())
    *outer, last = keys
    place = data
    for key in outer:
        place = place[key]
    place[last] = value
    path.write_text(json.dumps(data))


FIRST, THIRD = ("scenes", 0), ("scenes", 2, "objects", 0)


@pytest.mark.parametrize(
    ("keys", "value", "line"),
    [
        (("scenes",), {}, "expected an object with a list of scenes"),
        (("scenes",), [], "no scene has 0-10 objects"),
        (("scenes", 1), 3, "scene 1 lacks an image_filename, directions, or objects"),
        (("scenes", 1), {"objects": []}, "scene 1 lacks"),
        (("scenes", 2, "objects"), None, "scene 2 lacks"),
        (("scenes", 2, "objects"), {"a": 1}, "scene 2 lacks"),
        ((*THIRD, "pixel_coords"), [], "scene 2 lacks"),
        ((*THIRD, "pixel_coords"), ["240", 160, 10], "scene 2 lacks"),
        ((*FIRST, "image_filename"), "../../a.png", "has no image ../../a.png"),
        ((*FIRST, "image_filename"), ["a.png"], "has no image"),
        ((*FIRST, "image_filename"), "CLEVR_train_000001.png", "000001.png is listed twice"),
    ],
)
def test_a_wrong_scenes_file_says_what_is_wrong(
    scenes: Path, keys: tuple[str | int, ...], value: object, line: str
):
    rewritten(scenes, keys, value)
    with pytest.raises(ValueError, match=line):
        len(ClevrV1(scenes))


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        (
            "color",
            "pink",
            "train_scenes.json, of CLEVR_train_000002.png: .*colour is one of.*'pink'",
        ),
        ("pixel_coords", [240, 160], "expected 3 finite numbers"),
        ("3d_coords", [0.0, 0.0, float("nan")], "expected 3 finite numbers"),
        ("rotation", None, "expected 1 finite numbers"),
    ],
)
def test_a_wrong_object_is_named_when_its_scene_is_read(
    scenes: Path, key: str, value: object, line: str
):
    rewritten(scenes, (*THIRD, key), value)
    clevr = ClevrV1(scenes)
    assert len(clevr) == 5
    with pytest.raises(ValueError, match=line):
        clevr.scenes_of(torch.tensor([2]))


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("", "not whole, valid JSON"),
        ('{"scenes": [', "not whole, valid JSON"),
        ("[" * 100_000, "not whole, valid JSON"),
        ("[]", "expected an object with a list of scenes"),
    ],
)
def test_a_file_that_holds_no_scenes_is_refused(scenes: Path, content: str, line: str):
    (scenes / "scenes" / "CLEVR_train_scenes.json").write_text(content)
    with pytest.raises(ValueError, match=f"CLEVR_train_scenes.json.*{line}"):
        len(ClevrV1(scenes))


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"part": "test"}, "scenes for train and val; got 'test'"),
        ({"size": 0}, "at least 1 pixel; got 0"),
        ({"objects": (3, 1)}, r"least first; got \(3, 1\)"),
        ({"objects": (-1, 1)}, r"from 0 up"),
    ],
)
def test_impossible_wishes_of_clevr_are_refused(asked: dict, line: str):
    with pytest.raises(ValueError, match=line):
        ClevrV1(Path("CLEVR_v1.0"), **asked)
