"""The figure of length draws what results hold, and the same results give the same file."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from recombine import figures
from recombine.commands.report import redraw
from recombine.figures.length import draw
from recombine.measurement import Measurement
from recombine.results import write
from recombine.results.query import arrays, records
from stub_results import a_run, a_table

HOME = Path(__file__).parents[1] / "results"
KNOWN = records(where=HOME)


def drawing(cell: str, seed: int, success: list[float], k_max: int | None = None):
    """A run of length: success at 1, 2, ... places, and a count that stays at 2."""
    measured = {"k_max": Measurement(k_max, k_max, k_max, n=256)} if k_max is not None else {}
    for k, rate in enumerate(success, start=1):
        measured[f"success@{k}"] = Measurement.rate(round(256 * rate), 256)
        measured[f"success_ceiling@{k}"] = Measurement.rate(256, 256)
        measured[f"success_chance@{k}"] = Measurement.rate(0, 256)
    for k in range(len(success) + 1):
        measured[f"count@{k}"] = Measurement(2, 1.5, 2.5, n=256)
    measured["success@0"] = Measurement.rate(3, 256)
    return a_run(cell, seed, measured)


def shown(axes) -> list[tuple[list, list]]:
    """The lines of a panel, as lists of numbers."""
    return [tuple(map(list, line.get_data())) for line in axes.lines]


def visible(figure: Figure) -> list:
    """The panels of a figure."""
    shown = [axes for axes in figure.axes if axes.get_visible()]
    return [axes for axes in shown if axes.get_label() != "<colorbar>"]


def words(figure: Figure) -> set[str]:
    (legend,) = figure.legends
    return {text.get_text() for text in legend.get_texts()}


def test_length_is_drawn_as_the_mean_over_seeds_with_its_interval():
    runs = [drawing("grid_all", 0, [1, 0.75, 0.5], 2), drawing("grid_all", 1, [1, 0.25, 0.5], 1)]
    success, count = visible(draw(a_table(*runs), {}))
    lines = shown(success)
    # To draw nothing when nothing is requested is another question.
    assert ([1, 2, 3], [1, 0.5, 0.5]) in lines
    # Student's interval over .75 and .25 is clipped, as a share; where seeds agree it is theirs.
    assert ([2, 2], [0, 1]) in lines
    assert ([3, 3], list(Measurement.rate(128, 256).printed.values())[1:3]) in lines
    # The K_max of each seed, at its own success there.
    assert ([2], [0.75]) in lines
    assert ([1], [1.0]) in lines
    assert ([1, 2, 3], [1, 1, 1]) in lines
    assert ([1, 2, 3], [0, 0, 0]) in lines
    assert ([0, 1, 2, 3], [2, 2, 2, 2]) in shown(count)
    assert ([0, 3], [0, 3]) in shown(count)


def test_a_k_max_of_0_has_no_dot():
    (success, _) = visible(draw(a_table(drawing("grid_all", 0, [0.1, 0], 0)), {}))
    assert "o" not in {line.get_marker() for line in success.lines}


def test_a_condition_has_a_panel_and_other_training_scenes_stand_below():
    runs = [
        drawing(cell, 0, [1, 0.5])
        for cell in ("grid_all", "list_all", "list_all_slots", "grid_one-local-up_to_5-guided")
    ]
    panels = visible(draw(a_table(*runs), {}))
    titles = [axes.get_title() for axes in panels if axes.get_title()]
    assert titles == [
        "grid with all objects,\ntrained on 1 to 3 objects",
        "list of all objects,\ntrained on 1 to 3 objects",
        "grid with one object at random,\ntrained on 1 to 5 objects",
    ]
    assert len(panels) == 5
    # A shade from 0.5 to the most objects seen in training.
    assert [axes.patches[0].get_x() + axes.patches[0].get_width() for axes in panels] == [
        *(3.5, 3.5, 3.5, 3.5),
        5.5,
    ]


def test_everything_drawn_is_said_in_words_and_nothing_else():
    plain = words(draw(a_table(drawing("grid_all", 0, [1, 0.5], 1)), {}))
    assert "U-Net" in plain
    assert "K_max of each seed" in plain
    assert not {"sampled with guidance", "list, objects in any slot"} & plain
    more = [drawing("list_all_slots", 0, [1, 0.5]), drawing("grid_one-local-guided", 0, [1, 1])]
    added = words(draw(a_table(*more), {})) - plain
    assert added == {
        "local network, windows of 5 x 5 cells",
        "sampled with guidance",
        "list, objects in any slot",
    }


# All figures


@pytest.mark.parametrize("name", figures.names())
def test_every_figure_is_drawn_from_the_results_alone_with_words_and_few_panels(name: str):
    study = figures.study_of(name)
    table = KNOWN[KNOWN["study"] == study]
    assert len(table), name
    figure = figures.drawing(name)(table, arrays(study, HOME))
    assert 1 <= len(visible(figure)) <= 12
    cells = {cell for cell in table["cell"] if "_" in cell or "-" in cell}
    said = {
        text.get_text() for text in figure.findobj(match=lambda each: hasattr(each, "get_text"))
    }
    assert not cells & said


def test_the_same_results_give_the_same_file(tmp_path: Path):
    table = a_table(drawing("grid_all", 0, [1, 0.5], 1))
    write(drawing("grid_all", 0, [1, 0.5], 1), tmp_path)
    for folder in "ab":
        redraw(tmp_path / folder, table, tmp_path)
    first, second = ((tmp_path / folder / "length.svg").read_bytes() for folder in "ab")
    assert first == second
    # What has no results is not drawn.
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"length.svg", "locality.svg"}


def test_the_figure_of_a_study_is_drawn_from_runs(tmp_path: Path):
    path = write(drawing("grid_all", 0, [1, 0.5], 1), tmp_path)
    assert figures.draw("length", [path], tmp_path / "x.svg")
    assert (tmp_path / "x.svg").exists()
    assert not figures.draw("readers", [path], tmp_path / "y.svg")
    assert not (tmp_path / "y.svg").exists()
