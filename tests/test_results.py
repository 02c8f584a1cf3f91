"""Results survive the disk to the bit, and are whole or not there."""

import json
import math
import sys
from pathlib import Path
from subprocess import run

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recombine.measure.subject import Findings
from recombine.measurement import Measurement
from recombine.results import Origin, Results, Row, keep, read, store, write
from recombine.results.findings import notes, rows
from recombine.results.query import arrays, records, runs, table
from recombine.studies import load, names

LEVELS = {"condition": "grid_all", "network": "unet"}


def origin(cell: str = "grid_all", seed: int = 0, study: str = "length", **changed) -> Origin:
    known = {"levels": LEVELS, "seconds": 61.5, "command": 'run "it", twice', "commit": "c"}
    fixed = {"source": "s", "versions": {"torch": "2.13.0"}, "notes": ("alarm: # 1, ü",)}
    return Origin(study, cell, seed, "NVIDIA H200", **{**known, **fixed, **changed})


def results(cell: str = "grid_all", seed: int = 0, value: float = 1 / 3, **changed) -> Results:
    found = (Row("k_max", 7, 7, 8, 256, reader="detector"), Row('odd "name", @5%', value))
    return Results(origin(cell, seed, **changed), (*found, Row("loss", 0.5, step=1.25)))


FINDINGS = Findings(
    {"rate": Measurement(1 / 3, 0.1, 0.5, n=9)},
    curves={"loss": [[100, 2 / 3], [200, 1e-7 / 3, 0.0, 1.0]], "k_max": [[100, 7, 6, 8, 256]]},
    undefined={"leak": "nothing was drawn"},
    alarms=("two of nine are nan",),
)


def test_results_survive_the_disk(tmp_path: Path):
    path = write(results(), tmp_path / "runs/length/grid_all/seed0")
    assert read(path) == [results()]
    assert read(tmp_path) == [results()]
    # Whole numbers stay whole, and nothing else lies there.
    assert [type(row.value) for row in read(path)[0].rows] == [int, float, float]
    assert [each.name for each in path.parent.iterdir()] == ["results.csv"]


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.tuples(finite, st.one_of(finite, st.none(), st.integers(0, 10**9))), max_size=5))
def test_every_number_is_read_as_it_was(values: list[tuple[float, float | None]]):
    found = [Row(f"m{i}", one, step=other) for i, (one, other) in enumerate(values)]
    kept = Results(origin(), tuple(found))
    (again,) = store.parsed(store.text([kept]))
    assert again == kept


def test_a_file_is_plain_text_with_its_version_and_its_runs_first():
    first, run, head, *lines = store.text([results()]).splitlines()
    assert json.loads(first.removeprefix("# ")) == {"recombine results": 1, "study": "length"}
    said = json.loads(run.removeprefix("# "))
    assert (said["cell"], said["levels"], said["rows"]) == ("grid_all", LEVELS, 3)
    assert head == "run,step,measurement,value,low,high,n,reader"
    assert lines[0] == "0,,k_max,7,7,8,256,detector"
    assert lines[2] == "0,1.25,loss,0.5,,,,"


def test_findings_become_rows_and_only_curves_lose_digits():
    final, *curve = rows(FINDINGS, reader="probe")
    assert final == Row("rate", 1 / 3, 0.1, 0.5, 9, None, "probe")
    assert curve == [
        Row("loss", 0.666667, step=100, reader="probe"),
        Row("loss", 3.33333e-08, 0.0, 1.0, step=200, reader="probe"),
        Row("k_max", 7, 6, 8, 256, 100, "probe"),
    ]
    assert rows(FINDINGS, step=1200)[0] == Row("rate", 0.333333, 0.1, 0.5, 9, 1200)
    assert notes(FINDINGS) == ("two of nine are nan", "leak is undefined: nothing was drawn")


@pytest.mark.parametrize("value", [math.nan, math.inf, True])
def test_a_row_is_of_finite_numbers(value: float):
    for name in ("value", "low", "high", "step"):
        with pytest.raises(ValueError, match="a row is of finite numbers"):
            Row(**{"measurement": "k_max", "value": 7, name: value})


def test_one_measurement_has_one_row_a_step():
    twice = (Row("loss", 1.0, step=5), Row("loss", 2.0, step=6), Row("loss", 3.0, step=5))
    with pytest.raises(ValueError, match="grid_all/seed0 has two rows of loss at step 5"):
        Results(origin(), twice)


@pytest.mark.parametrize("name", ["", "two words", "a/b", "a:b"])
def test_names_of_cells_are_single_words(name: str):
    with pytest.raises(ValueError, match="single words"):
        origin(cell=name)


# Whole or not there


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = write(results(), tmp_path)
    whole = path.read_bytes()

    def broken(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        write(results(value=0.5), tmp_path)
    assert path.read_bytes() == whole
    assert [each.name for each in tmp_path.iterdir()] == ["results.csv"]


def test_rows_are_written_after_their_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What has rows is whole: a run that dies in between has none, and is measured again."""

    def broken(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(store, "write_text", broken)
    with pytest.raises(OSError, match="disk full"):
        write(results(), tmp_path, {"map": np.ones(2)})
    assert [each.name for each in tmp_path.iterdir()] == ["results.safetensors"]
    assert read(tmp_path) == []


def test_a_file_that_was_cut_is_refused_wherever_it_was_cut(tmp_path: Path):
    path = write(results(), tmp_path)
    text = path.read_text()
    for end in range(len(text) - 1):
        path.write_text(text[:end])
        with pytest.raises(ValueError, match="results.csv: "):
            read(path)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"recombine results": 1', '"recombine results": 2', "has version 2; this recombine reads"),
        ('"recombine results": 1', '"recombine results": 0', "has version 0"),
        ('# {"recombine results"', '# {"something"', "its first line has no version"),
        ("0,,k_max,7", "0,,k_max,seven", "a row that is not of numbers"),
        ("0,,k_max,7", "0,,k_max,", "a row without a value"),
        ("0,,k_max,7,", "0,,k_max,", "line 4 has 7 values instead of 8"),
        ("0,,k_max", "3,,k_max", "is not whole: it has 2 rows"),
        ("run,step,measurement", "run,step,name", "has the columns run, step, name"),
        ('"seed": 0, ', "", "does not say the seed"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line(
    tmp_path: Path, old: str, new: str, complaint: str
):
    path = write(results(), tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=complaint) as error:
        read(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(ValueError, match="none.csv: cannot be read: No such file"):
        read(tmp_path / "none.csv")


# The first version


VERSION_1 = """\
# {"recombine results": 1, "study": "length"}
# {"run": 0, "rows": 2, "cell": "grid_all", "seed": 0, "device": "cpu", "levels": {}, \
"seconds": 1.0, "command": "x", "commit": "c", "source": "s", "versions": {}, "notes": []}
run,step,measurement,value,low,high,n,reader
0,,k_max,7,7,8,256,detector
0,100,loss,0.5,,,,
"""


def test_version_1_is_read(tmp_path: Path):
    """This text never changes: a change of the format adds an upgrade, and a text beside it."""
    (tmp_path / "length.csv").write_text(VERSION_1)
    (found,) = read(tmp_path / "length.csv")
    assert found.rows == (Row("k_max", 7, 7, 8, 256, None, "detector"), Row("loss", 0.5, step=100))
    assert (found.origin.cell, found.origin.device) == ("grid_all", "cpu")


# The folder of all results


def test_runs_are_kept_a_file_a_study_and_replace_what_they_were(tmp_path: Path):
    maps = {"grid_all/seed0/map": np.zeros(2), "grid_all/seed1/map": np.ones(2)}
    maps |= {"grid_all/seed0/gone": np.ones(2)}
    keep([results(), results(seed=1), results("base", study="toy")], tmp_path, maps)
    assert sorted(each.name for each in tmp_path.glob("*.csv")) == ["length.csv", "toy.csv"]
    again = {"grid_all/seed0/map": np.full(2, 5.0)}
    keep([results(value=0.5), results("grid_one")], tmp_path, again)
    found = read(tmp_path / "length.csv")
    assert found == [results(value=0.5), results(seed=1), results("grid_one")]
    kept = arrays("length", tmp_path)
    assert {name: each.tolist() for name, each in kept.items()} == {
        "grid_all/seed0/map": [5, 5],
        "grid_all/seed1/map": [1, 1],
    }
    assert arrays("toy", tmp_path) == {}


def test_arrays_of_runs_are_found_beside_their_rows(tmp_path: Path):
    write(results(), tmp_path / "a", {"map": torch.arange(3)})
    write(results("base", study="toy"), tmp_path / "b", {"map": np.ones(1)})
    (name, found), *others = arrays("length", tmp_path).items()
    assert (name, found.tolist(), others) == ("grid_all/seed0/map", [0, 1, 2], [])
    # Measured again without arrays, none of an earlier time stay.
    write(results(), tmp_path / "a")
    assert arrays("length", tmp_path) == {}


def test_a_table_has_a_row_a_number_and_a_column_an_axis(tmp_path: Path):
    other = results("base", study="toy", levels={"model": "denoising"})
    keep([results(), other], tmp_path)
    found = records(where=tmp_path)
    assert list(found.columns) == [
        *("study", "cell", "condition", "network", "model", "seed", "step", "measurement"),
        *("value", "low", "high", "n", "reader", "device", "commit", "source"),
    ]
    assert len(found) == 6
    first = found.iloc[0]
    assert (first["study"], first["condition"], first["model"]) == ("length", "grid_all", "")
    assert (first["value"], first["n"], first["reader"]) == (7, 256, "detector")
    assert found["step"].isna().tolist() == [True, True, False] * 2
    toy = records("toy", tmp_path)
    assert (set(toy["study"]), list(toy.columns)[2]) == ({"toy"}, "model")
    assert runs("toy", tmp_path)["command"].tolist() == ['run "it", twice']


def test_a_study_without_results_is_named_with_the_nearest(tmp_path: Path):
    keep([results()], tmp_path)
    with pytest.raises(ValueError, match="'lenght' has no results .* did you mean length"):
        records("lenght", tmp_path)
    with pytest.raises(ValueError, match="nowhere is not there"):
        records(where=tmp_path / "nowhere")


def test_an_axis_is_not_called_like_a_column():
    with pytest.raises(ValueError, match="an axis cannot be called reader"):
        table([results(levels={"reader": "probe"})])


def test_reading_and_writing_rows_needs_neither_pandas_nor_torch():
    code = "import sys, recombine.results; print(sorted({'pandas', 'torch'} & {*sys.modules}))"
    done = run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# The results of this repository


def test_the_results_of_the_repository_are_small_and_whole():
    home = Path(__file__).parents[1] / "results"
    found = read(home)
    assert len(found) > 100
    assert sum(each.stat().st_size for each in home.rglob("*") if each.is_file()) < 6_000_000
    assert {each.origin.study for each in found} == {each.stem for each in home.glob("*.csv")}


def test_every_run_on_record_is_a_cell_of_its_study_with_its_levels():
    """Scripts measured speeds, Blender, adjacent places and the theory of concept space."""
    declared = {name: load(name).levels for name in names()}
    for found in read(Path(__file__).parents[1] / "results"):
        origin = found.origin
        if origin.study in ("bench", "fidelity", "guidance") or origin.cell == "theory":
            continue
        assert declared[origin.study][origin.cell] == origin.levels, origin.run
