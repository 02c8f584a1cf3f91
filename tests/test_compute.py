"""What is computed, not trained: run once, kept as rows, its fields set on the command line."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pytest
import torch

from recombine import run, studies
from recombine.__main__ import main
from recombine.measure.subject import Findings
from recombine.measurement import Measurement
from recombine.results import read
from recombine.study import Axis, Cell, Computation, Level, Watched, study
from small_zoo import use_study

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Dice:
    """Throw dice and count."""

    throws: int = 8
    """How often to throw."""
    faces: tuple[float, ...] = (1.0, 2.0)
    """What the faces show."""
    loaded: bool = False
    law: Literal["fair", "odd"] = "fair"

    def __post_init__(self) -> None:
        if self.throws < 2:
            raise ValueError(f"throw at least twice; got {self.throws}")

    def __call__(self, generator: torch.Generator, watch: Watched) -> Findings:
        eyes = torch.tensor(self.faces, device=generator.device)
        thrown = torch.randint(len(eyes), (self.throws,), generator=generator)
        watch(self.throws, self.throws)
        mean = Measurement.mean(eyes[thrown].tolist())
        return Findings({"mean": mean}, {"eyes": [[1, 2.5]]}, {"die": torch.rand(2, 3, 4, 4)})

    def tiny(self) -> "Dice":
        return replace(self, throws=2)


AXES = {
    "length": Axis(
        ("throws",), {"few": Level("Few."), "many": Level("Many.", lambda d: replace(d, throws=64))}
    )
}
DICE = study("How many eyes?", Dice(), AXES, ({"length": ["few", "many"]},), ("mean", "never"))


@pytest.fixture(autouse=True)
def dice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Put a study of dice beside the others."""
    use_study("dice", DICE, monkeypatch)
    monkeypatch.chdir(tmp_path)


def typed(*words: str) -> int:
    return main(["run", *words, "--device", "cpu"])


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert typed(*words) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    return said[0]


def test_results_say_what_was_computed_and_how_to_do_it_again(tmp_path: Path):
    seen: list[tuple[int, int]] = []
    plan = run.planned("dice", DICE, "few", 7, False, {"throws": 64, "faces": (3.0, 5.0)})
    found = run.compute(plan, CPU, tmp_path, lambda done, of: seen.append((done, of)))
    assert found.path == tmp_path / "dice/few/seed7/results.csv"
    (results,) = read(found.path)
    command = "recombine run dice:few --throws 64 --faces 3.0,5.0 --seed 7"
    assert results.origin.command == command
    assert results.origin.levels == {"length": "few"}
    assert (tmp_path / "dice/few/seed7/samples/die.png").exists()
    assert seen == [(64, 64)]
    generator = torch.Generator().manual_seed(7)
    mean = 3 + 2 * torch.randint(2, (64,), generator=generator).double().mean()
    assert found.measurements["mean"].value == pytest.approx(mean.item())


def test_what_is_there_is_not_computed_again_unless_the_value_changed(tmp_path: Path):
    plan = run.planned("dice", DICE, "few")
    first = run.compute(plan, CPU, tmp_path)
    before = first.path.stat().st_mtime_ns
    assert run.compute(plan, CPU, tmp_path).measurements == first.measurements
    assert first.path.stat().st_mtime_ns == before
    other = run.planned("dice", DICE, "few", overrides={"throws": 9})
    assert run.compute(other, CPU, tmp_path).measurements["mean"].n == 9
    (results,) = read(first.path)
    assert {row.n for row in results.rows if row.measurement == "mean"} == {9}


def test_fields_are_typed_on_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    words = ["--faces", "1,6", "--throws", "16", "--json", "--seed", "3"]
    assert typed("dice:few", *words) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["subject"], printed["seed"]) == ("dice:few", 3)
    assert printed["measurements"]["mean"]["n"] == 16
    (results,) = read(tmp_path / "runs/dice/few/seed3/results.csv")
    # The command of the results does the same thing.
    before = (tmp_path / "runs/dice/few/seed3/results.csv").stat().st_mtime_ns
    assert main([*results.origin.command.split()[1:], "--device", "cpu"]) == 0
    assert (tmp_path / "runs/dice/few/seed3/results.csv").stat().st_mtime_ns == before


def test_all_cells_are_computed_and_tiny_ones_kept_apart(capsys, tmp_path: Path):
    assert typed("dice", "--tiny", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert [each["subject"] for each in printed["runs"]] == ["dice:few", "dice:many"]
    for cell in ("few", "many"):
        (results,) = read(tmp_path / f"runs/dice/{cell}-tiny/seed0/results.csv")
        assert {row.n for row in results.rows if row.measurement == "mean"} == {2}
        assert results.origin.command == f"recombine run dice:{cell} --tiny --seed 0"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--face", "1"], "did you mean --faces?"),
        (["--steps", "5"], "--steps"),
        (["--faces", "1,x"], "1,x"),
        (["--throws", "0-2"], "0-2"),
        (["--throws", "1"], "throw at least twice; got 1"),
        (["--law", "od"], "od"),
    ],
)
def test_wrong_use_is_one_line(words: list[str], named: str, capsys, tmp_path: Path):
    assert named in complaint(capsys, "dice:few", *words)
    assert not list(tmp_path.iterdir())


COMPUTED = [
    (name, key)
    for name in studies.names()
    for key, each in studies.load(name).cells.items()
    if isinstance(each, Computation) and not isinstance(each, Cell)
]


@pytest.mark.parametrize(("name", "key"), COMPUTED)
def test_every_computation_runs_tiny_to_rows(name: str, key: str, tmp_path: Path):
    of = studies.load(name)
    found = run.compute(run.planned(name, of, key, tiny=True), CPU, tmp_path)
    (results,) = read(found.path)
    assert results.rows
    assert set(of.headline) & set(found.measurements)
