from dataclasses import fields

import pytest
import torch

from recombine.scene import (
    Factor,
    Scenes,
    composition_number,
    compositions,
    concatenate,
    concept_rows,
)
from recombine.worlds.clevr import Clevr

FACTORS = (Factor("shape", ("circle", "triangle")), Factor("colour", ("red", "blue", "green")))


def some(count: int, objects: tuple[int, int] = (1, 4)) -> Scenes:
    return Clevr(objects=objects).scenes(torch.arange(count), seed=5)


def same(one: Scenes, other: Scenes) -> bool:
    return all(torch.equal(getattr(one, f.name), getattr(other, f.name)) for f in fields(Scenes))


def test_without_takes_one_object_away_and_nothing_else():
    scenes = some(6, (3, 3))
    fewer = scenes.without(1)
    assert fewer.present.sum(dim=1).tolist() == [2] * 6
    assert not fewer.present[:, 1].any()
    assert scenes.present.all()
    assert torch.equal(fewer.position, scenes.position)


def test_moved_puts_one_object_elsewhere():
    scenes = some(4, (3, 3))
    to = torch.tensor([1.0, 2.0, 3.0]).expand(4, 3)
    moved = scenes.moved(2, to)
    assert torch.equal(moved.position[:, 2], to)
    assert torch.equal(moved.position[:, :2], scenes.position[:, :2])
    assert not torch.equal(scenes.position[:, 2], to)


def test_slices_join_to_the_whole():
    scenes = some(7)
    assert same(concatenate([scenes[:3], scenes[3:]]), scenes)
    assert same(scenes[torch.tensor([4, 1])][1:], scenes[1:2])
    assert len(scenes[scenes.present[:, 1]]) == int(scenes.present[:, 1].sum())


def test_joining_pads_with_absent_objects():
    joined = concatenate([some(2, (2, 2)), some(3, (4, 4))])
    assert joined.present.sum(dim=1).tolist() == [2, 2, 4, 4, 4]
    assert joined.position.shape == (5, 4, 3)


def test_scenes_do_not_shrink():
    with pytest.raises(ValueError, match="scenes with 4 objects do not fit 3"):
        some(2, (4, 4)).padded(3)


def test_nothing_cannot_be_joined():
    with pytest.raises(ValueError, match="no scenes were given"):
        concatenate([])


def test_a_composition_has_its_number_in_the_list():
    every = compositions(FACTORS)
    assert every[1] == ("circle", "blue")
    assert composition_number(concept_rows(FACTORS, every), FACTORS).tolist() == list(range(6))


def test_unknown_concepts_are_named():
    with pytest.raises(ValueError, match="colour is one of red, blue, green; got 'pink'"):
        concept_rows(FACTORS, [("circle", "pink")])
    with pytest.raises(ValueError, match="one concept each for shape, colour"):
        concept_rows(FACTORS, [("circle",)])


def test_all_of_a_scene_moves_to_a_device():
    assert same(some(2).to("cpu"), some(2))
    assert {getattr(some(2).to("meta"), f.name).device.type for f in fields(Scenes)} == {"meta"}
