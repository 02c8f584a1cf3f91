"""The original's placement rules, checked object by object."""

import itertools
from dataclasses import fields, replace

import pytest
import torch

from recombine.render import kernel, raycast
from recombine.render.camera import directions, look_at, places
from recombine.scene import Scenes
from recombine.worlds import clevr
from recombine.worlds.clevr import Clevr, stage

SCENES = Clevr(objects=(2, 8), jitter=True).scenes(torch.arange(24), seed=11)


def gaps(scenes: Scenes):
    """Yield the flat gap of every pair of present objects, and their sizes."""
    for number in range(len(scenes)):
        for a, b in itertools.combinations(scenes.present[number].nonzero()[:, 0].tolist(), 2):
            gap = scenes.position[number, b, :2] - scenes.position[number, a, :2]
            yield number, gap, (scenes.size[number, a] + scenes.size[number, b]).item()


def test_objects_keep_their_distance_and_the_margin():
    axes = directions(look_at(SCENES.camera, torch.zeros_like(SCENES.camera)))
    for number, gap, sizes in gaps(SCENES):
        assert gap.norm() - sizes >= 0.25 - 1e-5
        for name in ("left", "front"):
            assert (gap @ axes[name][number, :2]).abs() >= 0.4 - 1e-5


def test_without_the_margin_only_the_distance_holds():
    scenes = Clevr(objects=(9, 9), margin=False).scenes(torch.arange(6), seed=0)
    assert all(gap.norm() - sizes >= 0.25 - 1e-5 for _, gap, sizes in gaps(scenes))
    axes = directions(look_at(scenes.camera, torch.zeros_like(scenes.camera)))
    along = [(gap @ axes["left"][number, :2]).abs().item() for number, gap, _ in gaps(scenes)]
    assert min(along) < 0.4


def test_twelve_objects_fit_although_the_margin_is_asked_for():
    scenes = Clevr(objects=(12, 12)).scenes(torch.arange(2), seed=0)
    assert scenes.present.sum(dim=1).tolist() == [12, 12]
    assert all(gap.norm() - sizes >= 0.25 - 1e-5 for _, gap, sizes in gaps(scenes))


@pytest.mark.parametrize(("side", "least"), [(128, 43), (64, 11)])
def test_every_object_shows_enough_pixels(side: int, least: int):
    owner, _ = raycast.see(stage(SCENES), side)
    for number in range(len(SCENES)):
        for which in SCENES.present[number].nonzero()[:, 0].tolist():
            assert (owner[number] == which).sum() >= least


def test_objects_stand_on_the_floor_within_the_square():
    present = SCENES.present
    assert torch.equal(SCENES.position[..., 2][present], SCENES.size[present])
    assert (SCENES.position[..., :2][present].abs() <= 3).all()


def test_every_count_and_concept_turns_up():
    scenes = Clevr(objects=(0, 3), margin=False).scenes(torch.arange(300), seed=1)
    assert scenes.present.sum(dim=1).unique().tolist() == [0, 1, 2, 3]
    seen = scenes.concepts[scenes.present]
    assert [column.unique().numel() for column in seen.unbind(1)] == [3, 8, 2, 2]
    sizes = torch.tensor(list(clevr.SIZES.values()))
    assert torch.equal(scenes.size[scenes.present], sizes[seen[:, 3]])


def test_jitter_moves_the_camera_half_a_unit_and_the_lamps_one():
    shift = SCENES.camera - torch.tensor(clevr.EYE)
    assert 0.3 < shift.abs().max() <= 0.5
    lamps = SCENES.lamps - torch.tensor(clevr.LAMP_POSITIONS)
    assert 0.8 < lamps.abs().max() <= 1.0
    still = Clevr(objects=(1, 2)).scenes(torch.arange(3), seed=0)
    assert torch.equal(still.camera, torch.tensor(clevr.EYE).expand(3, 3))


def test_scenes_do_not_depend_on_which_ray_caster_chose_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kernel, "available", lambda device: False)
    slow = Clevr(objects=(2, 8), jitter=True).scenes(torch.arange(24), seed=11)
    for field in fields(Scenes):
        assert torch.equal(getattr(slow, field.name), getattr(SCENES, field.name))


def test_a_place_is_where_the_object_appears():
    scenes = Clevr(objects=(1, 1)).scenes(torch.arange(8), seed=2)
    owner, _ = raycast.see(stage(scenes), 64)
    place, _ = places(scenes)
    for number in range(8):
        column, row = (place[number, 0] * 64).long().tolist()
        assert owner[number, row, column] == 0


def test_only_asked_for_compositions_are_placed():
    only = (("cube", "red", "metal", "small"), ("sphere", "blue", "rubber", "large"))
    scenes = replace(Clevr(objects=(1, 4)), among=only).scenes(torch.arange(20), seed=0)
    kinds = {tuple(row) for row in scenes.concepts[scenes.present].tolist()}
    assert kinds == {(1, 1, 1, 1), (0, 2, 0, 0)}


@pytest.mark.parametrize("objects", [(0, 13), (-1, 3), (5, 2)])
def test_numbers_that_do_not_fit_are_refused(objects: tuple[int, int]):
    with pytest.raises(ValueError, match="holds 0 to 12 objects; got"):
        Clevr(objects=objects)


def test_a_scene_that_cannot_be_placed_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(clevr, "EXTENT", 0.1)
    monkeypatch.setattr(clevr, "ATTEMPTS", 8)
    with pytest.raises(ValueError, match="4 objects were not placed in 8 attempts"):
        Clevr(objects=(4, 4)).scenes(torch.arange(1), seed=0)
