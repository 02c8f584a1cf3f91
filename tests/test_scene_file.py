"""Scenes survive the way to disk and back; files that are not scenes say why."""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch

from recombine.scene import Scenes, World
from recombine.worlds import WORLDS, clevr
from recombine.worlds.clevr import Clevr
from recombine.worlds.scene_file import read, write

FOLDER = Path(__file__).parent / "data/clevr_reference"


def through_json(scenes: Scenes, world: World) -> tuple[Scenes, list[str]]:
    names = [f"{number}.png" for number in range(len(scenes))]
    return read(json.loads(json.dumps(write(scenes, world, names))), world)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_scenes_read_back_identical(world: World):
    scenes = world.scenes(torch.arange(5), seed=4)
    back, names = through_json(scenes, world)
    assert names == [f"{number}.png" for number in range(5)]
    here = scenes.present
    for field in fields(Scenes):
        ours, theirs = getattr(scenes, field.name), getattr(back, field.name)
        if field.name in ("backdrop", "camera", "lamps"):
            assert torch.equal(ours, theirs), field.name
        else:
            assert torch.equal(theirs[back.present], ours[here]), field.name


def test_jitter_is_recorded():
    world = Clevr(jitter=True, objects=(1, 1))
    scenes = world.scenes(torch.arange(3), seed=4)
    back, _ = through_json(scenes, world)
    assert torch.equal(back.camera, scenes.camera)
    assert torch.equal(back.lamps, scenes.lamps)


def originals(split: str) -> dict:
    return json.loads((FOLDER / f"{split}_scenes.json").read_text())


def test_what_we_derive_is_what_the_original_wrote():
    data = originals("fixed")
    scenes, names = read(data, Clevr())
    ours = write(scenes, Clevr(), names)["scenes"]
    for one, other in zip(ours, data["scenes"], strict=True):
        assert one["relationships"] == other["relationships"]
        for name, axis in other["directions"].items():
            assert one["directions"][name] == pytest.approx(axis, abs=1e-4)
        for mine, theirs in zip(one["objects"], other["objects"], strict=True):
            assert mine["3d_coords"] == pytest.approx(theirs["3d_coords"], abs=1e-6)
            assert mine["pixel_coords"][2] == pytest.approx(theirs["pixel_coords"][2], abs=1e-3)
            assert mine["pixel_coords"][:2] == pytest.approx(theirs["pixel_coords"][:2], abs=1)
            assert all(mine[key] == theirs[key] for key in ("shape", "size", "material", "color"))


def test_a_camera_that_was_not_recorded_is_recovered():
    world = Clevr(jitter=True, objects=(2, 6))
    scenes = world.scenes(torch.arange(12), seed=9)
    data = write(scenes, world, [f"{number}.png" for number in range(12)])
    for entry in data["scenes"]:
        del entry["camera"]
    back, _ = read(data, world)
    torch.testing.assert_close(back.camera, scenes.camera, atol=5e-3, rtol=0)


def test_a_camera_is_recovered_from_pixels_of_another_size():
    # Two depths leave one degree of freedom, which only the pixels settle.
    world = Clevr(size=128, jitter=True, objects=(2, 2))
    scenes = world.scenes(torch.arange(4), seed=9)
    data = write(scenes, replace(world, size=480), [f"{number}.png" for number in range(4)])
    del data["info"]
    for entry in data["scenes"]:
        del entry["camera"], entry["directions"]
        for one in entry["objects"]:
            one["pixel_coords"][1] -= 80  # the original's images are 480 wide and 320 high
    back, _ = read(data, world, (480, 320))
    torch.testing.assert_close(back.camera, scenes.camera, atol=5e-2, rtol=0)


def test_pixels_of_an_image_of_unknown_size_do_not_mislead():
    """Depths and directions are exact; pixels that cannot be right are left out."""
    world = Clevr(size=128, jitter=True, objects=(2, 6))
    scenes = world.scenes(torch.arange(6), seed=9)
    data = write(scenes, replace(world, size=480), [f"{number}.png" for number in range(6)])
    for entry in data["scenes"]:
        del entry["camera"]
    back, _ = read(data, world, 128)
    torch.testing.assert_close(back.camera, scenes.camera, atol=5e-2, rtol=0)


def test_one_object_leaves_the_camera_at_its_base():
    scenes, _ = read(originals("jittered"), Clevr())
    single = scenes.present.sum(dim=1) < 2
    assert torch.equal(scenes.camera[single], torch.tensor(clevr.EYE).expand(4, 3))
    assert not torch.equal(scenes.camera[~single][0], torch.tensor(clevr.EYE))


def broken(path: str, value: object) -> dict:
    """Return a good file with one thing changed: a path of keys, ended by what to put there."""
    data = originals("fixed")
    data["scenes"] = data["scenes"][-1:]
    *way, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    target = data
    for key in way:
        target = target[key]
    if value is KeyError:
        del target[last]
    else:
        target[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("scenes", KeyError, "the file has no 'scenes'"),
        ("scenes", 3, "scenes is not a list"),
        ("scenes", [], "holds no scenes"),
        ("scenes/0", 7, "scene 0 is not a JSON object"),
        ("scenes/0/objects", KeyError, "scene 0 has no 'objects'"),
        ("scenes/0/objects/2/shape", "cone", "scene 0, object 2: shape is one of"),
        ("scenes/0/objects/2/shape", "circle", "scene 0, object 2: shape is one of"),
        ("scenes/0/objects/1/color", "pink", "scene 0, object 1: colour is one of gray"),
        ("scenes/0/objects/1/size", 3, "size is one of large, small; got '3'"),
        ("scenes/0/objects/0/3d_coords", [1, 2], "3d_coords: expected 3 finite numbers"),
        ("scenes/0/objects/0/3d_coords", [1, 2, float("nan")], "expected 3 finite numbers"),
        ("scenes/0/objects/0/rotation", "left", "rotation: expected 1 finite numbers"),
        ("scenes/0/objects/0/pixel_coords", KeyError, "object 0 has no 'pixel_coords'"),
        ("scenes/0/image_filename", KeyError, "scene 0 has no 'image_filename'"),
        ("scenes/0/image_filename", "", "image_filename is a name"),
        ("scenes/0/camera", [1, 2], "camera: expected 3 finite numbers"),
        ("scenes/0/lamps", 5, "lamps is not a list"),
    ],
)
def test_a_malformed_file_says_where_and_what(path: str, value: object, message: str):
    with pytest.raises(ValueError, match=message):
        read(broken(path, value), Clevr())


@pytest.mark.parametrize("data", [None, [], 3, "scenes"])
def test_what_is_no_scene_file_is_refused(data: object):
    with pytest.raises(ValueError, match="the file is not a JSON object"):
        read(data, Clevr())
