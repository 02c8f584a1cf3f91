"""What a reader gets wrong, counted by hand, and the scenes that a detector reads."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from recombine import zoo
from recombine.measure import detection
from recombine.measure.detection import (
    DetectorError,
    Panel,
    fresh,
    reading_errors,
    together,
    truth_of,
)
from recombine.models.detector import Detector
from recombine.models.probe import Probe
from recombine.reader import Found
from recombine.scene import Factor
from recombine.worlds.clevr import Clevr, shows
from subjects import Model, training

FACTORS = (Factor("shape", ("ball", "box")), Factor("colour", ("red", "green", "blue")))


def reading(place: list[list[float]], concepts: list[list[int]], sure: list[bool]) -> Found:
    confidence = torch.full((1, len(sure)), 0.9)
    return Found(torch.tensor([place]), torch.tensor([concepts]), confidence, torch.tensor([sure]))


TRUTH = reading([[0.2, 0.2], [0.6, 0.6], [0.8, 0.2]], [[0, 0], [1, 2], [1, 1]], [True, True, False])


def test_errors_of_a_reading_are_counted_by_hand():
    # The first is 1.28 px off and misnamed, the second is missed, and one is made up.
    found = reading([[0.22, 0.2], [0.8, 0.2]], [[0, 1], [1, 1]], [True, True])
    errors = reading_errors(found, TRUTH, FACTORS, "@2")
    values = {name: (each.value, each.n) for name, each in errors.items()}
    assert values == {
        "exact_count@2": (1, 1),
        "precision@2": (0.5, 2),
        "recall@2": (0.5, 2),
        "shape_accuracy@2": (1, 1),
        "colour_accuracy@2": (0, 1),
    }


def test_places_and_concepts_are_compared_with_the_object_they_belong_to():
    found = reading([[0.61, 0.6], [0.2, 0.22]], [[1, 2], [0, 0]], [True, True])
    errors = reading_errors(found, TRUTH, FACTORS)
    assert errors["distance"].value == pytest.approx(64 * 0.015)
    assert errors["distance"].n == 2
    assert errors["shape_accuracy"].value == errors["colour_accuracy"].value == 1


def test_what_is_three_pixels_of_64_away_is_the_same_object():
    near = reading([[0.2 + 1 / 21 - 1e-4, 0.2]], [[0, 0]], [True])
    far = reading([[0.2 + 1 / 21 + 1e-4, 0.2]], [[0, 0]], [True])
    assert reading_errors(near, TRUTH, FACTORS)["precision"].value == 1
    assert reading_errors(far, TRUTH, FACTORS)["precision"].value == 0


def test_nothing_found_and_nothing_there_leave_numbers_out():
    nothing = reading([[0.2, 0.2]], [[0, 0]], [False])
    assert set(reading_errors(nothing, TRUTH, FACTORS)) == {"exact_count", "recall"}
    empty = replace(TRUTH, present=torch.zeros(1, 3, dtype=torch.bool))
    errors = reading_errors(nothing, empty, FACTORS)
    assert {name: each.value for name, each in errors.items()} == {"exact_count": 1}


def test_joined_batches_have_the_errors_of_all():
    one = reading([[0.22, 0.2], [0.8, 0.2]], [[0, 1], [1, 1]], [True, True])
    two = reading([[0.61, 0.6], [0.2, 0.22]], [[1, 2], [0, 0]], [True, True])
    single = reading([[0.2, 0.2]], [[0, 0]], [True])
    joined = together([TRUTH, single])
    assert joined.present.tolist() == [[True, True, False], [True, False, False]]
    errors = reading_errors(together([one, two]), joined, FACTORS)
    assert (errors["precision"].value, errors["precision"].n) == (0.5, 4)
    assert (errors["recall"].value, errors["recall"].n) == (2 / 3, 3)
    assert (errors["exact_count"].value, errors["exact_count"].n) == (0.5, 2)


def test_fresh_scenes_show_every_object_and_are_none_of_training():
    world = Clevr(size=64, objects=(9, 9), margin=False)
    scenes = fresh(world, 40)
    assert shows(scenes, 64, 12).all()
    first = world.scenes(torch.arange(80), detection.FRESH)
    good = shows(first, 64, 12)
    assert not good[:40].all()
    assert torch.equal(scenes.position, first[good][:40].position)
    assert detection.FRESH == 10_007


def trained_detector() -> torch.nn.Module:
    return zoo.filled(Detector().build(), zoo.path("detector"))


class Oracle:
    """Knows the scenes of a panel, so that all of its rates are known."""

    def __init__(self, panel: Panel, missing: int) -> None:
        self.batches = [
            truth_of(fresh(replace(panel.world, objects=(count, count)), panel.samples))
            for count in panel.objects
        ]
        self.missing = missing

    def __call__(self, images: Tensor) -> Found:
        truth = self.batches.pop(0)
        present = torch.nn.functional.pad(truth.present, (0, 4 - truth.present.shape[1]))
        place = torch.zeros(len(present), 4, 2)
        place[:, : truth.place.shape[1]] = truth.place
        concepts = torch.zeros(len(present), 4, 4, dtype=torch.int64)
        concepts[:, : truth.concepts.shape[1]] = truth.concepts
        present[: self.missing, 0] = False
        return Found(place, concepts, torch.ones_like(place[..., 0]), present)


def test_a_panel_has_rates_per_number_of_objects_and_over_the_small_ones():
    panel = Panel(Clevr(size=64, margin=False), 4, (0, 1, 3), pooled=1, suffix="@x")
    errors = panel(Oracle(panel, missing=1), torch.device("cpu"))
    values = {name: (each.value, each.n) for name, each in errors.items()}
    assert values["exact_count@x@0"] == (1, 4)
    assert values["exact_count@x@1"] == (0.75, 4)
    assert values["recall@x@3"] == (11 / 12, 12)
    assert values["precision@x@3"] == (1, 11)
    assert values["exact_count@x"] == (7 / 8, 8)
    assert values["recall@x"] == (0.75, 4)
    assert values["size_accuracy@x"] == (1, 3)
    assert "recall@x@0" not in values
    assert "size_accuracy@x@3" not in values


def test_the_panels_cover_what_the_length_study_reads():
    small, large = DetectorError().panels
    assert small.world == Clevr(size=64, margin=False)
    assert small.objects == tuple(range(13))
    assert (small.samples, small.pooled) == (256, 9)
    assert large.world == Clevr(size=128, margin=False, jitter=True)


def test_a_trained_detector_reads_every_panel_with_its_threshold():
    rates = {}
    for threshold in (None, 1.0):
        subject = Model(training(network=Detector()), denoiser=trained_detector())
        error = replace(DetectorError().tiny(), threshold=threshold)
        found = error(subject, torch.Generator()).measurements
        assert list(found)[0] == "precision"
        assert found["exact_count@1"].n == 4
        rates[threshold] = found["recall"].value
    assert rates[None] > 0.9
    # Nothing is that sure.
    assert rates[1.0] == 0


def test_other_networks_are_refused():
    with pytest.raises(ValueError, match="detector_error is measured on detectors .*; got Probe"):
        DetectorError()(Model(training(network=Probe())), torch.Generator())
