"""The published curves give the numbers of the fact sheet, and stand beside ours."""

from dataclasses import replace

import pytest

from recombine.figures import experiments_of, figures
from recombine.figures import objective as figure
from recombine.measurement import Measurement
from recombine.report.record import Record
from recombine.report.reference import LEVELS, NAMED, published

LATE = {
    "dit_kl": {"111": 93.2, "011": 85.7, "101": 89.7, "110": 82.8},
    "dit_vq": {"111": 84.4, "011": 96.7, "101": 93.1, "110": 100.0},
    "maskgit": {"111": 0.8, "011": 59.7, "101": 40.6, "110": 55.2},
    "givt": {"111": 79.5, "011": 95.0, "101": 78.4, "110": 96.7},
    "mar": {"111": 83.9, "011": 92.7, "101": 66.9, "110": 99.5},
    "full": {"111": 100.0, "011": 100.0, "101": 100.0, "110": 100.0},
    "full_dropout": {"111": 0.0, "011": 100.0, "101": 0.0, "110": 0.0},
    "labels": {"111": 63.3, "011": 98.8, "101": 93.6, "110": 88.4},
    "labels_dropout": {"111": 0.0, "011": 68.7, "101": 3.9, "110": 1.8},
}
"""Fact sheet, tables 4.1 to 4.3, in per cent."""


@pytest.mark.parametrize("name", LATE)
def test_late_means_are_those_of_the_sheet(name: str):
    curves = published(name)
    assert curves is not None
    for digits, expected in LATE[name].items():
        assert 100 * curves.late(digits) == pytest.approx(expected, abs=0.1)


def test_every_named_curve_is_there_with_all_compositions():
    assert set(LATE) == set(NAMED)
    for name in NAMED:
        curves = published(name)
        assert curves is not None
        assert sorted(curves.curves) == sorted(sum(LEVELS.values(), ()))
        assert all(0 <= value <= 1 for points in curves.curves.values() for _, value in points)
    best = max(value for _, value in published("maskgit").curves["111"])
    assert best == pytest.approx(0.141, abs=0.001)
    assert published("heavy") is None


def record(experiment: str, seed: int = 0, shift: float = 0.0) -> Record:
    curves = {
        f"accuracy@level{level}": [[step, 0.2 * level + shift] for step in (100, 200)]
        for level in (0, 1, 2)
    }
    found = {"accuracy@level2": Measurement.rate(3, 9)}
    return Record(
        "Does it?",
        f"recombine run {experiment} --seed {seed}",
        "",
        seed,
        "cpu",
        1.0,
        found,
        curves=curves,
    )


def test_a_panel_has_our_means_and_the_papers_curves():
    runs = [record("objective:maskgit"), record("objective:maskgit", 1, 0.2), record("jepa:blocks")]
    drawn = figure.draw(runs)
    shown = [axes for axes in drawn.axes if axes.get_visible()]
    # One of the two variants has the paper's curves over an axis of its own.
    assert len(shown) == 3
    first = next(axes for axes in shown if axes.get_title(loc="left") == "maskgit")
    assert [line.get_ydata()[0] for line in first.lines] == pytest.approx([0.1, 0.3, 0.5])
    other = next(axes for axes in shown if axes.get_title(loc="left") == "jepa: blocks")
    assert [line.get_ydata()[0] for line in other.lines] == pytest.approx([0.0, 0.2, 0.4])
    theirs = next(axes for axes in shown if not axes.get_title(loc="left"))
    assert len(theirs.lines) == 3


def test_a_run_without_a_curve_has_an_empty_panel():
    empty = replace(record("objective:mar"), curves={})
    assert len(figure.draw([empty]).axes[0].lines) == 3


@pytest.mark.parametrize(
    ("variant", "theirs"),
    [
        ("objective:maskgit_small", "maskgit"),
        ("objective:mar_small", "mar"),
        ("setting:maskgit_narrow", "maskgit"),
        ("setting:dit_kl_short", "dit_kl"),
        ("tokenizer:vq_all_small", "dit_vq"),
        ("tokenizer:kl_all_short", "dit_kl"),
        ("conditioning:full_dropout_small", "full_dropout"),
        ("conditioning:labels_dropout_still", "labels_dropout"),
        ("jepa:large", None),
        ("objective:maskgit_steered_small", None),
    ],
)
def test_other_sizes_stand_beside_the_same_curves(variant: str, theirs: str | None):
    _, *others = figure.draw([record(variant)]).axes
    drawn = [list(line.get_ydata()) for axes in others for line in axes.lines]
    if theirs is None:
        assert not drawn
        return
    curves = published(theirs)
    assert curves is not None
    assert drawn == [[y for _, y in curves.level(level)] for level in (0, 1, 2)]


@pytest.mark.parametrize(
    ("name", "own", "beside", "neither"),
    [
        ("tokenizer", "vq_all_small", "objective:dit_vq_small", "objective:dit_vq"),
        ("conditioning", "full_small", "objective:dit_vq_small", "objective:maskgit_small"),
        ("conditioning", "full_still", "still:vq_seen", "still:kl_seen"),
        ("setting", "maskgit_narrow", "objective:maskgit", "objective:mar"),
    ],
)
def test_variants_are_drawn_with_those_they_stand_beside(
    name: str, own: str, beside: str, neither: str
):
    drawn = figures()[name]([record(each) for each in (f"{name}:{own}", beside, neither)])
    titles = {axes.get_title(loc="left") for axes in drawn.axes if axes.get_visible()} - {""}
    other, variant = beside.split(":")
    assert titles == {own, variant}
    assert set(experiments_of(name)) >= {name, other}
