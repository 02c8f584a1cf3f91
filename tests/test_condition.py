"""What every teller and encoder keeps to."""

from dataclasses import fields, replace

import pytest
import torch

from recombine.condition import (
    Conditioner,
    Encode,
    ScaledValues,
    Select,
    Values,
    all_objects,
    no_object,
    one_object,
)
from recombine.scene import Scenes
from recombine.worlds.circles import Circles

ENCODERS = [Values(objects=3), Values(objects=5), ScaledValues(objects=3)]
TELLERS = [all_objects, one_object, no_object]


def scenes_with(present: torch.Tensor, rng: torch.Generator) -> Scenes:
    batch, objects = present.shape
    return Scenes(
        position=torch.rand(batch, objects, 2, generator=rng),
        size=torch.rand(batch, objects, generator=rng) + 0.1,
        rotation=torch.zeros(batch, objects),
        colour=torch.rand(batch, objects, 3, generator=rng),
        shape=torch.zeros(batch, objects, dtype=torch.int64),
        material=torch.zeros(batch, objects, dtype=torch.int64),
        concepts=torch.zeros(batch, objects, 1, dtype=torch.int64),
        present=present,
        backdrop=torch.ones(batch, 1, 3),
        camera=torch.zeros(batch, 3),
        lamps=torch.zeros(batch, 0, 3),
    )


@pytest.fixture
def scenes(rng: torch.Generator) -> Scenes:
    return scenes_with(torch.tensor([[True, True, True], [True, False, True]]), rng)


@pytest.mark.parametrize("encode", ENCODERS)
def test_absent_objects_say_nothing(encode: Encode, scenes: Scenes):
    scenes = scenes.without(1)
    colour, size = scenes.colour.clone(), scenes.size.clone()
    colour[:, 1], size[:, 1] = float("nan"), 9.0
    changed = replace(scenes, colour=colour, size=size).moved(1, torch.full((2, 2), 0.123))
    assert torch.equal(encode(changed), encode(scenes))


@pytest.mark.parametrize("encode", ENCODERS)
def test_every_selected_object_changes_the_condition(encode: Encode, scenes: Scenes):
    for index in range(3):
        assert not torch.equal(encode(scenes.without(index))[:1], encode(scenes)[:1])


@pytest.mark.parametrize("encode", ENCODERS)
def test_a_condition_has_the_precision_of_its_scenes(encode: Encode, scenes: Scenes):
    floats = {
        each.name: value.double()
        for each in fields(scenes)
        if (value := getattr(scenes, each.name)).is_floating_point()
    }
    assert encode(replace(scenes, **floats)).dtype == torch.float64
    assert encode(scenes).dtype == torch.float32


@pytest.mark.parametrize("tell", TELLERS)
def test_selecting_neither_invents_nor_changes_an_object(
    tell: Select, scenes: Scenes, rng: torch.Generator
):
    told = tell(scenes, rng)
    assert not (told.present & ~scenes.present).any()
    assert torch.equal(told.colour, scenes.colour)


@pytest.mark.parametrize("tell", TELLERS)
def test_the_same_generator_selects_the_same(tell: Select, scenes: Scenes):
    one, other = (tell(scenes, torch.Generator().manual_seed(3)).present for _ in range(2))
    assert torch.equal(one, other)


def test_values_are_the_colour_and_size_of_each_object_in_order(scenes: Scenes):
    condition = Values(objects=4)(scenes)
    assert condition.shape == (2, 16)
    assert torch.equal(condition[0, 4:7], scenes.colour[0, 1])
    assert condition[0, 7] == scenes.size[0, 1]
    assert torch.equal(condition[1, 8:11], scenes.colour[1, 2])
    assert not condition[1, 4:8].any()
    assert not condition[:, 12:].any()


def test_one_at_random_is_a_present_object_each_as_often(rng: torch.Generator):
    present = torch.rand(4096, 5, generator=rng) < 0.5
    told = one_object(scenes_with(present, rng), rng).present
    assert torch.equal(told.sum(dim=1), present.any(dim=1).long())
    assert not (told & ~present).any()
    share = told.sum(dim=0) / told.sum()
    assert (share - 0.2).abs().max() < 0.03


def test_selecting_nothing_is_a_condition_of_zeros(scenes: Scenes, rng: torch.Generator):
    assert not Conditioner(no_object, Values(objects=3))(scenes, rng).any()
    assert torch.equal(Conditioner(all_objects, Values(3))(scenes, rng), Values(3)(scenes))


def test_too_many_objects_are_refused(scenes: Scenes):
    with pytest.raises(ValueError, match="values of 2 objects cannot hold 3 objects"):
        Values(objects=2)(scenes)
    with pytest.raises(ValueError, match="at least 1 object; got 0"):
        Values(objects=0)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_values_have_the_declared_scale(scale: float):
    scenes = Circles().scenes(torch.arange(3), 0)
    assert torch.equal(ScaledValues(scale=0.25)(scenes), 0.25 * Values()(scenes))
    assert Values()(scenes).min() > 0
    with pytest.raises(ValueError, match="scale is a positive number"):
        ScaledValues(scale=scale)
