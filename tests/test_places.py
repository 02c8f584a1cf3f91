"""Places as conditions: what a grid and a list say, checked by slow loops over objects."""

from dataclasses import fields

import pytest
import torch
from torch import Tensor

from recombine.condition import (
    Conditioner,
    EncodesPlaces,
    Grid,
    List,
    ShuffledSlots,
    Slots,
    all_objects_shuffled,
    no_object,
    one_object,
)
from recombine.render.camera import places
from recombine.scene import PER_OBJECT, Scenes
from recombine.worlds.clevr import Clevr

WORLD = Clevr(size=64, objects=(0, 5), margin=False)
ENCODERS = [Grid(), Grid(5), List(), List(5)]


@pytest.fixture
def scenes() -> Scenes:
    return WORLD.scenes(torch.arange(40), seed=2)


def told_places(scenes: Scenes) -> list[list[tuple[float, float]]]:
    place, _ = places(scenes)
    return [
        [tuple(xy) for xy, there in zip(all_xy, present, strict=True) if there]
        for all_xy, present in zip(place.tolist(), scenes.present.tolist(), strict=True)
    ]


@pytest.mark.parametrize("cells", [1, 5, 16])
def test_a_grid_has_a_one_in_the_cell_of_each_object(cells: int, scenes: Scenes):
    grid = Grid(cells)(scenes)
    expected = torch.zeros(len(scenes), cells, cells)
    for number, told in enumerate(told_places(scenes)):
        for x, y in told:
            expected[number, int(y * cells), int(x * cells)] = 1
    torch.testing.assert_close(grid, expected)


def test_a_list_has_the_places_from_the_front_and_then_zeros(scenes: Scenes):
    entries = List(7)(scenes)
    assert entries.shape == (40, 7, 3)
    for rows, told in zip(entries.tolist(), told_places(scenes), strict=True):
        assert [tuple(row[:2]) for row in rows[: len(told)]] == told
        assert [row[2] for row in rows] == [1.0] * len(told) + [0.0] * (7 - len(told))
        assert rows[len(told) :] == [[0.0] * 3] * (7 - len(told))


def test_absent_objects_leave_no_gap_in_a_list():
    place = torch.tensor([[[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]])
    entries = List(3).at(place, torch.tensor([[False, True, True]]))
    torch.testing.assert_close(entries[0, :, :2], torch.tensor([[0.3, 0.4], [0.5, 0.6], [0, 0]]))


@pytest.mark.parametrize("encode", ENCODERS)
def test_an_absent_object_says_nothing_even_if_it_is_nowhere(encode: EncodesPlaces):
    place, present = torch.tensor([[[0.1, 0.9], [0.6, 0.3]]]), torch.tensor([[True, False]])
    nowhere = place.clone()
    nowhere[0, 1] = torch.nan
    torch.testing.assert_close(encode.at(nowhere, present), encode.at(place, present))
    alone = encode.at(place[:, :1], present[:, :1])
    torch.testing.assert_close(encode.at(place, present), alone)


@pytest.mark.parametrize("encode", ENCODERS)
@pytest.mark.parametrize("outside", [(-0.01, 0.5), (0.5, 1.0), (0.5, -3.0), (1.7, 0.2)])
def test_an_object_outside_the_image_is_left_out(encode: EncodesPlaces, outside: tuple):
    place, present = torch.tensor([[[0.2, 0.3], list(outside)]]), torch.ones(1, 2, dtype=torch.bool)
    torch.testing.assert_close(encode.at(place, present), encode.at(place[:, :1], present[:, :1]))
    assert encode.requested(place, present)[1].tolist() == [[True, False]]


def test_two_objects_in_one_cell_are_requested_as_one():
    place = torch.tensor([[[0.01, 0.02], [0.9, 0.1], [0.03, 0.05], [0.04, 0.04]]])
    present = torch.tensor([[True, True, True, False]])
    assert Grid(4).at(place, present).sum() == 2
    where, told = Grid(4).requested(place, present)
    assert told.tolist() == [[True, True, False, False]]
    torch.testing.assert_close(where[0, :2], torch.tensor([[0.125, 0.125], [0.875, 0.125]]))
    # The first that is there speaks for the cell, not the first of all.
    assert Grid(4).requested(place, ~present)[1].tolist() == [[False, False, False, True]]


@pytest.mark.parametrize("encode", ENCODERS)
def test_requested_places_give_the_same_condition(encode: EncodesPlaces, scenes: Scenes):
    place, present = places(scenes)[0], scenes.present
    again = encode.at(*encode.requested(place, present))
    torch.testing.assert_close(again.sum(dim=1), encode.at(place, present).sum(dim=1))


def test_a_random_order_keeps_every_object_whole(scenes: Scenes):
    mixed = all_objects_shuffled(scenes, torch.Generator().manual_seed(1))
    for number in range(len(scenes)):
        before, after = ({row(each, number, k) for k in range(5)} for each in (scenes, mixed))
        assert before == after
    for each in fields(scenes):
        if each.name not in PER_OBJECT:
            assert getattr(mixed, each.name) is getattr(scenes, each.name)


def row(scenes: Scenes, number: int, index: int) -> str:
    return str([getattr(scenes, name)[number, index].tolist() for name in PER_OBJECT])


def test_every_object_is_first_equally_often(scenes: Scenes):
    one = WORLD.scenes(torch.arange(200), seed=0)
    one = one[one.present.sum(dim=1) == 3][:1][torch.zeros(3000, dtype=torch.int64)]
    tell = Conditioner(all_objects_shuffled, List())
    first = tell(one, torch.Generator().manual_seed(5))[:, 0, :2]
    for place in places(one)[0][0, :3]:
        share = (first == place).all(dim=1).float().mean()
        assert share == pytest.approx(1 / 3, abs=0.04)


@pytest.mark.parametrize("encode", ENCODERS)
def test_what_is_selected_decides_what_is_encoded(encode: EncodesPlaces, scenes: Scenes):
    rng = torch.Generator().manual_seed(3)
    silent = Conditioner(no_object, encode)(scenes, rng)
    assert not silent.any()
    one = Conditioner(one_object, encode)(scenes, rng)
    count = one.sum(dim=(1, 2)) if isinstance(encode, Grid) else one[..., 2].sum(dim=1)
    assert count.tolist() == scenes.present.any(dim=1).float().tolist()


def test_slots_keep_each_object_where_it_stands():
    place = torch.tensor([[[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]])
    entries = Slots(4).at(place, torch.tensor([[False, True, True]]))
    expected = [[0.0] * 3, [0.3, 0.4, 1.0], [0.5, 0.6, 1.0], [0.0] * 3]
    assert torch.equal(entries, torch.tensor([expected]))
    with pytest.raises(ValueError, match="3 objects do not stand in 2 slots"):
        Slots(2).at(place, torch.tensor([[True, False, False]]))


def test_anywhere_fills_every_slot_equally_often_and_loses_nothing(scenes: Scenes):
    generator, filled = torch.Generator().manual_seed(0), torch.zeros(7)
    for _ in range(100):
        entries = Slots(7)(ShuffledSlots(7)(scenes, generator))
        filled += entries[..., 2].sum(dim=0)
        kept = [sorted(map(tuple, rows[rows[:, 2] > 0, :2].tolist())) for rows in entries]
        assert kept == [sorted(told) for told in told_places(scenes)]
    # Of several thousand objects a seventh each; four standard deviations are allowed.
    share, objects = filled / filled.sum(), float(filled.sum())
    assert (share - 1 / 7).abs().max() < 4 * (1 / 7 * 6 / 7 / objects) ** 0.5


def test_a_list_that_is_too_short_says_so(scenes: Scenes):
    with pytest.raises(ValueError, match="a list of length 3 cannot hold 5 objects"):
        List(3)(scenes)
    few: Tensor = scenes.present.sum(dim=1) <= 3
    assert List(3)(scenes[few]).shape[1:] == (3, 3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [(lambda: Grid(0), "1 cell to a side; got 0"), (lambda: List(0), "1 object; got 0")],
)
def test_an_encoder_that_cannot_be_is_refused(wrong, message: str):
    with pytest.raises(ValueError, match=message):
        wrong()
