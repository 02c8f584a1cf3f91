"""`recombine detect`: objects in any images, in words; and the error of the shipped detector."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.detector import measured, reference
from PIL import Image
from torch import Tensor

from recombine import __main__ as command_line
from recombine import zoo
from recombine.commands import detect
from recombine.measure.detection import DetectorError
from recombine.reader import Found

shipped = zoo.detector


@dataclass(frozen=True)
class Bright:
    """Stands in for the shipped reader: sees a blue metal cube where the image is brightest."""

    threshold: float = 0.5

    def __call__(self, images: Tensor) -> Found:
        grey = images.mean(dim=1)
        height, width = grey.shape[1:]
        cell = grey.flatten(1).argmax(dim=1)
        place = torch.stack([cell % width / width, cell // width / height], dim=-1)
        sure = grey.flatten(1).amax(dim=1)
        return Found(
            place[:, None].expand(-1, 2, -1),
            torch.tensor([[[1, 2, 1, 0]]]).expand(len(images), 2, -1),
            torch.stack([sure, 0 * sure], dim=1),
            torch.stack([sure >= self.threshold, sure < 0], dim=1),
        )


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(zoo, "detector", Bright)


def painted(path: str, width: int = 60, height: int = 40, grey: int = 204) -> Path:
    """Write a black image with one bright pixel, three quarters across and half way down."""
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    pixels[height // 2, width * 3 // 4] = grey
    Image.fromarray(pixels).save(path)
    return Path(path)


def printed(capsys: pytest.CaptureFixture[str], *words: object) -> dict:
    assert command_line.main(["detect", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_objects_are_printed_as_json(capsys: pytest.CaptureFixture[str]):
    found = printed(capsys, painted("a.png"), painted("b.png", grey=20))
    one = {"x": 0.75, "y": 0.5, "shape": "cube", "colour": "blue", "size": "large"}
    assert found == {
        "subject": "zoo:detector",
        "measurements": {},
        "images": [
            {
                "image": "a.png",
                "known": True,
                "objects": [{**one, "material": "metal", "confidence": 0.8}],
            },
            {"image": "b.png", "known": True, "objects": []},
        ],
    }


def test_objects_are_printed_as_a_table(capsys: pytest.CaptureFixture[str]):
    assert command_line.main(["detect", str(painted("a.png")), str(painted("b.png", grey=9))]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "a.png: 1 object",
        "  x      y      shape  colour  size   material  confidence",
        "  0.750  0.500  cube   blue    large  metal     0.800",
        "",
        "b.png: 0 objects",
    ]


def test_objects_below_the_threshold_are_left_out(capsys: pytest.CaptureFixture[str]):
    painted("a.png")
    assert len(printed(capsys, "a.png", "--threshold", "0.79")["images"][0]["objects"]) == 1
    assert printed(capsys, "a.png", "--threshold", "0.81")["images"][0]["objects"] == []


def test_a_folder_stands_for_its_images(capsys: pytest.CaptureFixture[str]):
    Path("some").mkdir()
    names = ["C.PNG", *(f"{letter}.{kind}" for letter in "adehkqxz" for kind in ("jpg", "png"))]
    for name in reversed(names):
        painted(f"some/{name}")
    Path("some/scenes.json").write_text("{}")
    found = [each["image"] for each in printed(capsys, "some")["images"]]
    assert found == [str(Path("some") / name) for name in names]


def test_grey_and_clear_images_are_read_too(capsys: pytest.CaptureFixture[str]):
    for mode in ("L", "RGBA", "P", "1"):
        Image.open(painted("a.png", grey=255)).convert(mode).save(f"{mode}.png")
        (one,) = printed(capsys, f"{mode}.png")["images"][0]["objects"]
        assert (one["x"], one["y"]) == (0.75, 0.5)


def test_marked_images_show_a_dot_at_the_centre(capsys: pytest.CaptureFixture[str]):
    painted("a.png"), painted("b.jpg", grey=9)
    printed(capsys, "a.png", "b.jpg", "--out", "marked")
    assert sorted(path.name for path in Path("marked").iterdir()) == ["a.png", "b.png"]
    picture = Image.open("marked/a.png")
    assert picture.size == (480, 320)
    assert picture.getpixel((360, 160)) == (255, 0, 255)
    assert picture.getpixel((120, 160)) == (0, 0, 0)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "name an image or a folder of images to read"),
        (["gone.png"], "gone.png is not there; expected an image or a folder of images"),
        (["text.png"], "text.png is not an image; expected PNG, JPEG or the like"),
        (["cut.png"], "cut.png is not a whole image: "),
        (["empty"], "empty holds no images; expected .png, .jpg"),
        (["good.png", "--threshold", "1.5"], "--threshold lies in [0, 1]; got 1.5"),
        (["good.png", "--out", "text.png"], "text.png is a file; expected"),
        (["good.png", "good.jpg", "--out", "new"], "good.png and good.jpg would both be written"),
    ],
)
def test_what_cannot_be_read_is_named(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
):
    Path("text.png").write_text("no image")
    whole = painted("good.png", 300, 200).read_bytes()
    painted("good.jpg")
    Path("cut.png").write_bytes(whole[: len(whole) // 2])
    Path("empty").mkdir()
    before = sorted(Path.cwd().rglob("*"))
    assert command_line.main(["detect", *words]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"recombine: {complaint}")
    assert output.err.count("\n") == 1
    assert sorted(Path.cwd().rglob("*")) == before


def test_an_error_half_way_leaves_no_folder(capsys: pytest.CaptureFixture[str]):
    painted("a.png")
    Path("text.png").write_text("no image")
    assert command_line.main(["detect", "a.png", "text.png", "--out", "marked"]) == 2
    assert not Path("marked").exists()
    assert "text.png" in capsys.readouterr().err


def test_pixels_are_fractions_of_white():
    picture = Image.new("RGB", (3, 2), (255, 51, 0))
    assert detect.pixels(picture)[0, :, 1, 2].tolist() == pytest.approx([1, 0.2, 0])


def test_the_reference_images_are_read_beside_their_scenes():
    images, truth = reference("fixed")
    assert images.shape == (50, 3, 128, 128)
    assert truth.present.sum(dim=1).tolist() == [count for count in range(1, 11) for _ in range(5)]


def test_the_shipped_reader_counts_blenders_objects():
    assert measured(shipped())["exact_count"].value >= 0.9


def test_the_shipped_reader_counts_fresh_renders():
    small = DetectorError().panels[0]
    errors = replace(small, samples=16, objects=(0, 3, 9))(shipped(), torch.device("cpu"))
    assert errors["exact_count"].value >= 0.95
    assert errors["recall"].value >= 0.99
    assert errors["colour_accuracy"].value >= 0.99
    assert errors["distance"].value < 0.5
