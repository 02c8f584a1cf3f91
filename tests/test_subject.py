"""Every measurement applies to any training, or raises one clear error."""

import subprocess
import sys
from dataclasses import fields

import pytest
import torch

from recombine.measure import MEASURES
from recombine.measure.subject import Curve, Findings, Measure, Subject, joined
from recombine.measurement import Measurement
from subjects import Model, training

ONE, TWO = (Measurement(value, None, None, n=1) for value in (1.0, 2.0))


@pytest.mark.parametrize("name", MEASURES)
def test_every_measurement_has_its_name_and_a_tiny_one(name: str):
    measure = MEASURES[name]
    assert isinstance(measure, Measure)
    assert measure.name == name
    assert type(measure.tiny()) is type(measure)
    assert measure == MEASURES[name]
    assert hash(measure) == hash(MEASURES[name])


@pytest.mark.parametrize("name", MEASURES)
def test_a_measurement_that_does_not_apply_raises_one_clear_error(name: str):
    subject = Model(training(world=None))
    assert isinstance(subject, Subject)
    with pytest.raises(ValueError, match=f"{name} is measured on .*; got NoneType"):
        MEASURES[name](subject, torch.Generator())


def test_names_are_known_without_any_import():
    code = """
import sys, types
sys.modules["recombine"] = types.ModuleType("recombine")
sys.modules["recombine"].__path__ = [sys.argv[1]]
from recombine.measure import MEASURES
print(len(list(MEASURES)), "torch" in sys.modules)
"""
    source = next(path for path in sys.path if path.endswith("src")) + "/recombine"
    done = subprocess.run([sys.executable, "-c", code, source], capture_output=True, text=True)
    assert done.stdout.split() == [str(len(MEASURES)), "False"], done.stderr


def test_of_the_same_name_the_last_is_kept_and_all_alarms():
    curve: Curve = [[1, 0.5], [2, 0.6, 0.5, 0.7]]
    first = Findings({"a": ONE, "b": ONE}, curves={"loss": curve}, alarms=("one",))
    second = Findings({"b": TWO}, undefined={"c": "why"}, alarms=("two", "three"))
    found = joined([first, second])
    assert found.measurements == {"a": ONE, "b": TWO}
    assert found.curves == {"loss": curve}
    assert found.undefined == {"c": "why"}
    assert found.alarms == ("one", "two", "three")
    assert joined([]) == Findings({})
    assert joined([first]) == first


def test_a_measurement_has_four_fields():
    assert [each.name for each in fields(Measurement)] == ["value", "low", "high", "n"]


def test_a_measurement_may_change_its_unit_and_be_clipped_to_what_is_possible():
    measured = Measurement(0.5, -0.5, 1.5, n=3)
    assert measured.mapped(lambda end: 2 * end - 1) == Measurement(0.0, -2.0, 2.0, n=3)
    assert measured.clipped() == Measurement(0.5, 0.0, 1.5, n=3)
    assert measured.clipped(most=1.0) == Measurement(0.5, 0.0, 1.0, n=3)
    alone = Measurement(0.5, None, None, n=1)
    assert alone.clipped() == alone
    assert alone.mapped(lambda end: 2 * end) == Measurement(1.0, None, None, n=1)
