"""The figure of coverage draws what results hold."""

import pandas as pd
import pytest

from recombine.figures.coverage import MODELS, USUAL, draw
from recombine.results import Origin, Results, Row
from recombine.results.query import table


def a_run(model: str, cover: int, seed: int, accuracy: float, **levels: str) -> Results:
    usual = {**USUAL, "position": "random", "size": "middle"}
    known = {**usual, "model": model, "coverage": f"c{cover}", **levels}
    origin = Origin("coverage", f"{model}-c{cover}", seed, "cpu", levels=known)
    named = {"accuracy@test": accuracy, "accuracy_view@test": 0.99, "accuracy_chance@test": 0.04}
    return Results(origin, tuple(Row(name, value) for name, value in named.items()))


RUNS = [
    a_run("dit", 18, 0, 0.4),
    a_run("dit", 18, 1, 0.6),
    a_run("dit", 40, 0, 0.9),
    a_run("maskgit", 18, 0, 0.1),
]


def lines(found: pd.DataFrame) -> list[tuple[list, list]]:
    (panel,) = draw(found, {}).axes
    return [tuple(map(list, line.get_data())) for line in panel.lines]


def test_lines_are_means_over_replicates_and_dots_single_ones():
    shown = lines(table(RUNS))
    assert ([18, 40], [pytest.approx(0.5), 0.9]) in shown
    assert ([18, 18, 40], [0.4, 0.6, 0.9]) in shown
    assert ([18, 40], [pytest.approx(0.99), pytest.approx(0.99)]) in shown
    assert ([18, 40], [pytest.approx(0.04), pytest.approx(0.04)]) in shown


def test_only_the_usual_world_is_drawn_and_sizes_have_panels_of_their_own():
    few = a_run("maskgit", 27, 0, 0.3, volume="images1000")
    assert lines(table([*RUNS, few])) == lines(table(RUNS))
    small = a_run("dit", 18, 0, 0.2, size="small", position="fixed")
    figure = draw(table([*RUNS, small]), {})
    assert figure.axes[0].get_title() == "1.2 M weights, random places"
    assert len(figure.axes) == 2


def test_models_have_names_and_hues_of_their_own():
    assert len({hue for hue, _ in MODELS.values()}) == len(MODELS)
    (legend,) = draw(table(RUNS), {}).legends
    words = {text.get_text() for text in legend.get_texts()}
    assert {"DiT on code vectors", "MaskGIT, cross-entropy", "chance"} <= words
