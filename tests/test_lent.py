"""Groups of runs on a lent machine: what is read, what is left out, what comes back."""

import argparse
import tarfile
from pathlib import Path
from typing import Any

import pytest
from benchmarks import lent

from recombine.report.record import Record


def options(out: Path, *groups: str, **changes: object) -> argparse.Namespace:
    given = {"keep": [], "ship": [], "eager": True, "tiny": True, "limit": float("inf")}
    return argparse.Namespace(
        out=out / "out", runs=out / "runs", groups=groups, **{**given, **changes}
    )


def unpacked(out: Path) -> set[str]:
    whole = out / "whole.tar"
    pieces = sorted((out / "out").glob("pack.*"))
    whole.write_bytes(b"".join(piece.read_bytes() for piece in pieces))
    with tarfile.open(whole) as archive:
        archive.extractall(out / "back", filter="data")
    return {path.relative_to(out / "back").as_posix() for path in (out / "back").rglob("*.*")}


def test_a_group_is_runs_with_seeds_and_a_time():
    group = lent.Group.read("denoise_toy:base:0-2+denoise_toy:noise_prediction:7=140", tiny=True)
    assert [lent.label(plan) for plan in group.plans] == [
        *(f"denoise_toy_base_{seed}" for seed in range(3)),
        "denoise_toy_noise_prediction_7",
    ]
    assert group.seconds == 140
    assert all(plan.tiny for plan in group.plans)
    assert lent.Group.read("denoise_toy:base:0", tiny=False).seconds == 0


def test_what_is_done_comes_back_with_the_weights_that_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lent, "PIECE", 20_000)
    groups = ("denoise_toy:base:0+denoise_toy:base:1=1", "denoise_toy:noise_prediction:0=1")
    lent.main(options(tmp_path, *groups, keep=["denoise_toy_base_1"]))
    assert len(list((tmp_path / "out").glob("pack.*"))) > 1
    back = unpacked(tmp_path)
    records = {"denoise_toy_base_0", "denoise_toy_base_1", "denoise_toy_noise_prediction_0"}
    assert {name for name in back if name.endswith(".json")} == {f"{each}.json" for each in records}
    assert "denoise_toy_base_1.safetensors" in back
    assert "denoise_toy_base_0.safetensors" not in back
    record = Record.load(tmp_path / "back" / "denoise_toy_base_1.json")
    assert record.command == "recombine run denoise_toy:base --tiny --seed 1"


def test_what_would_end_too_late_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A group of 300 s may begin at 100 of 500 s, and not at 300."""
    clock = iter([0.0, 100.0, 300.0, 300.0, 900.0])
    monkeypatch.setattr(lent.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(lent, "trained", lambda group, *_: list(group.plans))
    begun: list[list[str]] = []
    monkeypatch.setattr(lent, "pack", lambda plans, *_: begun.append([*map(lent.label, plans)]))
    groups = [f"denoise_toy:base:{seed}={seconds}" for seed, seconds in enumerate((300, 300, 200))]
    lent.main(options(tmp_path, *groups, limit=500.0))
    assert "300 s: no time left for denoise_toy_base_1" in capsys.readouterr().out
    assert begun == [["denoise_toy_base_0"], ["denoise_toy_base_0", "denoise_toy_base_2"]]


def test_what_a_group_has_done_comes_back_when_one_of_it_diverges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    together = lent.runner.together

    def diverging(plans: Any, accelerator: Any, settings: Any) -> None:
        together(plans[:1], accelerator, settings[:1])
        samples = plans[0].folder(settings[0].out) / "samples"
        samples.mkdir()
        (samples / "drawn-10.png").touch()
        raise lent.runner.Diverged("the loss is nan")

    monkeypatch.setattr(lent.runner, "together", diverging)
    lent.main(options(tmp_path, "denoise_toy:base:0-1=1"))
    assert "the loss is nan" in capsys.readouterr().out
    back = unpacked(tmp_path)
    assert {name for name in back if name.endswith(".json")} == {"denoise_toy_base_0.json"}
    assert "samples/denoise_toy_base_0/drawn-10.png" in back


def test_weights_are_shipped_for_the_groups_after_and_without_them_a_group_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    there: list[str] = []
    monkeypatch.setattr(lent.zoo, "ship", lambda *given: there.append(given[2]) or given[0])

    def check(view: Any) -> None:
        if not there:
            raise ValueError("zoo:new is not there")

    groups = ("denoise_toy:base:0=1", "denoise_toy:base:1=1")
    monkeypatch.setattr(lent.views, "check", check)
    lent.main(options(tmp_path, *groups))
    assert capsys.readouterr().out.count("zoo:new is not there") == 2
    there.append("new")
    lent.main(options(tmp_path / "again", *groups, ship=["denoise_toy_base_0=other"]))
    assert there == ["new", "other"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"keep": ["denoise_toy_base_7"]}, "denoise_toy_base_7 is none of the runs"),
        ({"ship": ["denoise_toy_bass_0=new"]}, "denoise_toy_bass_0 is none of the runs"),
        ({"ship": ["denoise_toy_base_0"]}, "--ship is RUN=NAME; got 'denoise_toy_base_0'"),
    ],
)
def test_weights_of_runs_that_are_not_asked_for_are_refused(
    tmp_path: Path, given: dict[str, list[str]], message: str
):
    with pytest.raises(ValueError, match=message):
        lent.main(options(tmp_path, "denoise_toy:base:0", **given))
    assert not (tmp_path / "out").exists()


def test_pieces_of_another_call_are_not_mixed_in(tmp_path: Path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "pack.000").touch()
    with pytest.raises(ValueError, match=r"pack\.000 is there already"):
        lent.main(options(tmp_path, "denoise_toy:base:0"))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("denoise_toy:base", "a run is EXPERIMENT:VARIANT:SEEDS"),
        ("denoise_toy:bass:0", "denoise_toy:bass is not a trained experiment"),
        ("cpc_lcs:base:0", "cpc_lcs:base is not a trained experiment"),
        ("denoise_toy:base:3-1", "seeds are a number or a range such as 1-3; got 3-1"),
        ("denoise_toy:base:0-8", "1 to 8 runs are trained at once; got 9"),
    ],
)
def test_a_group_that_cannot_be_is_refused_before_anything_is_trained(text: str, message: str):
    with pytest.raises(ValueError, match=message):
        lent.Group.read(text, tiny=True)
