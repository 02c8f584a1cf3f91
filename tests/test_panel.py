"""The maps of what a place depends on: which place, which share, which model."""

import numpy as np
import pytest
import torch

from recombine.commands import demo, panel
from recombine.commands.tour import TOUR, TRUTH, StudyNumbers, Visit
from recombine.figures.locality import HeatMap
from recombine.measurement import Measurement
from recombine.report.page import Section

REQUESTED = [(0.2, 0.3), (0.6, 0.7), (0.8, 0.2)]


def shown(shares: list[float]) -> HeatMap:
    """A map of the second place, on which only the lower left pixel has influence."""
    pixels = np.zeros((32, 32))
    pixels[31, 0] = 1.0
    return HeatMap(11.6, (0.609, 0.703), pixels, np.array(REQUESTED), np.array(shares))


def visit(number: int, locality: float | None) -> Visit:
    found = None if locality is None else Measurement(locality, 0.1, 0.9, n=32)
    return Visit(TOUR[number], (), StudyNumbers(None, found, "", "", ""))


@pytest.fixture
def maps(monkeypatch: pytest.MonkeyPatch) -> dict[str, HeatMap]:
    kept = {"grid_all": shown([0.02, 0.95, 0.03]), "grid_one": shown([0.7, 0.1, 0.2])}
    monkeypatch.setattr(panel, "influence_map", kept.get)
    return kept


def only(sections: list[Section]) -> Section:
    (section,) = sections
    return section


def test_each_model_has_a_map_and_the_share_of_the_object_requested_there(maps: dict[str, HeatMap]):
    section = only(panel.dependence([Visit(TRUTH, ()), visit(0, 0.75), visit(1, 0.25)]))
    assert section.command == "recombine measure zoo:grid_all --what locality"
    one, other = section.groups
    assert (one.title, other.title) == (TOUR[0].label, TOUR[1].label)
    assert one.note.endswith("(conditional locality): 0.75 [0.1, 0.9], n = 32 scenes.")
    (picture,) = one.pictures
    assert "95 % of the influence is that of the object requested there" in picture.words
    assert ": 10 % of" in other.pictures[0].words
    assert picture.address.startswith("data:image/png;base64,")
    assert picture.address != other.pictures[0].address
    assert picture.width == picture.height > 400


def test_the_map_lies_as_the_image_does():
    grey = panel.drawn(shown([0.1] * 3)).convert("L")
    # The one dark cell is the first of the last row: at the left, at the bottom.
    side = grey.width
    assert grey.getpixel((side // 64, side - side // 64)) < 100
    assert grey.getpixel((side // 64, side // 64)) == 255
    assert grey.getpixel((side - side // 64, side - side // 64)) == 255


def test_every_requested_place_has_a_circle_and_the_own_one_is_blue():
    drawn = panel.drawn(shown([0.1, 0.8, 0.1]))
    # On the line of a circle, to the right of its middle.
    colours = [
        drawn.getpixel((round(x * drawn.width) + 25, round(y * drawn.height))) for x, y in REQUESTED
    ]
    blue = [colour[2] > colour[0] for colour in colours]
    assert blue == [False, True, False]
    assert all(colour != (255, 255, 255) for colour in colours)


def test_models_without_a_map_or_a_measurement_are_left_out(maps: dict[str, HeatMap]):
    assert panel.dependence([]) == []
    assert panel.dependence([Visit(TRUTH, ()), visit(0, None), visit(2, 0.5)]) == []
    section = only(panel.dependence([visit(0, None), visit(1, 0.5)]))
    assert [group.title for group in section.groups] == [TOUR[1].label]


@pytest.mark.parametrize(("name", "most"), [("grid_all", 1.0), ("grid_one", 0.5)])
def test_the_map_of_a_shipped_model_is_of_four_places_at_high_noise(name: str, most: float):
    found = panel.influence_map(name)
    assert found is not None
    assert len(found.shares) == len(found.requested) == 4
    assert sum(found.shares) == pytest.approx(1, abs=0.01)
    assert 0.1 < found.shares[found.own] < most
    assert found.sigma > 5
    assert found.pixels.max() == pytest.approx(1, abs=0.01)


def test_the_section_stands_between_the_counts_and_the_full_study(
    maps: dict[str, HeatMap], monkeypatch: pytest.MonkeyPatch
):
    for name in ("counts", "study", "worlds"):
        monkeypatch.setattr(demo, name, lambda *_, name=name: Section(name))
    unseen = [Section("unseen")]
    text = demo.whole_page([visit(0, 0.75)], unseen, demo.DemoOptions(), torch.device("cpu"))
    why = "<h2>Why: what a place depends on</h2>"
    titles = ["<h2>counts</h2>", why, "<h2>study</h2>", "<h2>unseen</h2>"]
    assert sorted(titles, key=text.index) == titles
