"""Own images: a folder of real files and a table of labels is a world like any other."""

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dataset_files import COLOURS, SHAPES, drawn, write_images
from recombine.data import Files, LabelledFiles, Stream, batch_of
from recombine.measure.renders import fresh, means
from recombine.scene import Factor, World
from recombine.spelling import spelled
from recombine.split import Split, leaks
from recombine.worlds.files import images as module
from recombine.worlds.files.images import ImageFolder

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("own") / "images")


@pytest.fixture
def one(tmp_path: Path) -> Path:
    """Return a folder with one image, a.png."""
    drawn("disc", "red", 0).save(tmp_path / "a.png")
    (tmp_path / "labels.csv").write_text("file,shape\na.png,disc\n")
    return tmp_path


def test_own_images_are_used_in_five_lines(folder: Path):
    images = ImageFolder(folder, labels="labels.csv", size=16)
    split = Split("mine", images.factors, seen=(("disc", "red"), ("disc", "blue")))
    stream = Stream(replace(images, among=split.seen), batch=8, seed=0)
    batch = next(leaks(stream, split))
    assert batch.image.shape == (8, 3, 16, 16)
    assert split.holds(batch.scenes).all()


def test_columns_are_factors_and_their_values_concepts(folder: Path):
    images = ImageFolder(str(folder))
    assert images.factors == (Factor("shape", SHAPES), Factor("colour", COLOURS))
    assert isinstance(images, Files)
    assert isinstance(images, LabelledFiles)
    assert isinstance(images, World)


def test_a_stream_that_leaks_is_told_from_one_that_does_not(folder: Path):
    split = Split("mine", ImageFolder(folder).factors, seen=(("disc", "red"),))
    with pytest.raises(ValueError, match="is not among what split mine shows"):
        list(islice(leaks(Stream(ImageFolder(folder, size=8), 8, 0), split), 4))


def test_labels_belong_to_their_images(folder: Path):
    images = ImageFolder(folder, size=16, part="all")
    batch = batch_of(images, torch.arange(60), seed=3)
    strongest = batch.image[:, :, 8, 8].argmax(dim=1)
    names = [COLOURS[each] for each in batch.scenes.concepts[:, 0, 1]]
    assert [("red", "green", "blue")[each] for each in strongest] == names


def test_a_world_and_its_files_give_the_same_images(folder: Path):
    images, index = ImageFolder(folder, size=16), torch.arange(30)
    scenes = images.scenes(index, seed=4)
    batch = batch_of(images, index, seed=4)
    assert torch.equal(images.image(scenes), batch.image)
    assert torch.equal(scenes.concepts, batch.scenes.concepts)
    assert torch.equal(images.image(scenes[7:9]), batch.image[7:9])
    assert len(batch.image.flatten(1).unique(dim=0)) == 30


def test_every_image_is_in_one_part_and_each_composition_is_tested(folder: Path):
    parts = {part: ImageFolder(folder, part=part) for part in ("train", "test", "all")}
    names = {part: set(each._mine[1]) for part, each in parts.items()}
    assert names["train"] | names["test"] == names["all"]
    assert not names["train"] & names["test"]
    assert {part: len(each) for part, each in parts.items()} == {"train": 48, "test": 12, "all": 60}
    scenes = parts["test"].scenes_of(torch.arange(12))
    assert scenes.concepts[:, 0].unique(dim=0, return_counts=True)[1].tolist() == [2] * 6


def test_parts_do_not_depend_on_the_order_of_the_rows(folder: Path, tmp_path: Path):
    head, *rows = (folder / "labels.csv").read_text().splitlines()
    (tmp_path / "turned.csv").write_text("\n".join([head, *rows[::-1]]))
    turned = ImageFolder(folder, labels=tmp_path / "turned.csv", part="test")
    assert set(turned._mine[1]) == set(ImageFolder(folder, part="test")._mine[1])


@pytest.mark.parametrize(("tested", "count"), [(0.0, 0), (0.26, 3), (0.24, 2), (1.0, 10)])
def test_the_share_that_is_tested_is_rounded(folder: Path, tested: float, count: int):
    images = ImageFolder(folder, among=(("disc", "red"),), tested=tested)
    for part, length in (("test", count), ("train", 10 - count)):
        if length:
            assert len(replace(images, part=part)) == length
        else:
            with pytest.raises(ValueError, match=f"no image of the {part} part"):
                len(replace(images, part=part))


def test_what_is_fresh_was_kept_for_testing(folder: Path):
    images = ImageFolder(folder, size=16, among=(("disc", "red"),))
    seen = images.image_of(torch.arange(len(images)))
    kept = fresh(images, ("disc", "red"), 2, CPU)
    assert (kept[:, None] != seen).flatten(2).any(dim=2).all()
    with pytest.raises(ValueError, match="disc, red has 2 images for testing; 3 are needed"):
        fresh(images, ("disc", "red"), 2, CPU, first=1)


def test_a_condition_needs_no_image(one: Path):
    factors = (Factor("shape", ("disc", "star")),)
    scenes = means(ImageFolder(one, known=factors), ("star",), 3, CPU)
    assert scenes.concepts[:, 0].tolist() == [[1]] * 3


def square_of(image: Image.Image, tmp_path: Path, name: str = "a.png", **settings: Any) -> Any:
    """Return what an image becomes, as bytes."""
    image.save(tmp_path / name, **settings.pop("saved", {}))
    (tmp_path / "labels.csv").write_text(f"file,shape\n{name},disc\n")
    images = ImageFolder(tmp_path, part="all", **settings)
    return (images.image_of(torch.tensor([0]))[0] * 255).round().to(torch.uint8)


def stripes(width: int, height: int) -> Image.Image:
    """Return an image whose red is its column and whose green is its row."""
    rows, columns = np.mgrid[:height, :width]
    return Image.fromarray(np.stack([columns, rows, 0 * rows], axis=2).astype(np.uint8))


def test_the_middle_square_is_kept(tmp_path: Path):
    kept = square_of(stripes(60, 40), tmp_path, size=40)
    assert kept[0, 0, [0, -1]].tolist() == [10, 49]
    assert kept[1, [0, -1], 0].tolist() == [0, 39]
    tall = square_of(stripes(40, 60), tmp_path, size=40)
    assert tall[1, [0, -1], 0].tolist() == [10, 49]


def test_a_stretched_image_is_whole(tmp_path: Path):
    kept = square_of(stripes(60, 40), tmp_path, size=40, fit="stretch")
    whole = stripes(60, 40).resize((40, 40), Image.Resampling.BICUBIC)
    assert torch.equal(kept, torch.from_numpy(np.array(whole)).permute(2, 0, 1))


def test_what_is_transparent_is_laid_on_white(tmp_path: Path):
    pixels = np.zeros((4, 4, 4), dtype=np.uint8)
    pixels[:, 2:, 3] = 255
    kept = square_of(Image.fromarray(pixels), tmp_path, size=4)
    assert kept[:, 0].tolist() == [[255, 255, 0, 0]] * 3


def test_an_image_is_turned_as_its_camera_notes(tmp_path: Path):
    exif = Image.Exif()
    exif[0x0112] = 3
    kept = square_of(stripes(8, 8), tmp_path, size=8, saved={"exif": exif})
    assert kept[0, 0].tolist() == [7, 6, 5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.tiff", "a.webp"])
@pytest.mark.parametrize("mode", ["RGB", "L", "P", "CMYK", "1"])
def test_formats_and_modes_that_are_read(name: str, mode: str, tmp_path: Path):
    shown = drawn("square", "red", 0, (16, 16)).convert("RGB" if mode == "RGB" else mode)
    try:
        kept = square_of(shown, tmp_path, name, size=16)
    except OSError:
        pytest.skip(f"{name} does not hold {mode}")
    expected = torch.from_numpy(np.array(shown.convert("RGB"))).permute(2, 0, 1)
    assert (kept.int() - expected.int()).abs().float().mean() < 12


@pytest.mark.parametrize(
    ("image", "settings", "message"),
    [
        (Image.new("I;16", (4, 4)), {}, "has pixels in mode I;16; expected 8 bits a channel"),
        (Image.new("RGB", (4, 4)), {"name": "a.gif"}, "is not a whole PNG or JPEG or TIFF or WEBP"),
        (
            Image.new("L", (4, 4)),
            {
                "name": "a.tiff",
                "saved": {"save_all": True, "append_images": [Image.new("L", (4, 4))]},
            },
            "has 2 frames; expected 1",
        ),
        (Image.new("L", (9, 9)), {}, "has 9x9 pixels; expected at most 80"),
    ],
)
def test_images_that_are_not_read_are_named(
    image: Any, settings: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "MOST_PIXELS", 80)
    with pytest.raises(ValueError, match=rf"{settings.get('name', 'a.png')} {message}"):
        square_of(image, tmp_path, **settings)


ROWS = "file,shape\na.png,disc\n"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("", r"line 1 names the columns \(none\); expected one called file"),
        ("name,shape\na.png,disc\n", "line 1 names the columns name, shape; expected one called"),
        ("file\na.png\n", "line 1 names the columns file; expected one called"),
        ("file,shape,shape\na.png,a,b\n", "line 1 names the columns file, shape, shape"),
        ("file,shape\n", "there are no rows; expected one for each image"),
        (ROWS + "b.png,disc\n", "line 3: .*b.png is missing"),
        (ROWS + "\n\na.png,square\n", "line 5 names a.png, as line 2 does"),
        (ROWS + "a.png\n", "line 3 has 1 entries; expected 2"),
        (ROWS + "b.png,\n", "line 3 has no shape; got ''"),
        (ROWS + "b.png,di\x07sc\n", r"line 3 has no shape; got 'di\\x07sc'"),
        (ROWS + "../a.png,disc\n", "line 3: '../a.png' is not the name of a file below"),
        (ROWS + "/a.png,disc\n", "line 3: '/a.png' is not the name of a file below"),
        (ROWS + 'b.png,"disc\n', "line 3 is not of a table: unexpected end of data"),
    ],
)
def test_a_bad_row_is_named_by_its_line(table: str, message: str, one: Path):
    (one / "labels.csv").write_text(table)
    with pytest.raises(ValueError, match=rf"labels.csv: {message}"):
        len(ImageFolder(one))


def test_an_unknown_value_is_named_by_its_line_where_the_factors_are_known(one: Path):
    known = (Factor("shape", ("square", "disk")),)
    with pytest.raises(ValueError, match="line 2: shape is one of square, disk; got 'disc'"):
        len(ImageFolder(one, known=known))
    with pytest.raises(ValueError, match="the factors are shape; expected colour"):
        len(ImageFolder(one, known=(Factor("colour", ("disc",)),)))
    order = (Factor("shape", ("square", "disc")),)
    assert ImageFolder(one, known=order, part="all").scenes_of(torch.tensor([0])).concepts == 1


def test_a_table_from_a_spreadsheet_is_read(one: Path):
    (one / "labels.csv").write_bytes("\ufefffile,shape\r\na.png , disc\r\n".encode())
    assert ImageFolder(one).factors == (Factor("shape", ("disc",)),)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 0}, "a side of at least 1 pixel; got 0"),
        ({"fit": "pad"}, "fit is one of crop, stretch; got 'pad'"),
        ({"part": "dev"}, "part is one of train, test, all; got 'dev'"),
        ({"tested": 1.5}, "from 0 to 1; got 1.5"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: Any, message: str):
    with pytest.raises(ValueError, match=message):
        ImageFolder("nowhere", **settings)


@pytest.mark.parametrize(
    ("folder", "settings", "message"),
    [
        ("nowhere", {}, "nowhere is not a folder"),
        (".", {"labels": "none.csv"}, "none.csv is missing: a table of file and factors"),
        (".", {"among": (("star",),)}, "shape is one of disc; got 'star'"),
    ],
)
def test_what_is_missing_is_named(folder: str, settings: Any, message: str, one: Path):
    with pytest.raises(ValueError, match=message):
        len(ImageFolder(one / folder, **settings))


def test_a_training_depends_on_the_labels_and_not_on_the_folder(one: Path, tmp_path: Path):
    before = spelled(ImageFolder(one))
    (tmp_path / "moved").mkdir()
    for name in ("a.png", "labels.csv"):
        (tmp_path / "moved" / name).write_bytes((one / name).read_bytes())
    assert spelled(ImageFolder(tmp_path / "moved", "labels.csv")) == before
    assert spelled(ImageFolder(one, size=32)) != before
    assert spelled(ImageFolder(one, part="all")) != before
    (one / "labels.csv").write_text("file,shape\na.png,star\n")
    assert spelled(ImageFolder(one)) != before


def test_a_large_folder_is_not_kept_in_memory(folder: Path, monkeypatch: pytest.MonkeyPatch):
    images = ImageFolder(folder, size=8)
    whole = images.image_of(torch.arange(4))
    assert len(images._decoded) == 4
    monkeypatch.setattr(module, "KEPT", len(images) * 3 * 64 - 1)
    large = ImageFolder(folder, size=8)
    assert torch.equal(large.image_of(torch.arange(4)), whole)
    assert not large._decoded
