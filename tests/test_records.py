"""`recombine records`: from an overview to every row, and one line for what is not there."""

import csv
import importlib.util
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from recombine.__main__ import main
from recombine.measurement import Measurement
from recombine.results import keep, read, write
from recombine.results.query import arrays
from stub_results import a_run

RATE = Measurement(0.5, 0.25, 0.75, n=256)


@pytest.fixture(autouse=True)
def results(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    runs = [
        a_run("grid_all", 0, {"k_max": 7, "success@9": RATE}, {"loss": [(10, 1 / 3)]}),
        a_run("grid_all", 1, {"k_max": 9}),
        a_run("grid_one-local", 0, {"k_max": 6}),
        a_run("base", 0, {"leak": 0.1}, study="laws"),
    ]
    keep(runs, tmp_path / "results")
    return tmp_path / "results"


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run `recombine records` on the stub; return what is on standard output."""

    def run(*words: str) -> str:
        assert main(["records", *words, "--where", "results"]) == 0
        return capsys.readouterr().out

    return run


def rows(text: str) -> list[list[str]]:
    """The cells of a printed table, split at two spaces or more."""
    lines = (line.strip() for line in text.splitlines())
    return [[c.strip() for c in line.split("  ") if c.strip()] for line in lines if line]


def test_alone_it_lists_the_studies(said: Callable[..., str]):
    head, _, *found = rows(said())
    assert head == ["study", "cells", "runs", "numbers"]
    assert found == [["laws", "1", "1", "1"], ["length", "2", "3", "5"]]


def test_of_a_study_it_lists_the_cells(said: Callable[..., str]):
    head, _, *found = rows(said("length"))
    assert head == ["cell", "seeds", "device", "numbers"]
    assert found == [["grid_all", "0, 1", "cpu", "4"], ["grid_one-local", "0", "cpu", "1"]]


def test_measurements_become_columns_with_means_over_seeds(said: Callable[..., str]):
    head, _, *found = rows(said("length", "--measurement", "success@*,k_max", "--cell", "grid_a*"))
    assert head == ["cell", "seeds", "success@9", "k_max"]
    assert found == [["grid_all", "2", "0.5 [0.25, 0.75]", "8 [-4.71, 20.7]"]]


def test_of_a_cell_every_final_number_is_listed(said: Callable[..., str]):
    head, _, *found = rows(said("length", "--cell", "grid_all"))
    assert head == ["cell", "measurement", "value [95 % interval]", "seeds", "n"]
    assert found == [
        ["grid_all", "k_max", "8 [-4.71, 20.7]", "2"],
        ["grid_all", "success@9", "0.5 [0.25, 0.75]", "1", "256"],
    ]


def test_csv_has_every_row_with_its_levels_and_whole_numbers(said: Callable[..., str]):
    found = list(csv.DictReader(io.StringIO(said("length", "--csv"))))
    assert len(found) == 5
    assert (found[0]["condition"], found[0]["sampling"], found[0]["value"]) == (
        "grid_all",
        "plain",
        "7.0",
    )
    assert [row["step"] for row in found if row["measurement"] == "loss"] == ["10.0"]
    assert found[1]["n"] == "256"


def test_json_has_every_row_and_null_for_what_is_not_known(said: Callable[..., str]):
    told = json.loads(said("length", "--json", "--cell", "grid_one-local"))
    assert told["subject"] == "records"
    (row,) = told["rows"]
    assert (row["value"], row["low"], row["step"], row["network"]) == (6, None, None, "local")


def test_latex_is_a_table_of_booktabs(said: Callable[..., str]):
    text = said("length", "--latex", "--measurement", "k_max")
    assert text.startswith("\\begin{tabular}{lll}\n\\toprule\ncell & seeds & k\\_max \\\\")
    assert "grid\\_one-local & 1 & 6 \\\\" in text


def test_parquet_needs_a_package(said: Callable[..., str], capsys: pytest.CaptureFixture[str]):
    if importlib.util.find_spec("pyarrow"):
        said("--parquet", "all.parquet")
        assert Path("all.parquet").exists()
        return
    assert main(["records", "--where", "results", "--parquet", "all.parquet"]) == 1
    wrong = capsys.readouterr().err
    assert wrong == "recombine: Parquet is written by pyarrow: pip install 'recombine[parquet]'\n"


def test_finished_runs_are_kept_with_their_arrays(results: Path, capsys):
    write(
        a_run("grid_all", 0, {"k_max": 12}), Path("runs/length/grid_all/seed0"), {"map": np.ones(1)}
    )
    assert main(["records", "length", "--where", "runs", "--keep", "results"]) == 0
    first, *others = read(results / "length.csv")
    assert [row.value for row in first.rows] == [12]
    assert len(others) == 2
    assert list(arrays("length", results)) == ["grid_all/seed0/map"]
    assert main(["records", "--keep", "results"]) == 2
    assert "say with --where where they are" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["lenght"], "'lenght' has no results in results; .* did you mean length?"),
        (["length", "--cell", "grid_al"], "cell 'grid_al' is not on record; .* mean grid_all?"),
        (["length", "--measurement", "k_mx"], "measurement 'k_mx' is not on record; .* k_max?"),
    ],
)
def test_what_is_not_on_record_is_named(words: list[str], complaint: str, capsys):
    assert main(["records", *words, "--where", "results"]) == 2
    wrong = capsys.readouterr().err
    assert wrong.count("\n") == 1
    start, _, end = complaint.partition(".*")
    assert start in wrong
    assert end in wrong


def test_the_package_gives_the_same_table(results: Path):
    import recombine

    assert len(recombine.records("length", results)) == 5
    assert "records" in recombine.__all__
