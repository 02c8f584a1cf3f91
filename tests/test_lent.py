"""Groups of runs on a lent machine: what is read, what is left out, what comes back."""

import argparse
import tarfile
from pathlib import Path

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


def test_what_would_end_too_late_is_not_begun(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    groups = ("denoise_toy:base:0=1000", "denoise_toy:base:1=1")
    lent.main(options(tmp_path, *groups, limit=500.0))
    assert "no time left for denoise_toy_base_0" in capsys.readouterr().out
    back = unpacked(tmp_path)
    assert "denoise_toy_base_1.json" in back
    assert "denoise_toy_base_0.json" not in back
