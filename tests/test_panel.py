"""The panel on locality shows what records hold: which place, which share, which model."""

import pytest
import torch
from matplotlib.figure import Figure
from recombine.report.record import Record

from recombine.commands import demo, panel
from recombine.commands.tour import TOUR, Visit
from recombine.figures.locality import draw_map, kept_maps
from recombine.measurement import Measurement
from recombine.report.page import Section

PLACES = [[0.2, 0.3], [0.6, 0.7], [0.8, 0.2]]
PIXELS = [[0.203, 0.297], [0.609, 0.703], [0.797, 0.203]]


def visit(number: int, value: float | None, shares: list[float]) -> Visit:
    """A stop whose lowest place hears its own object with the second of these shares."""
    dark = [" ".join(["0"] * 32) for _ in range(32)]
    curves = {
        "locality_places": PLACES,
        "locality_maps": [
            {
                "sigma": sigma,
                "pixel": pixel,
                "heard": shares if (sigma, place) == ("11.6", 1) else [0.33, 0.33, 0.34],
                "map": [*dark[:-1], " ".join(["999"] + ["0"] * 31)],
            }
            for sigma in ("9", "11.6")
            for place, pixel in enumerate(PIXELS)
        ],
    }
    found = {} if value is None else {"conditional_locality": Measurement(value, 0.1, 0.9, n=32)}
    record = Record("?", "recombine run x:y --seed 0", "x", 0, "cpu", 1.0, found, curves=curves)
    return Visit(TOUR[number], (), record)


def only(sections: list[Section]) -> Section:
    (section,) = sections
    return section


def test_each_model_is_shown_at_its_highest_noise_with_its_own_object_apart():
    visits = [visit(0, 0.75, [0.02, 0.95, 0.03]), visit(1, 0.25, [0.7, 0.1, 0.2])]
    section = only(panel.listening(visits))
    assert section.command == "recombine measure zoo:grid_all --what locality"
    one, other = section.groups
    assert (one.title, other.title) == ("grid_all", "grid_one")
    assert "Conditional locality at high noise: 0.75 [0.1, 0.9], n = 32." in one.note
    assert "At sigma 11.6" in one.note
    assert one.note.endswith("its own object to 95 %, the others to 2, 3 %.")
    assert "0.25 [0.1, 0.9]" in other.note
    assert other.note.endswith("its own object to 10 %, the others to 70, 20 %.")
    (picture,) = one.pictures
    assert picture.address.startswith("data:image/png;base64,")
    assert picture.address != other.pictures[0].address
    assert picture.width == picture.height > 400


def test_places_are_marked_with_what_is_heard_of_them():
    record = visit(0, 0.75, [0.02, 0.95, 0.03]).record
    axes = Figure().subplots()
    shown = kept_maps(record)[-1]
    assert (shown["sigma"], shown["pixel"]) == ("11.6", PIXELS[1])
    draw_map(axes, shown, PLACES)
    crosses = [line for line in axes.lines if line.get_color() == "#CC0000"]
    marks = {tuple(line.get_xydata()[0]): line.get_alpha() for line in crosses}
    assert marks == {(0.2, 0.3): 0.02, (0.6, 0.7): 0.95, (0.8, 0.2): 0.03}
    words = {text.get_position()[0]: text.get_text() for text in axes.texts}
    assert words == {0.2: "2", 0.6: "95", 0.8: "3"}
    (near,) = axes.patches
    assert near.get_center() == pytest.approx((0.609, 0.703))


def test_the_map_lies_as_the_image_does():
    drawn = panel.drawn(kept_maps(visit(0, 0.75, [0.1] * 3).record)[0], PLACES).convert("L")
    # The one dark cell is the first of the last row: at the left, at the bottom.
    side = drawn.width
    assert drawn.getpixel((side // 64, side - side // 64)) < 180
    assert drawn.getpixel((side // 64, side // 64)) > 240
    assert drawn.getpixel((side - side // 64, side - side // 64)) > 240


def test_records_without_locality_give_no_panel():
    assert panel.listening([]) == []
    assert panel.listening([visit(0, None, [0.1] * 3)]) == []
    bare = Record("?", "recombine run x:y --seed 0", "x", 0, "cpu", 1.0, {})
    assert panel.listening([Visit(TOUR[0], (), bare)]) == []
    with_it = visit(1, 0.5, [0.1, 0.8, 0.1])
    section = only(panel.listening([Visit(TOUR[0], (), bare), with_it]))
    assert [group.title for group in section.groups] == ["grid_one"]


def test_the_panel_stands_between_the_counts_and_the_full_study(monkeypatch: pytest.MonkeyPatch):
    for name in ("section", "counts", "study", "further", "worlds"):
        monkeypatch.setattr(demo, name, lambda *_, name=name: Section(name))
    monkeypatch.setattr(demo, "story", lambda _: "")
    visits = [visit(0, 0.75, [0.02, 0.95, 0.03])]
    text = demo.whole_page(visits, demo.Options(), torch.device("cpu"))
    titles = ["<h2>counts</h2>", "<h2>What does a place listen to?</h2>", "<h2>study</h2>"]
    assert sorted(titles, key=text.index) == titles
