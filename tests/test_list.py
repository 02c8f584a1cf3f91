"""`recombine list`: what there is."""

import json
from types import SimpleNamespace

import pytest

from recombine import zoo
from recombine.__main__ import main


def test_list_shows_worlds_with_factors_and_sizes(capsys: pytest.CaptureFixture[str]):
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    assert "28 px" in shown
    assert "shape (circle, triangle)" in shown


def test_list_prints_one_json_object(capsys: pytest.CaptureFixture[str]):
    assert main(["list", "--json"]) == 0
    output = capsys.readouterr()
    printed = json.loads(output.out)
    assert printed["zoo"] == zoo.names()
    assert [world["name"] for world in printed["worlds"]][:2] == ["clevr", "shapes3d"]
    assert output.err == ""


def test_list_shows_shipped_weights_with_the_command_that_trained_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    record = SimpleNamespace(command="recombine run b:c --seed 0")
    monkeypatch.setattr(zoo, "names", lambda: ["a"])
    monkeypatch.setattr(zoo, "record", lambda name: record)
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    assert "zoo:a" in shown
    assert "recombine run b:c --seed 0" in shown
