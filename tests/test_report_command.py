"""`recombine report`: tables filled in once, links that hold, and one line for what is wrong."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from recombine.report.record import Record

from recombine import __main__ as command_line
from recombine.measurement import Measurement


@pytest.fixture(autouse=True)
def empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that must be refused: exit code 2, one line on standard error, no files."""

    def run(*words: str) -> str:
        before = sorted(Path.cwd().rglob("*"))
        assert command_line.main(words) == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.startswith("recombine: ")
        assert output.err.count("\n") == 1
        assert sorted(Path.cwd().rglob("*")) == before
        return output.err.removeprefix("recombine: ").strip()

    return run


def checkout() -> None:
    measured = {"k_max": Measurement(9, 8, 10, n=500)}
    Record("Long?", "recombine run x", "x", 0, "cpu", 3.0, measured, headline=("k_max",)).save(
        Path("results/long.json")
    )
    Path("README.md").write_text("<!-- table:findings -->\n<!-- /table -->\n")
    Path("docs/deep").mkdir(parents=True)
    Path("docs/deep/a.md").write_text("<!-- table:measurements:long -->\n<!-- /table -->\n")
    Path("docs/b.md").write_text("nothing to fill in\n")


def test_report_fills_in_the_tables_once(capsys: pytest.CaptureFixture[str]):
    checkout()
    assert command_line.main(["report", "--check"]) == 1
    assert Path("README.md").read_text().count("\n") == 2
    assert "README.md is out of date" in capsys.readouterr().err
    assert command_line.main(["report", "--json"]) == 0
    changed = json.loads(capsys.readouterr().out)
    assert changed == {
        "subject": "report",
        "records": 1,
        "changed": ["README.md", "docs/deep/a.md"],
        "papers": [],
    }
    assert "| Long? | `recombine run x` | 3.0 s | k_max 9 [8, 10]" in Path("README.md").read_text()
    assert "| k_max | 9 | [8, 10] | 500 |" in Path("docs/deep/a.md").read_text()
    assert command_line.main(["report", "--check"]) == 0


def test_report_links_figures_from_the_page_wherever_the_checkout_lies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    Path("clone").mkdir()
    monkeypatch.chdir("clone")
    checkout()
    Path("docs/b.md").write_text("<!-- table:findings -->\n<!-- /table -->\n")
    record = Record.load(Path("results/long.json"))
    replace(record, figure="docs/figures/long.svg").save(Path("results/long.json"))
    monkeypatch.chdir(tmp_path)
    assert command_line.main(["report", "--root", "clone"]) == 0
    assert "[figure](docs/figures/long.svg)" in Path("clone/README.md").read_text()
    assert "[figure](figures/long.svg)" in Path("clone/docs/b.md").read_text()


def test_report_writes_a_page_of_every_record():
    checkout()
    assert command_line.main(["report", "results/long.json", "--page", "all.html"]) == 0
    assert "9 [8, 10], n = 500" in Path("all.html").read_text()


def test_report_names_what_is_wrong(refused: Callable[..., str]):
    assert "results is not there" in refused("report")
    checkout()
    Path("docs/b.md").write_text("<!-- table:finding -->\n<!-- /table -->\n")
    assert "docs/b.md: table 'finding' is not known" in refused("report")
    Path("results/more").mkdir()
    Path("results/more/long.json").write_text(Path("results/long.json").read_text())
    twice = refused("report", "results/long.json", "results/more/long.json")
    assert "the second record named long" in twice
    Path("results/long.json").write_text("{")
    assert "long.json is not whole JSON" in refused("report", "results/long.json")
