"""What the length study asks of a model, and by which rule it is judged."""

from dataclasses import replace

import pytest
import torch

from recombine.condition import Grid, List
from recombine.experiment import Experiment, Trained
from recombine.experiments import length_generalization as study
from recombine.measure.length import Rule
from recombine.models.local import Cells
from recombine.render.camera import places
from recombine.worlds.clevr import Clevr

CPU = torch.device("cpu")


def rule_of(name: str, monkeypatch: pytest.MonkeyPatch) -> Rule:
    """The rule and the requests that reach the measurement."""
    seen = []

    def noted(requests, draw, reader, rule, generator):
        seen.extend([rule, requests])
        return {}, {}, {}

    monkeypatch.setattr(study, "length", noted)
    experiment = getattr(study, name)
    ask = replace(experiment.asks[0], objects=(1, 2), samples=3)
    ask(Trained(experiment, lambda x, sigma, told: x, CPU), torch.Generator().manual_seed(0))
    assert list(seen[1]) == [1, 2]
    assert all(len(request.present) == 3 for request in seen[1].values())
    return seen[0]


@pytest.mark.parametrize(
    ("name", "objects", "labels", "strict"),
    [
        ("grid_all", 3, 3, True),
        ("grid_one", 3, 1, False),
        ("list_all_local", 3, 3, True),
        ("grid_one_local_1", 1, 1, False),
        ("grid_one_5", 5, 1, False),
        ("list_all_5", 5, 5, True),
    ],
)
def test_who_was_told_of_one_may_draw_what_goes_unmentioned(
    name: str, objects: int, labels: int, strict: bool, monkeypatch: pytest.MonkeyPatch
):
    rule = rule_of(name, monkeypatch)
    assert (rule.objects, rule.labels, rule.strict) == (objects, labels, strict)
    assert rule.expected == getattr(study, name).asks[0].expected


def test_every_scene_that_is_asked_for_has_its_objects_in_cells_of_their_own():
    crowd = study.world(12, 12)
    every = crowd.scenes(torch.arange(24), study.ASKED)
    together = Grid().requested(places(every)[0], every.present)[1].sum(dim=1) < 12
    assert together.any()
    scenes = study.told_apart(crowd, 16, CPU)
    assert len(scenes) == 16
    assert (Grid()(scenes).sum(dim=(1, 2)) == 12).all()
    torch.testing.assert_close(scenes.position, every[~together].position[:16])


def test_what_is_told_is_where_the_rendered_objects_are():
    """A grid tells the centre of a cell, at most half a cell off; a list tells the place."""
    for encode, off in ((Grid(), 0.5 / 16), (List(), 0.0)):
        rng = torch.Generator().manual_seed(0)
        request = study.requested(study.world(1, 3), encode, 4, 8, rng)
        scenes = study.told_apart(study.world(4, 4), 8, CPU)
        true = places(scenes)[0]
        away = (request.place[:, :, None] - true[:, None]).abs().amax(dim=-1).amin(dim=2)
        assert (away <= off + 1e-6).all()
        assert request.present.all()
        torch.testing.assert_close(request.image, study.world(4, 4).image(scenes))
        torch.testing.assert_close(encode.at(request.place, request.present), request.condition)


def test_a_list_is_not_asked_in_the_order_of_placing():
    rng = torch.Generator().manual_seed(0)
    request = study.requested(study.world(1, 3), List(), 4, 16, rng)
    placed = places(study.told_apart(study.world(4, 4), 16, CPU))[0]
    assert (request.place[:, 0] != placed[:, 0]).any()


def test_all_objects_of_the_study_have_one_size():
    scenes = study.grid_all.world.scenes(torch.arange(64), seed=0)
    assert (scenes.size[scenes.present] == scenes.size[0, 0]).all()
    assert study.grid_all.world.margin


@pytest.mark.parametrize("wrong", [{"objects": ()}, {"objects": (-1, 2)}, {"samples": 1}])
def test_a_question_that_cannot_be_asked_is_refused(wrong: dict):
    with pytest.raises(ValueError, match="objects and 2 samples or more; got Length"):
        replace(study.grid_all.asks[0], **wrong)


def test_the_control_differs_in_its_windows_and_in_what_it_hears_of_them():
    narrow, wide = study.grid_one_local_unguided, study.grid_one_global_window
    assert replace(narrow.network, window=8, entry=Cells()) == wide.network
    assert narrow.network.entry == Cells(nearest=True)
    assert replace(narrow.objective.weigh, window=8) == wide.objective.weigh


def test_with_one_object_to_an_image_to_tell_one_is_to_tell_all():
    # The two variants learn the same then, from the same images.
    def told(experiment: Experiment) -> tuple[torch.Tensor, torch.Tensor]:
        world = experiment.world
        assert isinstance(world, Clevr)
        scenes = world.scenes(torch.arange(16), 0)
        return experiment.conditioner(scenes, torch.Generator().manual_seed(0)), scenes.present

    one, all_ = told(study.grid_one_1), told(study.grid_all_1)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(one, all_, strict=True))
    same = ("world", "network", "budget", "objective", "view")
    assert all(getattr(study.grid_one_1, n) == getattr(study.grid_all_1, n) for n in same)
    assert not torch.equal(told(study.grid_one)[0], told(study.grid_all)[0])
