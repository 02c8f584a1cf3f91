"""Length of a trained model: which scenes are requested, and by which rule samples are judged."""

import pytest
import torch

from recombine.condition import (
    Conditioner,
    Grid,
    List,
    ShuffledSlots,
    Slots,
    all_objects_shuffled,
    one_object,
)
from recombine.measure import requests as module
from recombine.measure.length import Rule
from recombine.measure.requests import Length, one_to_a_cell, requested
from recombine.measure.subject import Findings
from recombine.reader import Found
from recombine.render.camera import places
from recombine.scene import compositions
from recombine.worlds.circles import Circles
from recombine.worlds.clevr import Clevr
from subjects import CPU, Model, training

SMALL = tuple(which for which in compositions(Clevr.factors) if which[-1] == "small")


def world(least: int, most: int) -> Clevr:
    return Clevr(size=64, objects=(least, most), among=SMALL)


ALL, ONE = (Conditioner(tell, Grid(16)) for tell in (all_objects_shuffled, one_object))


@pytest.mark.parametrize(
    ("conditioner", "objects", "labels", "strict"),
    [
        (ALL, 3, 3, True),
        (ONE, 3, 1, False),
        (Conditioner(ShuffledSlots(12), Slots()), 3, 3, True),
        (ONE, 1, 1, False),
        (ONE, 5, 1, False),
        (Conditioner(all_objects_shuffled, List()), 5, 5, True),
    ],
)
def test_a_model_conditioned_on_one_object_may_draw_others(
    conditioner: Conditioner,
    objects: int,
    labels: int,
    strict: bool,
    monkeypatch: pytest.MonkeyPatch,
):
    seen = []
    monkeypatch.setattr(module, "length", lambda *parts: seen.append(parts) or Findings({}))
    subject = Model(training(world=world(1, objects), conditioner=conditioner))
    Length(objects=(1, 2), samples=3)(subject, torch.Generator().manual_seed(0))
    ((requests, draw, _, rule, _),) = seen
    assert rule == Rule(objects, labels, strict)
    assert list(requests) == [1, 2]
    assert all(len(request.present) == 3 for request in requests.values())
    assert draw == subject.images


def test_a_perfect_model_succeeds_at_every_number():
    """It renders the very scenes; the reader knows their places."""
    clevr, conditioner = world(1, 3), Conditioner(all_objects_shuffled, List())

    def read(images: torch.Tensor) -> Found:
        # The first two numbers of an image say where its objects are.
        entry = images.flatten(1)[:, :36].unflatten(1, (12, 3))
        present = entry[..., 2] > 0
        return Found(entry[..., :2], present[..., None].long(), present.float(), present)

    def draw(condition: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        del generator
        images = torch.zeros(len(condition), 3 * 64 * 64)
        images[:, :36] = condition.flatten(1)
        return images.unflatten(1, (3, 64, 64))

    subject = Model(
        training(world=clevr, conditioner=conditioner), draw=draw, readers={"detector": read}
    )
    found = Length(objects=(0, 1, 4), samples=4)(subject, torch.Generator().manual_seed(0))
    for k in (1, 4):
        assert found.measurements[f"success@{k}"].value == 1
        assert found.measurements[f"success_chance@{k}"].value < 1
    assert found.measurements["count@0"].value == 0


def test_every_requested_scene_has_its_objects_in_cells_of_their_own():
    crowd = world(12, 12)
    every = crowd.scenes(torch.arange(24), module.SEED)
    together = Grid().requested(places(every)[0], every.present)[1].sum(dim=1) < 12
    assert together.any()
    scenes = one_to_a_cell(crowd, 16, CPU)
    assert len(scenes) == 16
    assert (Grid()(scenes).sum(dim=(1, 2)) == 12).all()
    torch.testing.assert_close(scenes.position, every[~together].position[:16])


def test_requested_places_are_where_the_rendered_objects_are():
    """A grid has the centre of a cell, at most half a cell off; a list has the place."""
    for encode, off in ((Grid(), 0.5 / 16), (List(), 0.0)):
        rng = torch.Generator().manual_seed(0)
        request = requested(world(1, 3), encode, 4, 8, rng)
        scenes = one_to_a_cell(world(4, 4), 8, CPU)
        true = places(scenes)[0]
        away = (request.place[:, :, None] - true[:, None]).abs().amax(dim=-1).amin(dim=2)
        assert (away <= off + 1e-6).all()
        assert request.present.all()
        torch.testing.assert_close(request.image, world(4, 4).image(scenes))
        torch.testing.assert_close(encode.at(request.place, request.present), request.condition)


def test_a_requested_list_is_not_in_the_order_of_placing():
    rng = torch.Generator().manual_seed(0)
    request = requested(world(1, 3), List(), 4, 16, rng)
    placed = places(one_to_a_cell(world(4, 4), 16, CPU))[0]
    assert (request.place[:, 0] != placed[:, 0]).any()


@pytest.mark.parametrize("wrong", [{"objects": ()}, {"objects": (-1, 2)}, {"samples": 1}])
def test_settings_that_measure_nothing_are_refused(wrong: dict):
    with pytest.raises(ValueError, match="objects and 2 samples or more; got Length"):
        Length(**wrong)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"world": Circles(), "conditioner": ALL}, "on CLEVR-like scenes; got Circles"),
        ({"world": world(1, 3)}, "on models conditioned on places; got Values"),
    ],
)
def test_other_trainings_are_refused_with_what_is_needed(parts: dict, words: str):
    with pytest.raises(ValueError, match=f"length is measured {words}"):
        Length().tiny()(Model(training(**parts)), torch.Generator())
