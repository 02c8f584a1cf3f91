"""Tables that set records side by side say which is which, and refuse what they do not know."""

from pathlib import PurePath

import pytest
from recombine.report.record import Record

from recombine.measurement import Measurement
from recombine.report.table import checkpoints, correlation, pasted, variant

HERE = PurePath(".")
PAIR = ("locality", "beyond")


def record(name: str, seed: int, **measured: Measurement) -> Record:
    command = f"recombine run study:{name} --seed {seed}"
    return Record("?", command, "x", seed, "cpu", 1.0, measured)


def trained(name: str, seed: int, *pairs: tuple[float, int]) -> Record:
    """A record with milestones, the last pair being the end."""
    curves = {
        each: [[100 * step, pair[index]] for step, pair in enumerate(pairs[:-1], start=1)]
        for index, each in enumerate(PAIR)
    }
    end = {each: Measurement(pairs[-1][index], None, None, n=9) for index, each in enumerate(PAIR)}
    command = f"recombine run study:{name} --seed {seed}"
    return Record("?", command, "x", seed, "cpu", 1.0, end, curves=curves)


RECORDS = {
    "first": record(
        "grid_all", 0, leak=Measurement(0.125, 0.1, 0.15, n=32), k_max=Measurement(7, 7, 8, n=256)
    ),
    "second": record("grid_one --steps 9", 1, leak=Measurement(0.5, None, None, n=32)),
}


def filled(name: str, records: dict[str, Record]) -> list[str]:
    text = pasted(f"<!-- table:{name} -->\n<!-- /table -->", records, HERE)
    return [line for line in text.splitlines() if line and not line.startswith("<!--")]


def test_compared_records_have_a_row_each_and_their_measurements_in_the_order_asked():
    assert filled("compared:second,first:k_max,leak", RECORDS) == [
        "| variant | seed | k_max | leak |",
        "| --- | --- | --- | --- |",
        "| grid_one --steps 9 | 1 |  | 0.5 |",
        "| grid_all | 0 | 7 [7, 8] | 0.125 [0.1, 0.15] |",
        "n = 256 (`k_max`), 32 (`leak`); in brackets, 95 % intervals.",
    ]


def test_the_number_of_samples_is_said_once():
    assert filled("compared:first,second:leak", RECORDS)[-1].startswith("n = 32;")
    fewer = record("grid_one", 1, leak=Measurement(0.5, None, None, n=8))
    said = filled("compared:first,fewer:leak", {**RECORDS, "fewer": fewer})[-1]
    assert said.startswith("n = 32 and 8;")


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("compared:first,third:leak", "record 'third' is not known; expected one of first, second"),
        ("compared::leak", "record '' is not known"),
        ("compared:second,first:leek", "'leek' is measured in none of second,first; .*: leak, k_"),
        ("compared:first", "'' is measured in none of first"),
        ("correlated:first,second:leak", "two measurements are correlated; got leak"),
        ("correlated:first:leak,k_max,leak", "two measurements are correlated; got leak, k_max"),
        ("contrasted:first:leak", "table 'contrasted:first:leak' is not known"),
    ],
)
def test_what_is_not_known_is_named(name: str, complaint: str):
    with pytest.raises(ValueError, match=complaint):
        filled(name, RECORDS)


def test_what_was_overridden_stays_in_the_name():
    assert variant(RECORDS["first"]) == "grid_all"
    assert variant(RECORDS["second"]) == "grid_one --steps 9"


def test_checkpoints_are_milestones_that_have_both_and_then_the_end():
    assert checkpoints(trained("a", 0, (0.2, -1), (0.9, 4)), PAIR) == [(0.2, -1), (0.9, 4)]
    assert checkpoints(trained("a", 0, (0.9, 4)), PAIR) == [(0.9, 4)]
    assert checkpoints(RECORDS["first"], PAIR) == []


RUNS = {
    "a0": trained("a", 0, (0.5, -3), (0.9, 4)),
    "a1": trained("a", 1, (0.4, -2), (0.8, 3)),
    "b0": trained("b", 0, (0.1, 0)),
}


def test_a_correlation_counts_models_runs_and_checkpoints_over_training_and_at_its_end():
    lines = filled("correlated:a0,a1,b0,first:locality,beyond", {**RUNS, **RECORDS})
    assert lines[0] == "| checkpoints | models | runs | n | Spearman |"
    # Ranks 3 1, 5 5, 2 2, 4 4, 1 3: squares of differences sum to 8, so 1 - 6 * 8 / (5 * 24).
    assert lines[2].startswith("| all | 2 | 3 | 5 | 0.6 [")
    assert lines[3].startswith("| the last of each run | 2 | 3 | 3 | 1 [")


def test_a_correlation_may_be_undefined():
    lines = filled("correlated:b0:locality,beyond", RUNS)
    assert lines[2:] == [
        "| all | 1 | 1 |  | undefined |",
        "| the last of each run | 1 | 1 |  | undefined |",
    ]


def test_a_correlation_does_not_depend_on_the_order_of_the_runs():
    many = [trained("c", seed, (seed / 7 % 1, seed % 5), (seed % 3, seed)) for seed in range(6)]
    assert correlation(many, PAIR) == correlation(many[::-1], PAIR)


def test_of_many_records_the_first_are_listed_and_the_likeliest_is_named():
    records = {f"run_{number}": record("run", number) for number in range(40)}
    with pytest.raises(ValueError, match=r"run_11, 28 more; did you mean run_3\d?\?") as error:
        filled("compared:run_3x:leak", records)
    assert "run_12," not in str(error.value)
