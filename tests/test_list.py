"""`recombine list`: what there is, and of one study its cells."""

import json
from pathlib import Path

import pytest

from recombine import zoo
from recombine.__main__ import main


def test_list_shows_worlds_studies_and_weights(capsys: pytest.CaptureFixture[str]):
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    assert "28 px" in shown
    assert "shape (circle, triangle, square, cross)" in shown
    assert "zoo:grid_all" in shown
    assert "recombine run length:grid_all --seed 0" in " ".join(shown.split())


def test_list_prints_one_json_object(capsys: pytest.CaptureFixture[str]):
    assert main(["list", "--json"]) == 0
    output = capsys.readouterr()
    printed = json.loads(output.out)
    assert list(printed["zoo"]) == zoo.names()
    assert list(printed["worlds"])[:2] == ["clevr", "shapes3d"]
    assert output.err == ""


def test_of_a_study_it_shows_levels_cells_and_the_seeds_that_were_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "200")
    own = tmp_path / "length/grid_all/seed3"
    (own / "grid_all-guided").mkdir(parents=True)
    for folder in (own, own / "grid_all-guided"):
        (folder / "results.csv").touch()
    words = ["list", "length", "--out", str(tmp_path)]
    assert main([*words, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["study"] == "length"
    assert printed["seeds_run"]["grid_all"] == [3]
    assert printed["seeds_run"]["grid_one"] == []
    assert main(words) == 0
    assert "length:grid_all" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "meant"), [("lenght", "length"), ("zo", "zoo"), ("world", "worlds")]
)
def test_what_there_is_not_is_named(word: str, meant: str, capsys: pytest.CaptureFixture[str]):
    assert main(["list", word]) == 2
    assert f"did you mean {meant}?" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["worlds", "studies", "zoo"])
def test_a_part_of_the_list_is_shown_alone(what: str, capsys: pytest.CaptureFixture[str]):
    assert main(["list", what, "--json"]) == 0
    assert [*json.loads(capsys.readouterr().out)] == ["subject", "measurements", what]
    assert main(["list", what]) == 0
    shown = capsys.readouterr().out
    titles = {"worlds": "Worlds", "studies": "Studies (", "zoo": "Shipped weights"}
    assert [name for name, title in titles.items() if title in shown] == [what]
