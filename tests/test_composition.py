"""Accuracy by composition, level and factor; what a curve over training amounts to."""

from dataclasses import replace

import pytest
import torch

from recombine.measure.composition import Composition, accuracies
from recombine.measure.subject import SumsUp
from recombine.measurement import Measurement
from recombine.scene import Concepts, compositions, concept_rows
from recombine.worlds.shapes2d import BINARY

EVERY = compositions(BINARY.factors)
TRUE = dict(zip(EVERY, concept_rows(BINARY.factors, EVERY), strict=True))


def read(samples: int = 10) -> dict[tuple[str, ...], torch.Tensor]:
    """What a faultless model draws."""
    return {which: row.repeat(samples, 1) for which, row in TRUE.items()}


def test_a_faultless_model_is_right_at_every_level():
    found = accuracies(BINARY, read())
    assert all(each.value == 1 for each in found.values())
    pooled = [found[f"accuracy@level{level}"].n for level in (0, 1, 2)]
    assert pooled == [40, 30, 10]
    assert found["accuracy@triangle-small-blue"].n == 10
    assert found["accuracy@level2"] == Measurement.rate(10, 10)


def test_errors_count_where_they_are_made():
    rows = read()
    rows["triangle", "small", "blue"][:3, 2] = 0
    rows["circle", "small", "blue"][:5, 0] = 1
    found = accuracies(BINARY, rows)
    assert found["accuracy@level2"].value == 0.7
    assert found["colour_right@level2"].value == 0.7
    assert found["shape_right@level2"].value == 1
    assert found["accuracy@circle-small-blue"].value == 0.5
    assert found["accuracy@level1"].value == pytest.approx(25 / 30)
    assert found["shape_right@level1"].value == pytest.approx(25 / 30)
    assert found["accuracy@level0"].value == 1


def test_all_factors_must_be_right_in_one_image():
    # Each factor is wrong in three of ten images: together, or in images of their own.
    for shift, joint in ((0, 0.7), (3, 0.1)):
        rows = read()
        for factor in range(3):
            at = slice(shift * factor, shift * factor + 3)
            rows["triangle", "small", "blue"][at, factor] = 0
        found = accuracies(BINARY, rows)
        rates = [found[f"{name}_right@level2"].value for name in ("shape", "size", "colour")]
        assert rates == [0.7] * 3
        assert found["accuracy@level2"].value == pytest.approx(joint)


def test_some_compositions_may_be_left_out_and_a_suffix_marks_the_reader():
    few = {which: rows for which, rows in read().items() if which in BINARY.at(1)}
    found = accuracies(BINARY, few, "_ceiling")
    assert "accuracy_ceiling@level1" in found
    assert not any("level0" in name or "level2" in name for name in found)


def test_a_curve_is_summed_up():
    steps = [100 * k for k in range(1, 13)]
    curves = {
        "accuracy@level0": [[step, min(1.0, 0.1 * k)] for k, step in enumerate(steps)],
        "accuracy@level2": [[step, 0.0 if k < 6 else 0.6] for k, step in enumerate(steps)],
    }
    assert isinstance(Composition(), SumsUp)
    found = Composition().over_training(curves)
    # Of the last ten points four are 0 and six are 0.6.
    assert found["accuracy_late@level2"].value == pytest.approx(0.36)
    assert found["accuracy_late@level2"].n == 10
    assert not any("level1" in name for name in found)
    with_ends = {name: [[*row, 0.0, 1.0] for row in curve] for name, curve in curves.items()}
    assert Composition().over_training(with_ends) == found


@pytest.mark.parametrize(
    ("left_out", "words"),
    [
        (BINARY.at(1), "nothing at level 1; its levels: 0, 2"),
        (BINARY.held_out, "nothing at level 1; its levels: 0"),
    ],
)
def test_a_split_with_an_empty_level_is_refused(left_out: tuple[Concepts, ...], words: str):
    with pytest.raises(ValueError, match=f"{words}$"):
        Composition(replace(BINARY, left_out=left_out))
