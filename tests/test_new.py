"""`recombine new`: what it writes runs as it is, passes its own test, and spoils nothing."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from recombine import own, studies
from recombine.__main__ import main
from recombine.commands.new import KINDS
from recombine.results import read

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one file of each kind."""
    folder = tmp_path_factory.mktemp("new")
    for kind in KINDS:
        assert main(["new", kind, f"my_{kind}", "--out", str(folder / f"my_{kind}.py")]) == 0
    return folder


def test_each_passes_its_own_tests(written: Path):
    """In a process of its own: the shape checks of these tests do not reach what a user runs."""
    files = [str(written / f"my_{kind}.py") for kind in KINDS]
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(written), *files]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=written,
        env={"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_each_runs(kind: str, written: Path, tmp_path: Path):
    words = [str(written / f"my_{kind}.py"), "--tiny", "--steps", "2", "--device", "cpu"]
    assert main(["run", *words, "--out", str(tmp_path)]) == 0
    found = [read(path)[0] for path in tmp_path.rglob("results.csv")]
    assert {each.origin.study for each in found} == {f"my_{kind}"}
    names = {row.measurement for each in found for row in each.rows}
    expected = {"world": "loss", "study": "accuracy@test", "measurement": "my_measurement"}
    assert expected[kind] in names


def test_the_study_keeps_to_the_rules_of_ours(written: Path):
    of = studies.load(str(written / "my_study.py"))
    assert list(of.cells) == ["usual", "small"]
    assert of.question.endswith("?")
    assert of.cost
    assert of.cells["small"].training.network != of.cells["usual"].training.network


@pytest.mark.parametrize("kind", KINDS)
def test_every_name_in_it_is_the_new_one(kind: str, written: Path):
    text = (written / f"my_{kind}.py").read_text()
    assert "keleton" not in text
    assert "FILE" not in text
    assert f"recombine run my_{kind}.py --tiny" in text
    compile(text, kind, "exec")


def test_a_class_is_named_in_capitals(written: Path):
    assert own.imported(str(written / "my_world.py"))[0].MyWorldWorld.name == "my_world"
    assert own.imported(str(written / "my_measurement.py"))[0].MyMeasurementMeasure().name


def test_by_default_it_is_written_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "world", "FILE_of_mine", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "subject": "FILE_of_mine",
        "out": "FILE_of_mine.py",
    }
    assert 'name: ClassVar[str] = "FILE_of_mine"' in Path("FILE_of_mine.py").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["studi", "mine"], "'studi' is not one of world, study, measurement; did you mean study?"),
        (["study", "my-study"], "a name is of letters, digits and _, such as my_study; got 'my-s"),
        (["study", "class"], "such as my_study; got 'class'"),
        (["study", "2nd"], "such as my_study; got '2nd'"),
        (["study", "mine", "--out", "a-b.py"], "such as my_study; got 'a-b'"),
        (["study", "mine", "--out", "mine.txt"], "--out is a .py file; got mine.txt"),
        (
            ["study", "mine", "--out", "no/mine.py"],
            "no is no folder; expected one to write mine.py",
        ),
        (["study", "there"], "there.py exists; choose another name, or --out"),
        (["study", "mine", "--out", "there.py"], "there.py exists; choose another name"),
        (["world", "length"], "length is the name of a shipped study; choose another one"),
        (["world"], "NAME is missing"),
    ],
)
def test_wrong_use_is_said_in_one_line_and_nothing_is_written(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refused: Callable[..., str],
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.py").write_text("mine = True\n")
    assert message in refused("new", *words)
    assert (tmp_path / "there.py").read_text() == "mine = True\n"
