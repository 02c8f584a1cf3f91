"""What is computed, not trained: run once, kept as a record, its fields set on the command line."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import pytest
import torch
from matplotlib.figure import Figure

from recombine import compute
from recombine.__main__ import main
from recombine.commands import compute as command
from recombine.commands import run as training
from recombine.experiment import Computation, Findings, Watched
from recombine.experiments import declared, denoise_toy
from recombine.measurement import Measurement
from recombine.report.record import Record
from recombine.spelling import spelled

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Dice:
    """Throw dice and count."""

    question: str = "How many eyes?"
    seeds: int = 8
    """How often to throw."""
    faces: tuple[float, ...] = (1.0, 2.0)
    """What the faces
    show."""
    loaded: bool = False
    scale: float | int = 1.0
    most: int | None = None
    law: Literal["fair", "odd"] = "fair"
    inner: Measurement = Measurement(1, None, None, 1)

    headline: ClassVar[tuple[str, ...]] = ("mean", "never measured")

    def __post_init__(self) -> None:
        if self.seeds < 2:
            raise ValueError(f"throw at least twice; got {self.seeds}")

    def __call__(self, generator: torch.Generator, watch: Watched) -> Findings:
        eyes = torch.tensor(self.faces, device=generator.device)
        thrown = torch.randint(len(eyes), (self.seeds,), generator=generator)
        watch(self.seeds, self.seeds)
        mean = Measurement.mean(eyes[thrown].tolist())
        return Findings({"mean": mean}, {"eyes": [1]}, {"die": torch.rand(2, 3, 4, 4)})

    def tiny(self) -> "Dice":
        return replace(self, seeds=2)


DICE = {"base": Dice(), "many": Dice("And many?", seeds=64)}


@pytest.fixture(autouse=True)
def dice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[Record]]:
    """A package whose files declare dice beside a training experiment; drawn figures are kept."""
    there = {"dice": DICE, "denoise_toy": {"base": denoise_toy.base}}
    drawn: list[list[Record]] = []

    def draw(records):
        drawn.append(list(records))
        return Figure()

    for module in (command, training):
        monkeypatch.setattr(module, "declared", lambda: there)
    monkeypatch.setattr(training, "figures", lambda: {"dice": draw})
    monkeypatch.chdir(tmp_path)
    return drawn


def asked(*words: str) -> int:
    return main(["run", *words, "--device", "cpu"])


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert asked(*words) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    return said[0]


def test_a_record_says_what_was_computed_and_how_to_do_it_again(tmp_path: Path):
    seen: list[tuple[int, int]] = []
    value = Dice(seeds=64, faces=(3.0, 5.0))
    typed = {"seeds": "64", "faces": "3,5"}
    plan = compute.Calculation("dice", "base", value, seed=7, overrides=typed)
    record = compute.compute(plan, CPU, tmp_path, lambda done, of: seen.append((done, of)))
    assert record == Record.load(tmp_path / "dice/base/seed7/record.json")
    assert record.command == "recombine run dice:base --seeds 64 --faces 3,5 --seed 7"
    assert (record.question, record.experiment, record.seed) == (value.question, spelled(value), 7)
    assert record.headline == ("mean",)
    assert record.curves == {"eyes": [1]}
    assert (tmp_path / "dice/base/seed7/samples/die.png").exists()
    assert seen == [(64, 64)]
    means = [
        3
        + 2 * torch.randint(2, (64,), generator=torch.Generator().manual_seed(seed)).double().mean()
        for seed in (0, 7)
    ]
    assert means[0] != means[1]
    assert record.measurements["mean"].value == pytest.approx(means[1].item())


def test_what_is_there_is_not_computed_again_unless_the_value_changed(tmp_path: Path):
    first = compute.compute(compute.Calculation("dice", "base", Dice()), CPU, tmp_path)
    path = tmp_path / "dice/base/seed0/record.json"
    replace(first, seconds=99.0).save(path)
    assert compute.compute(compute.Calculation("dice", "base", Dice()), CPU, tmp_path).seconds == 99
    other = compute.Calculation("dice", "base", Dice(seeds=9))
    assert other.kept(tmp_path) is None
    assert compute.compute(other, CPU, tmp_path).measurements["mean"].n == 9
    assert Record.load(path).measurements["mean"].n == 9


def test_fields_are_typed_on_the_command_line(capsys: pytest.CaptureFixture[str], dice, tmp_path):
    words = ["--faces", "1,6", "--seeds", "16", "--json", "--seed", "3"]
    assert asked("dice", *words) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["subject"], printed["seed"]) == ("dice:base", 3)
    assert printed["measurements"]["mean"]["n"] == 16
    assert printed["figures"] == ["runs/dice/dice.svg"]
    record = Record.load(tmp_path / "runs/dice/base/seed3/record.json")
    assert record.command == "recombine run dice:base --seeds 16 --faces 1,6 --seed 3"
    assert spelled(Dice(seeds=16, faces=(1.0, 6.0))) == record.experiment
    assert [[each.seed for each in records] for records in dice] == [[3]]
    # The command of the record does the same thing.
    assert main([*record.command.split()[1:], "--device", "cpu"]) == 0
    assert "was computed before" in capsys.readouterr().err


def test_all_variants_are_computed_and_tiny_ones_kept_apart(capsys, dice, tmp_path: Path):
    assert asked("dice:all", "--tiny", "--out", "denoise_toy", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert [each["subject"] for each in printed["runs"]] == ["dice:base", "dice:many"]
    assert [len(records) for records in dice] == [2]
    for variant in ("base", "many"):
        record = Record.load(tmp_path / f"denoise_toy/dice/{variant}-tiny/seed0/record.json")
        assert record.measurements["mean"].n == 2
        assert record.command == f"recombine run dice:{variant} --tiny --seed 0"


def test_a_record_of_other_code_is_pointed_out(capsys, tmp_path: Path):
    assert asked("dice") == 0
    path = tmp_path / "runs/dice/base/seed0/record.json"
    replace(Record.load(path), source="other").save(path)
    capsys.readouterr()
    assert asked("dice") == 0
    assert "was computed before by other code; remove it" in capsys.readouterr().err


def test_a_variant_or_device_that_is_not_there_is_named(capsys):
    assert "variant 'may' of dice is not one of base, many, all" in complaint(capsys, "dice:may")
    assert main(["run", "dice", "--device", "abacus"]) == 2
    assert "device 'abacus' cannot be used here" in capsys.readouterr().err


def test_a_computation_named_after_an_experiment_is_refused(capsys):
    assert "dice:base is computed, not trained" in complaint(capsys, "denoise_toy", "dice")


COMPUTED = [
    (name, variant)
    for name, variants in declared().items()
    for variant, each in variants.items()
    if isinstance(each, Computation)
]


@pytest.mark.parametrize(("name", "variant"), COMPUTED)
def test_every_computation_runs_tiny_to_a_record(name: str, variant: str, tmp_path: Path):
    value = declared()[name][variant].tiny()
    record = compute.compute(compute.Calculation(name, variant, value, tiny=True), CPU, tmp_path)
    assert record == Record.load(tmp_path / name / f"{variant}-tiny/seed0/record.json")
    assert record.headline
    assert " at 0x" not in record.experiment


def test_a_computation_file_declares_distinct_questions():
    for name in dict.fromkeys(name for name, _ in COMPUTED):
        questions = [each.question for each in declared()[name].values()]
        assert len(questions) == len(set(questions))
