"""The figure of JEPA is drawn from records alone."""

import pytest

from recombine.figures import experiments_of, figures
from recombine.figures.jepa import APART, READERS, draw
from recombine.measurement import Measurement
from recombine.report.record import Record

PROBE, LINEAR, NEAREST = READERS


def record(name: str, seed: int, values: dict[str, float], paper: float | None = None) -> Record:
    found = {
        key: Measurement(value, None, None, 10, *((paper, "figure") if paper is not None else ()))
        for key, value in values.items()
    }
    return Record("?", f"recombine run {name} --seed {seed}", "x", seed, "cpu", 1.0, found)


RUNS = [
    record("jepa:steered_small", 1, {PROBE: 0.7}),
    record("jepa:small", 1, {PROBE: 0.8, LINEAR: 0.9}, paper=0.44),
    record("jepa:small", 2, {PROBE: 0.2, LINEAR: 0.1}, paper=0.44),
    record("objective:maskgit_steered_small", 1, {PROBE: 0.3}),
    record("objective:maskgit_small", 1, {PROBE: 0.05, NEAREST: 0.0}, paper=0.01),
    record("objective:dit_vq_small", 1, {PROBE: 0.6}),
    record("objective:maskgit", 0, {PROBE: 0.9}),
    record("jepa:normalised", 0, {"accuracy@level2": 0.9}),
]


def marks(axes, marker: str) -> set[tuple[float, float]]:
    """The places of all marks of a kind."""
    return {
        (round(x, 6), round(y, 6))
        for line in axes.lines
        if line.get_marker() == marker
        for x, y in zip(*line.get_data(), strict=True)
    }


def test_rows_stand_below_what_they_stand_beside():
    (axes,) = draw(RUNS).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "maskgit",
        "maskgit_small",
        "small + JEPA",
        "maskgit_steered_small",
        "steered_small + JEPA",
    ]
    low, high = axes.get_ylim()
    assert low > high


def test_a_mark_is_a_run_by_a_reader_and_a_bar_the_mean():
    (axes,) = draw(RUNS).axes
    assert {(0.8, 2 - APART), (0.2, 2 - APART), (0.9, -APART)} <= marks(axes, "o")
    assert {(0.9, 2.0), (0.1, 2.0)} == marks(axes, "s")
    assert {(0.0, 1 + APART)} == marks(axes, "^")
    assert marks(axes, "D") == {(0.44, 2.0), (0.01, 1.0)}
    bars = [list(line.get_xdata()) for line in axes.lines if line.get_marker() == "None"]
    assert [pytest.approx(0.5)] * 2 in bars


def test_nothing_is_drawn_of_nothing():
    (axes,) = draw([]).axes
    assert not axes.get_yticklabels()


def test_it_is_known_by_the_name_of_its_experiment():
    assert "jepa" in figures()
    assert experiments_of("jepa") == ("jepa", "objective", "tokenizer")


def test_jepa_of_other_experiments_stands_below_its_own_maskgit():
    others = [
        record("tokenizer:jepa_all_small", 1, {PROBE: 0.7}),
        record("tokenizer:maskgit_all_small", 1, {PROBE: 0.1}),
        record("tokenizer:vq_all_small", 1, {PROBE: 0.9}),
        record("tokenizer:maskgit_all_short", 0, {PROBE: 0.4}),
        record("objective:maskgit_steered_small", 1, {PROBE: 0.3}),
    ]
    (axes,) = draw(others).axes
    names = ["maskgit_steered_small", "maskgit_all_small", "all_small + JEPA"]
    assert [label.get_text() for label in axes.get_yticklabels()] == names
