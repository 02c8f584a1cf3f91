"""`recombine report`: pages filled in once, --check fails on a changed number, errors in a line."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from recombine import __main__ as command_line
from recombine.measurement import Measurement
from recombine.results import keep
from stub_results import a_run

README = """\
<!-- table: papers -->
<!-- /table -->
It draws <!-- number: laws:base:k_max -->0<!-- / --> objects.
"""


@pytest.fixture(autouse=True)
def empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)


def checkout(readme: str = "docs/deep/a.md") -> None:
    """Results of one run, and three pages; README.md only where it is asked for: it has figures."""
    measured = {"k_max": Measurement(9, 8, 10, n=500), "leak@T1": 0.5}
    keep([a_run("base", 0, measured, study="laws")], Path("results"))
    Path("docs/deep").mkdir(parents=True)
    Path(readme).write_text(README)
    Path("docs/b.md").write_text("nothing to fill in\n")


def test_report_fills_in_pages_once(capsys: pytest.CaptureFixture[str]):
    checkout()
    page = Path("docs/deep/a.md")
    assert command_line.main(["report", "--check"]) == 1
    assert page.read_text() == README
    assert "a.md is not what the results say" in capsys.readouterr().err
    assert command_line.main(["report", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["numbers"], told["changed"]) == (2, ["docs/deep/a.md"])
    assert "It draws <!-- number: laws:base:k_max -->9<!-- / --> objects." in page.read_text()
    assert command_line.main(["report", "--check"]) == 0
    assert "every page agrees with the results (2 numbers)" in capsys.readouterr().err


def test_check_fails_when_a_number_changes_in_the_page_or_in_the_results():
    checkout()
    page, results = Path("docs/deep/a.md"), Path("results/laws.csv")
    assert command_line.main(["report"]) == 0
    whole = page.read_text()
    page.write_text(whole.replace("-->9<", "-->8<"))
    assert command_line.main(["report", "--check"]) == 1
    page.write_text(whole)
    assert command_line.main(["report", "--check"]) == 0
    text = results.read_text()
    results.write_text(text.replace("k_max,9,", "k_max,10,"))
    assert command_line.main(["report", "--check"]) == 1
    results.write_text(text)
    assert command_line.main(["report", "--check"]) == 0


def test_report_reads_the_results_that_it_is_given(tmp_path: Path):
    Path("clone").mkdir()
    checkout()
    other = a_run("base", 0, {"k_max": 3}, study="laws")
    keep([other], Path("clone/results"))
    assert command_line.main(["report", "clone/results/laws.csv"]) == 0
    assert "-->3<" in Path("docs/deep/a.md").read_text()
    assert command_line.main(["report", "--root", "clone"]) == 0


def test_report_writes_a_page_of_every_number():
    checkout()
    more = a_run("grid_all", 1, {"k_max": 7}), a_run("grid_all", 0, {"k_max": 9})
    keep(more, Path("results"), {"grid_all/seed0/map": np.zeros(2)})
    before = {path: path.read_text() for path in Path("docs").rglob("*.md")}
    Path("elsewhere").mkdir()
    assert command_line.main(["report", "results", "--page", "elsewhere/all.html"]) == 0
    assert before == {path: path.read_text() for path in Path("docs").rglob("*.md")}
    assert command_line.main(["report", "results", "--page", "no/all.html"]) == 2
    page = Path("elsewhere/all.html").read_text()
    for said in ("laws:base", "[8, 10]", "length:grid_all", "seeds 0, 1; 3.0 s a seed on cpu"):
        assert said in page


def test_report_names_what_is_wrong(refused: Callable[..., str]):
    assert "results is not there" in refused("report")
    checkout()
    page = Path("docs/b.md")
    page.write_text("<!-- table: law -->\n<!-- /table -->\n")
    assert "docs/b.md: table 'law' is not known" in refused("report")
    page.write_text("<!-- number: laws:base:k_mx -->1<!-- / -->\n")
    assert "docs/b.md: number laws:base:k_mx: 'k_mx' is not on record" in refused("report")
    results = Path("results/laws.csv")
    results.write_text(results.read_text().replace("leak@T1,0.5", "leak@T1,half"))
    assert "results/laws.csv: has a row that is not of numbers" in refused("report")
