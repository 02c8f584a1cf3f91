import sys
from dataclasses import fields
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from dataset_files import images_3d, labels_3d, named, write_shapes3d
from recombine.scene import Scenes, compositions
from recombine.worlds.files.shapes3d_h5 import COLUMNS, Shapes3DFile
from recombine.worlds.shapes3d import SHAPES3D_240, Shapes3D, hue_colours


@pytest.mark.parametrize("chunks", [None, (4, 64, 64, 3), (5, 4, 4, 1)])
def test_3dshapes_are_read_however_they_are_packed(tmp_path: Path, chunks, monkeypatch):
    monkeypatch.setattr("recombine.worlds.files.shapes3d_h5.MANY", 4)
    shapes = Shapes3DFile(write_shapes3d(tmp_path / "3dshapes.h5", chunks))
    number = torch.tensor([7, 0, 11, 7])
    expected = torch.from_numpy(images_3d()).permute(0, 3, 1, 2)[number] / 255
    assert len(shapes) == 12
    torch.testing.assert_close(shapes.image_of(number), expected, atol=1e-7, rtol=0)


@pytest.mark.parametrize("chunks", [None, (5, 4, 4, 1)])
def test_3dshapes_keep_the_asked_compositions(tmp_path: Path, chunks, monkeypatch):
    monkeypatch.setattr("recombine.worlds.files.shapes3d_h5.MANY", 4)
    path = write_shapes3d(tmp_path / "3dshapes.h5", chunks)
    whole = Shapes3DFile(path)
    every = named(whole.scenes_of(torch.arange(12)), whole.factors)
    chosen = [10, 3, 6]
    part = Shapes3DFile(path, among=tuple(every[number] for number in chosen))
    assert len(part) == 3
    assert named(part.scenes_of(torch.arange(3)), part.factors) == [every[n] for n in (3, 6, 10)]
    assert torch.equal(part.image_of(torch.tensor([2, 0])), whole.image_of(torch.tensor([10, 3])))


def test_3dshapes_name_each_label_as_published(tmp_path: Path):
    shapes = Shapes3DFile(write_shapes3d(tmp_path / "3dshapes.h5"))
    found = named(shapes.scenes_of(torch.arange(12)), shapes.factors)
    assert found[0] == ("red", "cube", "scale0")
    assert found[1] == ("indigo", "cylinder", "scale5")
    assert found[2] == ("green", "sphere", "scale2")
    assert found[11] == ("indigo", "capsule", "scale7")


def test_a_scene_from_the_file_is_the_scene_our_world_makes_of_the_same_labels(tmp_path: Path):
    made = Shapes3D().scenes(torch.arange(12), seed=0)
    labels = np.zeros((12, 6))
    hue, shape, scale = made.concepts[:, 0].T.numpy()
    floor, wall = torch.cdist(made.backdrop, hue_colours(torch.device("cpu"))).argmin(2).T.numpy()
    labels[:, 0], labels[:, 1], labels[:, 2] = floor / 10, wall / 10, hue / 10
    labels[:, 3], labels[:, 4] = 0.75 + 0.5 / 7 * scale, shape
    labels[:, 5] = torch.atan2(made.camera[:, 0], -made.camera[:, 1]).rad2deg().numpy()
    read = Shapes3DFile(write_shapes3d(tmp_path / "a.h5", labels=labels)).scenes_of(
        torch.arange(12)
    )
    for field in fields(Scenes):
        torch.testing.assert_close(getattr(read, field.name), getattr(made, field.name))


def test_the_compositions_of_the_file_are_those_of_the_240_cell_split():
    assert Shapes3DFile.factors == SHAPES3D_240.factors
    assert len(compositions(Shapes3DFile.factors)) == 320


def changed(column: int, value: float) -> np.ndarray:
    labels = labels_3d()
    labels[5, column] = value
    return labels


@pytest.mark.parametrize(
    ("column", "value"),
    [(0, 1.0), (2, 0.45), (3, 0.7), (3, 1.3), (4, 4.0), (4, -1.0), (5, 31.0), (2, float("nan"))],
)
def test_a_label_that_was_never_published_is_refused(tmp_path: Path, column: int, value: float):
    path = write_shapes3d(tmp_path / "a.h5", labels=changed(column, value))
    with pytest.raises(ValueError, match=f"{COLUMNS[column][0]} of image 5 is {value:g}; expected"):
        len(Shapes3DFile(path))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"images": np.zeros((12, 32, 32, 3), np.uint8)}, r"uint8 \(12, 32, 32, 3\); expected"),
        ({"images": np.zeros((12, 64, 64, 3), np.float32)}, "images are float32"),
        (
            {"images": np.zeros((11, 64, 64, 3), np.uint8)},
            r"labels are .* expected floats \(11, 6\)",
        ),
        ({"images": np.uint8(3)}, r"images are uint8 \(\)"),
        ({"labels": np.zeros((12, 5))}, r"float64 \(12, 5\); expected floats \(12, 6\)"),
        ({"labels": np.zeros((12, 6), np.int64)}, "labels are int64"),
        (
            {"images": np.zeros((0, 64, 64, 3), np.uint8), "labels": np.zeros((0, 6))},
            "has 0 images; expected 1 to 480000",
        ),
    ],
)
def test_an_h5_file_of_wrong_arrays_is_refused(tmp_path: Path, changes: dict, line: str):
    path = write_shapes3d(tmp_path / "a.h5", **changes)
    with pytest.raises(ValueError, match=line):
        len(Shapes3DFile(path))


@pytest.mark.parametrize("key", ["images", "labels"])
def test_an_h5_file_without_a_key_is_refused(tmp_path: Path, key: str):
    path = write_shapes3d(tmp_path / "a.h5")
    with h5py.File(path, "a") as file:
        file.move(key, "other")
    with pytest.raises(ValueError, match=f"a.h5 has no data '{key}' of its own; found"):
        len(Shapes3DFile(path))


def test_an_h5_file_that_points_at_other_files_is_refused(tmp_path: Path):
    other = write_shapes3d(tmp_path / "other.h5")
    for number, kind in enumerate(["link", "external", "virtual", "group"]):
        path = tmp_path / f"{number}.h5"
        with h5py.File(path, "w") as file:
            file["labels"] = labels_3d()
            shape = (12, 64, 64, 3)
            if kind == "link":
                file["images"] = h5py.ExternalLink(str(other), "images")
            elif kind == "external":
                place = [(str(other), 0, h5py.h5f.UNLIMITED)]
                file.create_dataset("images", shape, np.uint8, external=place)
            elif kind == "virtual":
                layout = h5py.VirtualLayout(shape, np.uint8)
                layout[:] = h5py.VirtualSource(str(other), "images", shape)
                file.create_virtual_dataset("images", layout)
            else:
                file.create_group("images")
        with pytest.raises(ValueError, match=r"of its own|lies in this file"):
            len(Shapes3DFile(path))


def test_h5_arrays_too_large_to_be_true_are_refused(tmp_path: Path):
    path = tmp_path / "a.h5"
    for count, chunk, line in [(480_001, 1, "480001 images"), (24_000, 24_000, "has chunks")]:
        with h5py.File(path, "w") as file:
            file.create_dataset("images", (count, 64, 64, 3), np.uint8, chunks=(chunk, 64, 64, 3))
            file.create_dataset("labels", (count, 6), np.float64, chunks=(1, 6))
        with pytest.raises(ValueError, match=line):
            len(Shapes3DFile(path))


def test_a_missing_or_broken_h5_file_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="a.h5 is missing; expected 3dshapes.h5"):
        len(Shapes3DFile(tmp_path / "a.h5"))
    path = write_shapes3d(tmp_path / "a.h5", (1, 64, 64, 3))
    whole = path.read_bytes()
    for content in (b"", b"not an h5 file", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="a.h5 is not a whole HDF5 file"):
            len(Shapes3DFile(path))


def test_damaged_pixels_in_an_h5_file_are_named(tmp_path: Path):
    path = write_shapes3d(tmp_path / "a.h5", (12, 64, 64, 3))
    with h5py.File(path) as file:
        start = file["images"].id.get_chunk_info(0).byte_offset
    data = bytearray(path.read_bytes())
    data[start : start + 500] = bytes(500)
    path.write_bytes(data)
    with pytest.raises(ValueError, match="a.h5 is not a whole HDF5 file"):
        Shapes3DFile(path).image_of(torch.tensor([0]))


def test_without_h5py_the_line_says_how_to_get_it(tmp_path: Path, monkeypatch):
    path = write_shapes3d(tmp_path / "a.h5")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ValueError, match=r"read with h5py: pip install 'recombine\[h5\]'"):
        len(Shapes3DFile(path))


def test_a_composition_the_file_does_not_hold_is_refused(tmp_path: Path):
    path = write_shapes3d(tmp_path / "a.h5")
    with pytest.raises(ValueError, match="no image is of a wanted composition"):
        len(Shapes3DFile(path, among=(("red", "sphere", "scale7"),)))
