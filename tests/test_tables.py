"""Tables and numbers in pages say what the results say, and nothing that is not there."""

import pytest

from recombine.measurement import Measurement
from recombine.report.paste import filled, pasted, written
from recombine.report.published import published
from recombine.report.queries import (
    ByCell,
    Choice,
    Correlations,
    Numbers,
    Papers,
    Suffixes,
    checkpoints,
    chosen,
)
from recombine.report.table import latex, markdown
from recombine.report.templates import CHOICES, TEMPLATES
from recombine.results.query import records
from stub_results import a_run, a_table

K_MAX = Measurement(7, 7, 8, n=256)


def leak(value: float) -> Measurement:
    return Measurement(value, value - 0.1, value + 0.1, n=32)


TABLE = a_table(
    a_run("grid_one-one", 0, {"leak": leak(0.5)}),
    a_run("grid_all", 1, {"leak": leak(0.75), "k_max": Measurement(9, 8, 9, n=64)}),
    a_run("grid_all", 0, {"leak": leak(0.25), "k_max": K_MAX}, {"k_max": [(100, 3)]}),
)


def test_cells_have_a_row_each_with_the_mean_over_seeds_or_every_seed():
    shown = ByCell(("length",), ("leak", "k_max"), axes=("objects",), each=("k_max",))(TABLE)
    assert shown.head == ("cell", "objects", "seeds", "leak", "k_max")
    # 0.5 +- 12.706 * 0.3536 / sqrt(2), clipped as a share.
    assert shown.rows == (
        ("`grid_one-one`", "one", "1", "0.5 [0.4, 0.6]", ""),
        ("`grid_all`", "up_to_3", "2", "0.5 [0, 1]", "7, 9"),
    )
    assert shown.note.endswith("Samples a run: 32 to 256.")


def test_cells_without_what_is_needed_are_left_out_and_studies_are_named_where_there_are_two():
    table = a_table(a_run("grid_all", 0, {"k_max": K_MAX}), a_run("grid_one", 0, {"leak": 1.0}))
    shown = ByCell(("length", "toy"), ("k_max", "leak"), needed="leak")(table)
    assert [row[0] for row in shown.rows] == ["`length:grid_one`"]


def test_the_papers_value_stands_beside_ours():
    shown = ByCell(("length",), ("k_max",), compared=("k_max",))(TABLE)
    assert shown.head[-2:] == ("k_max", "k_max in the paper")
    assert shown.rows == (("`grid_all`", "2", "8 [-4.71, 20.7]", "7"),)
    (row,) = Papers()(TABLE).rows
    assert row == ("`length:grid_all`", "k_max", "7", "7, 9", "paper", row[-1])
    assert row[-1].startswith("Bradley 2025")


def test_published_values_are_whole_rows():
    known = published()
    assert list(known.columns) == ["study", "cell", "measurement", "value", "grade", "source"]
    assert not known.isna().any().any()
    assert not known.duplicated(["study", "cell", "measurement"]).any()
    assert set(known["grade"]) <= {"paper", "second-hand", "figure", "derived"}


def test_numbers_of_one_cell_have_a_row_each():
    shown = Numbers(("length:grid_one*",), ("le*",))(TABLE)
    assert shown.rows == (("leak", "0.5", "[0.4, 0.6]", "32"),)
    assert Numbers(("length:grid_one*",), ("k*",))(TABLE).rows == ()


def test_names_with_an_at_become_rows_and_columns():
    table = a_table(
        a_run("base", 0, {"leak@T1": 0, "gap@T1": 1, "leak@T2": 2.5, "n": 3}, study="laws")
    )
    shown = Suffixes(("laws",), ("leak", "gap"), what="law")(table)
    assert shown.head == ("law", "leak", "gap")
    assert shown.rows == (("T1", "0", "1"), ("T2", "2.5", ""))


PAIR = ("locality", "beyond")


def trained(cell: str, seed: int, *pairs: tuple[float, int]):
    """A run with milestones, the last pair being the end."""
    early = {
        name: [(100 * step, pair[at]) for step, pair in enumerate(pairs[:-1], start=1)]
        for at, name in enumerate(PAIR)
    }
    return a_run(cell, seed, dict(zip(PAIR, pairs[-1], strict=True)), early)


RUNS = a_table(
    trained("grid_all", 0, (0.5, -3), (0.9, 4)),
    trained("grid_all", 1, (0.4, -2), (0.8, 3)),
    trained("grid_one", 0, (0.1, 0)),
    a_run("list_all", 0, {"locality": 0.5}),
)


def test_checkpoints_are_milestones_that_have_both_and_then_the_end():
    assert checkpoints(RUNS, PAIR) == {
        "grid_all/seed0": [(0.5, -3), (0.9, 4)],
        "grid_all/seed1": [(0.4, -2), (0.8, 3)],
        "grid_one/seed0": [(0.1, 0)],
    }


def test_a_correlation_counts_runs_and_checkpoints_of_what_is_chosen():
    choices = {
        "ends": Choice(),
        "all": Choice(milestones=True),
        "some": Choice(("grid_*/seed0",), without=("grid_all/*",)),
    }
    ends, every, some = Correlations(("length",), PAIR, choices)(RUNS).rows
    assert ends[:3] == ("ends", "3", "3")
    assert ends[3].startswith("1 [")
    # Ranks 3 1, 5 5, 2 2, 4 4, 1 3: squares of differences sum to 8, so 1 - 6 * 8 / (5 * 24).
    assert every[:3] == ("all", "3", "5")
    assert every[3].startswith("0.6 [")
    assert some == ("some", "1", "1", "undefined")


def test_no_weights_are_counted_twice_and_a_half_is_named():
    ends, plain, again, _ = CHOICES.values()
    assert "list_all-local/seed0" in ends
    assert "list_all-local-guided/seed0" not in ends
    assert "grid_one-local-guided/seed0" not in plain
    assert "grid_all/seed2" in again
    assert "grid_all/seed1" not in again
    # `one` is a level of its own, and a part of others' names.
    assert "grid_one/seed0" not in again
    assert "grid_one-one/seed1" in again
    assert "grid_one-local-one-guided/seed0" in again


def test_subjects_are_studies_or_patterns_of_cells_in_their_order():
    found = chosen(TABLE, ("length:grid_one*", "length:grid_all"))
    assert list(dict.fromkeys(found["cell"])) == ["grid_one-one", "grid_all"]
    assert len(chosen(TABLE, ("toy",))) == 0


# Pages


def test_pasting_replaces_what_stands_between_the_markers_and_nothing_else():
    text = "# Title\n<!-- table: papers -->\nold\n<!-- /table -->\nend\n"
    once = pasted(text, TABLE)
    assert once.startswith("# Title\n<!-- table: papers -->\n\n| cell | measurement | paper |")
    assert once.endswith("|\n\n<!-- /table -->\nend\n")
    assert "old" not in once
    assert pasted(once, TABLE) == once


def test_a_page_without_markers_stays_as_it_is():
    for text in ("", "no end of line", "two\n\nlines\n", "a <!-- comment --> of its own\n"):
        assert pasted(text, TABLE) == text


def test_a_table_of_nothing_says_so():
    assert written(filled("factorial_effects", TABLE)) == "Nothing is on record yet."


@pytest.mark.parametrize(
    ("marker", "number"),
    [
        ("length:grid_all:leak", "0.5"),
        ("length:grid_all:leak, interval", "0.5 [0, 1]"),
        ("length:grid_all:leak, percent", "50 %"),
        ("length:grid_all:k_max, seeds", "7, 9"),
        ("length:grid_all:k_max, seed1", "9"),
    ],
)
def test_a_number_of_the_text_is_written_as_its_marker_says(marker: str, number: str):
    text = f"It draws <!-- number: {marker} -->3<!-- / --> or <!-- number: {marker} --><!-- / -->."
    begin = f"<!-- number: {marker} -->"
    assert (
        pasted(text, TABLE) == f"It draws {begin}{number}<!-- / --> or {begin}{number}<!-- / -->."
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("<!-- table: papers -->\n", "table papers does not end"),
        ("<!-- /table -->\n", "a table ends outside a table"),
        ("<!-- table: papers -->\n<!-- table: laws -->\n", "begins inside table papers"),
        ("<!-- table: lenght -->\n<!-- /table -->\n", "'lenght' is not known.*did you mean length"),
        ("<!-- number: length:grid_all:k_mx -->7<!-- / -->", "'k_mx' is not on .* mean k_max"),
        ("<!-- number: length:grid_al:k_max -->7<!-- / -->", "'grid_al' is not .* mean grid_all"),
        ("<!-- number: length:grid_all -->7<!-- / -->", "named STUDY:CELL:MEASUREMENT"),
        ("<!-- number: length:grid_all:k_max, seed7 -->7<!-- / -->", "seed 7 is not on record"),
        ("<!-- number: length:grid_all:k_max, long -->7<!-- / -->", "'long' is not one of"),
        ("<!-- number: length:grid_all:k_max -->7 objects", "k_max does not end"),
    ],
)
def test_markers_that_do_not_fit_are_named(text: str, complaint: str):
    with pytest.raises(ValueError, match=complaint):
        pasted(text, TABLE)


def test_a_bar_or_a_break_does_not_end_a_cell():
    assert markdown(["a"], [["b|c\nd"]]).splitlines()[-1] == r"| b\|c d |"


def test_names_are_escaped_for_latex():
    assert latex(["cell"], [["`grid_all` 5 %"]]).splitlines()[4] == r"grid\_all 5 \% \\"


# The repository

AWAITED = ("factorial_effects",)
"""Tables of studies that are declared and wait for a GPU."""


def test_every_declared_table_is_filled_in_from_the_results_of_the_repository():
    table = records()
    for name in TEMPLATES:
        shown = filled(name, table)
        assert shown.rows or name.startswith(AWAITED), name
        assert all(len(row) == len(shown.head) for row in shown.rows), name
        # No column is empty: a misspelled measurement would be one.
        columns = zip(*shown.rows, strict=True)
        empty = [head for head, cells in zip(shown.head, columns, strict=False) if not any(cells)]
        assert empty in ([], ["95 % interval"]), name
