"""A study in a file of the user's own works as a shipped one, and its mistakes are its own."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import recombine
from recombine import own, studies
from recombine.__main__ import main
from recombine.checkpoint import Checkpoint
from recombine.results import read
from recombine.results.query import records
from recombine.run import state
from toy_runs import said

EXAMPLE = Path(__file__).parents[1] / "examples" / "my_split.py"
TOY = """
from recombine.studies.toy import STUDY as toy
from recombine.study import replace, study
from recombine.measurement import Measurement
from recombine.measure.subject import Findings
from dataclasses import dataclass

@dataclass(frozen=True)
class Seven:
    name = "seven"
    def __call__(self, subject, generator):
        return Findings({"seven": Measurement(7, None, None, 1)})
    def tiny(self):
        return self

base = replace(toy.cells["denoising"], measures=(Seven(),))
axes = {**toy.axes}
STUDY = study("Mine?", base, axes, ({"target": ["denoising", "noise_prediction"]},), ("seven",))
"""
CELL = "my_toy.py:denoising"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be in a folder with an own study."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "my_toy.py").write_text(TOY)
    return tmp_path


@pytest.fixture
def trained(here: Path) -> Path:
    """Return the folder of a run of it."""
    assert main(["run", CELL, "--tiny", "--device", "cpu", "--steps", "4"]) == 0
    return Path("runs/my_toy/denoising-tiny/seed0")


def numbers(capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    printed = json.loads(capsys.readouterr().out)["measurements"]
    return {name: each["value"] for name, each in printed.items()}


def test_the_example_trains_a_split_of_its_own_in_25_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert len(EXAMPLE.read_text().splitlines()) <= 25
    words = [str(EXAMPLE), "--tiny", "--steps", "2", "--out", str(tmp_path), "--json"]
    assert main(["run", *words, "--device", "cpu"]) == 0
    assert {"accuracy@seen", "accuracy@test"} < numbers(capsys).keys()
    (path,) = tmp_path.glob("my_split/base-tiny/seed0/results.csv")
    assert read(path)[0].origin.study == "my_split"


def test_every_option_of_run_works_on_an_own_study(here: Path):
    words = ["--tiny", "--steps", "2", "--seeds", "3,5", "--out", "elsewhere", "--together", "2"]
    assert main(["run", "my_toy.py", *words, "--device", "cpu"]) == 0
    found = sorted(each.parent.parts[2:] for each in Path().glob("elsewhere/**/results.csv"))
    cells = ("denoising-tiny", "noise_prediction-tiny")
    assert found == [(cell, seed) for cell in cells for seed in ("seed3", "seed5")]
    facts = json.loads((here / "elsewhere/my_toy/denoising-tiny/seed3/training.json").read_text())
    assert facts["overrides"] == {"steps": 2}
    assert facts["file"] == {"path": "my_toy.py", "digest": own.imported("my_toy.py")[1].digest}


def test_a_run_says_by_what_command_it_was_made(trained: Path):
    (results,) = read(trained / "results.csv")
    assert results.origin.command == f"recombine run {CELL} --tiny --steps 4 --seed 0"
    assert results.origin.levels == {"target": "denoising"}


@pytest.mark.parametrize("subject", ["the folder", "the file", "the cell"])
def test_a_run_is_measured_again(
    subject: str, here: Path, capsys: pytest.CaptureFixture[str], trained: Path
):
    (weights, *_) = state.checkpoints(trained)
    if subject == "the cell":
        assert main(["run", CELL, "--steps", "3", "--device", "cpu"]) == 0
        assert main(["run", CELL, "--steps", "3", "--device", "cpu"]) == 0
    place = {"the folder": str(trained), "the file": str(weights), "the cell": CELL}[subject]
    capsys.readouterr()
    assert main(["measure", place, "--device", "cpu", "--json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["measurements"]["seven"]["value"] == 7
    assert output.err == ""


def test_it_is_measured_in_another_folder(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    Path("deep/er").mkdir(parents=True)
    monkeypatch.chdir("deep/er")
    capsys.readouterr()
    assert main(["measure", str(Path("../..") / trained), "--json"]) == 0
    assert numbers(capsys) == {"seven": 7}
    assert recombine.load(str(Path("../..") / trained)).measure("seven")["seven"].value == 7


def test_a_file_that_has_changed_is_said_so_and_used_as_it_is(
    trained: Path, capsys: pytest.CaptureFixture[str]
):
    Path("my_toy.py").write_text(TOY.replace("(7,", "(8,"))
    capsys.readouterr()
    assert main(["measure", str(trained), "--json"]) == 0
    output = capsys.readouterr()
    assert output.err.strip() == "my_toy.py has changed since this run began"
    assert json.loads(output.out)["measurements"]["seven"]["value"] == 8


def test_what_a_changed_file_measures_is_measured_anew_but_not_trained_anew(
    trained: Path, capsys: pytest.CaptureFixture[str]
):
    before = [each.stat().st_mtime_ns for each in state.checkpoints(trained)]
    Path("my_toy.py").write_text(TOY.replace("(7,", "(8,"))
    for _ in range(2):
        capsys.readouterr()
        assert main(["run", CELL, "--tiny", "--device", "cpu", "--steps", "4"]) == 0
        output = capsys.readouterr().err
        assert output.startswith("my_toy.py has changed since this run began\n")
        assert f"{CELL} seed 0 (tiny: " in output
        assert ": seven 8" in output
    assert [each.stat().st_mtime_ns for each in state.checkpoints(trained)] == before


def test_a_changed_training_is_refused_with_what_differs(
    trained: Path, capsys: pytest.CaptureFixture[str]
):
    change = "base = replace(base, training=replace(base.training, world=Other()))\naxes"
    other = "from recombine.studies.toy import Clouds\nclass Other(Clouds):\n    pass\n"
    Path("my_toy.py").write_text(other + TOY.replace("axes", change, 1))
    code, line = said(["measure", str(trained)], capsys)
    assert code == 2
    assert "belongs to another training: it differs in world" in line


def test_a_file_that_has_gone_is_named(trained: Path, capsys: pytest.CaptureFixture[str]):
    Path("my_toy.py").unlink()
    code, line = said(["measure", str(trained)], capsys)
    assert code == 2
    assert line.splitlines()[-1].startswith("recombine: my_toy.py, the study that runs/my_toy/")
    assert "has gone" in line


def test_list_records_and_report_know_it(trained: Path, capsys: pytest.CaptureFixture[str]):
    shutil.copytree(trained, "runs/my_toy/denoising/seed4")
    capsys.readouterr()
    assert main(["list", "my_toy.py", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["cells"] == {
        "denoising": {"target": "denoising"},
        "noise_prediction": {"target": "noise_prediction"},
    }
    assert printed["seeds_run"] == {"denoising": [4], "noise_prediction": []}
    assert main(["list", CELL]) == 0
    listed = capsys.readouterr().out
    assert CELL in listed
    assert "my_toy.py:noise_prediction" not in listed
    shutil.rmtree("runs/my_toy/denoising")
    for name in ("my_toy", "my_toy.py"):
        assert main(["records", name, "--where", "runs", "--measurement", "seven"]) == 0
        assert "7" in capsys.readouterr().out
    table = records("my_toy", "runs")
    assert list(table[table["measurement"] == "seven"]["target"]) == ["denoising"]
    assert main(["report", "runs", "--root", ".", "--page", "mine.html"]) == 0
    assert CELL in Path("mine.html").read_text()


def test_a_sibling_file_can_be_imported(here: Path, capsys: pytest.CaptureFixture[str]):
    (here / "deep").mkdir()
    (here / "deep/beside_it.py").write_text("from recombine.studies.toy import STUDY as found\n")
    (here / "deep/with_sibling.py").write_text("from beside_it import found\nSTUDY = found\n")
    assert studies.load("deep/with_sibling.py").file == own.imported("deep/with_sibling.py")[1]


BROKEN = {
    "import nothing_such\n": "line 1: ModuleNotFoundError: No module named 'nothing_such'",
    "x = 1\ny = x +\n": "line 2: SyntaxError: invalid syntax",
    "\n\nprint(unknown)\n": "line 3: NameError: name 'unknown' is not defined",
    "def f():\n    raise KeyError\n\nf()\n": "line 2: KeyError",
    "import sys\nsys.exit(3)\n": "line 2: SystemExit: 3",
    "from recombine import Shapes2D\nShapes2D(size=0)\n": (
        "line 2: an image has a side of at least 1 pixel; got 0"
    ),
    "x = 1\n": "declares no STUDY = study(...); recombine new study writes one",
    "STUDY = 1\n": "declares no STUDY = study(...); recombine new study writes one",
}


@pytest.mark.parametrize("command", ["run", "measure", "sample", "list"])
@pytest.mark.parametrize("text", BROKEN)
def test_a_mistake_in_the_file_is_one_line_with_its_place(
    text: str, command: str, here: Path, refused: Callable[..., str], unhooked: None
):
    (here / "broken.py").write_text(text)
    message = refused(command, "broken.py")
    assert message.startswith("broken.py")
    assert BROKEN[text] in message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "nowhere.py"], "nowhere.py cannot be read: No such file or directory"),
        (["run", "my_toy.py:denosing"], "'denosing' of my_toy.py is not one of denoising, "),
        (["list", "my_toy.py:denosing"], "did you mean denoising?"),
        (["list", "toy:denosing"], "did you mean denoising?"),
        (["run", "my_toy.py", "--stepz", "3"], "did you mean --steps?"),
        (["run", "toy.py"], "toy.py has the name of a shipped study; choose another one"),
        (["run", "a b.py"], "named by letters, digits, _ and - alone"),
        (["run", "my_toi"], "a study of yours is named by its file"),
        (["measure", "my_toy.py"], "runs/my_toy/denoising/seed0 has no checkpoint"),
    ],
)
def test_wrong_use_is_said_in_one_line(
    words: list[str], message: str, here: Path, refused: Callable[..., str]
):
    shutil.copy("my_toy.py", "toy.py")
    shutil.copy("my_toy.py", "a b.py")
    assert message in refused(*words)


@pytest.mark.parametrize("what", ["1 / 0", "subject.nothing", "raise_()"])
def test_a_mistake_that_comes_up_in_a_run_is_named_with_its_line(
    what: str, here: Path, capsys: pytest.CaptureFixture[str]
):
    text = TOY.replace("return Findings(", f"{what}; Findings(")
    Path("my_toy.py").write_text(text)
    code, message = said(["run", CELL, "--tiny", "--steps", "2", "--device", "cpu"], capsys)
    line = next(at for at, each in enumerate(text.splitlines(), 1) if what in each)
    assert code == 2
    assert message.startswith(f"recombine: my_toy.py, line {line}: ")
    assert len(message.splitlines()) == 1
    # Nothing is lost: mended, the same command goes on from the weights.
    Path("my_toy.py").write_text(TOY)
    assert main(["run", CELL, "--tiny", "--steps", "2", "--device", "cpu"]) == 0


def test_a_mistake_of_ours_is_not_blamed_on_the_file(here: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("recombine.commands.run.train", broken)
    with pytest.raises(ZeroDivisionError):
        main(["run", CELL, "--tiny", "--device", "cpu"])


def test_a_file_is_run_once_until_its_text_changes(here: Path):
    (here / "count.py").write_text("import itertools\nSEEN = []\n")
    first, file = own.imported("count.py")
    first.SEEN.append(1)
    assert own.imported("count.py")[0].SEEN == [1]
    (here / "count.py").write_text("SEEN = [2]\n")
    again, other = own.imported("count.py")
    assert again.SEEN == [2]
    assert file.digest != other.digest


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("toy", ("toy", "")),
        ("toy:a", ("toy", "a")),
        ("a/b.py", ("a/b.py", "")),
        ("a/b.py:c", ("a/b.py", "c")),
        ("C:/a/b.py:c", ("C:/a/b.py", "c")),
        ("C:/a/b.py", ("C:/a/b.py", "")),
        ("zoo:probe", ("zoo", "probe")),
    ],
)
def test_a_name_is_cut_before_its_cell(text: str, parts: tuple[str, str]):
    assert own.parted(text) == parts


def test_the_weights_know_their_file(trained: Path):
    (weights, *_) = state.checkpoints(trained)
    assert Checkpoint.load(weights).facts["file"]["path"] == "my_toy.py"
