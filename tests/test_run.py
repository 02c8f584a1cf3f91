"""A run as a user meets it: what it leaves, refuses, repeats and spreads over processes."""

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from recombine import __main__ as command_line
from recombine import load, run, studies, zoo
from recombine.measure.subject import Findings
from recombine.measurement import Measurement
from recombine.results import read
from recombine.run import Kept, session, state
from recombine.run.kept import place
from recombine.run.model import MEASURING, stream
from toy_runs import CELL, STEPS, curve, kept, ran, said, toy


def test_a_tokenizer_that_is_not_shipped_is_missed_before_anything_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Also where it is the second of two runs that needs it."""
    monkeypatch.setattr(zoo, "FOLDER", tmp_path)
    words = ["run", f"toy:{CELL}", "coverage:maskgit-fixed", "--tiny"]
    code, message = said([*words, "--out", str(tmp_path / "runs")], capsys)
    assert code == 2
    assert message == (
        "recombine: coverage:maskgit-fixed: the tokenizer zoo:tokenizer_vq is not there: train "
        "tokenizers:vq first and ship it as tokenizer_vq (benchmarks/ship.py); "
        "coverage:maskgit-fixed: "
        "composition needs the reader zoo:probe, which is not there"
    )
    assert not (tmp_path / "runs").exists()


def test_a_run_leaves_what_the_design_promises(whole: Path):
    folder = whole / "toy" / f"{CELL}-tiny" / "seed0"
    names = {path.name for path in folder.iterdir()}
    weights = {"checkpoint-10.safetensors", "checkpoint-12.safetensors"}
    kept_files = {
        "training.json",
        "metrics.jsonl",
        "results.csv",
        "results.safetensors",
        "measured.json",
        ".lock",
    }
    assert names == kept_files | weights
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    described = json.loads((folder / "training.json").read_text())
    assert described["training"]["budget"].startswith("Budget(steps=12, batch=8,")
    assert described["training"]["world"] == "Clouds()"
    (results,) = read(folder / "results.csv")
    assert (
        results.origin.command == f"recombine run toy:{CELL} --tiny --steps 12 --ema 0.5 --seed 0"
    )
    assert results.origin.levels == studies.load("toy").levels[CELL]
    last = curve(Kept.of(results, folder / "results.csv"), "loss")[-1]
    assert last == (STEPS, pytest.approx(lines[-1]["loss"], rel=1e-5))


def test_the_first_losses_are_these(whole: Path):
    # A change here is a change of numbers, and belongs into the change log as such.
    losses = [json.loads(line)["loss"] for line in kept(whole)[1].splitlines()]
    assert losses[0] == pytest.approx(1.2297108, rel=1e-5)
    assert losses[-1] == pytest.approx(1.8339643, rel=1e-5)


def test_a_finished_run_is_not_run_again(whole: Path):
    def watch(step: int, loss: float) -> None:
        raise AssertionError(f"trained step {step} again")

    before = (toy().folder(whole) / "results.csv").stat().st_mtime_ns
    found = ran(whole, watch=watch)
    assert found.path.stat().st_mtime_ns == before


@dataclass(frozen=True)
class Draw:
    """A measurement that is the first number of its generator."""

    reader: str = "probe"
    name: ClassVar[str] = "draw"

    def __call__(self, subject: Any, generator: torch.Generator) -> Findings:
        first = torch.rand(1, generator=generator).item()
        return Findings({"draw": Measurement(first, None, None, 1)})

    def tiny(self) -> "Draw":
        return self


def test_measurements_draw_numbers_of_their_own_and_rows_name_their_reader(tmp_path: Path):
    (results,) = read(ran(tmp_path, toy(seed=4, measures=(Draw(),))).path)
    (row,) = [each for each in results.rows if each.measurement == "draw"]
    expected = torch.rand(1, generator=stream(4, MEASURING, torch.device("cpu"))).item()
    assert (row.value, row.reader) == (expected, "probe")


def test_other_measurements_are_made_of_a_trained_model(tmp_path: Path):
    first = ran(tmp_path)
    measure = replace(toy().trained.measures[0], levels=(0.3,))
    found = ran(tmp_path, toy(measures=(measure,)))
    assert "relative_error@0.3" in found.measurements
    assert "relative_error@0.3" not in first.measurements
    assert (toy().folder(tmp_path) / "metrics.jsonl").read_text() == kept(tmp_path)[1]


@pytest.mark.parametrize(
    ("first", "factor"), [(True, float("nan")), (False, float("nan")), (False, 1e6)]
)
def test_a_loss_beyond_return_stops_with_the_step_and_the_last_good_checkpoint(
    first: bool, factor: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    plan, bad = toy(), 2 if first else 8
    calls = []

    class Breaking:
        def __call__(self, *words, **named):
            calls.append(1)
            loss = plan.trained.training.objective(*words, **named)
            return loss * factor if len(calls) >= bad else loss

    take = session.Step
    monkeypatch.setattr(session, "Step", lambda weights, _, *rest: take(weights, Breaking(), *rest))
    last = "there is no checkpoint yet" if first else r"is \S+checkpoint-5.safetensors"
    with pytest.raises(run.Diverged, match=rf"at step {bad}; .*{last}; try --learning-rate 0.001"):
        ran(tmp_path, plan)
    lines = (plan.folder(tmp_path) / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == bad - 1


def test_a_loss_may_start_below_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    plan = toy()

    class Likelihood:
        def __call__(self, *words, **named):
            return plan.trained.training.objective(*words, **named) - 5

    take = session.Step
    monkeypatch.setattr(
        session, "Step", lambda weights, _, *rest: take(weights, Likelihood(), *rest)
    )
    assert curve(ran(tmp_path, plan), "loss")[0][1] < 0


def test_broken_weights_are_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    save = run.Session._save

    def broken(session: run.Session, step: int) -> None:
        if step == 10:
            next(session.weights.denoiser.parameters()).data[0] = float("inf")
        save(session, step)

    monkeypatch.setattr(run.Session, "_save", broken)
    with pytest.raises(run.Diverged, match=r"a weight is not finite at step 10; .*checkpoint-5"):
        ran(tmp_path)
    assert len(state.checkpoints(toy().folder(tmp_path))) == 1


def test_another_training_is_refused_with_what_differs(whole: Path):
    with pytest.raises(ValueError, match=r"another training: it differs in budget; choose another"):
        ran(whole, toy(learning_rate=0.1))


def test_a_checkpoint_of_another_training_is_refused(whole: Path, tmp_path: Path):
    plan = toy(learning_rate=0.1)
    folder = plan.folder(tmp_path)
    folder.mkdir(parents=True)
    stray = state.path_of(toy().folder(whole), STEPS)
    (folder / stray.name).write_bytes(stray.read_bytes())
    with pytest.raises(ValueError, match=r"checkpoint-12.safetensors belongs to another training"):
        ran(tmp_path, plan)


def test_seeds_differ_in_start_and_data_and_every_one_has_its_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    words = ["run", f"toy:{CELL}", "--tiny", "--seeds", "0-1", "--out", str(tmp_path)]
    assert command_line.main([*words, "--device", "cpu", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [each["seed"] for each in printed["runs"]] == [0, 1]
    values = {each["measurements"]["relative_error"]["value"] for each in printed["runs"]}
    assert len(values) == 2
    assert len(list(tmp_path.rglob("results.csv"))) == 2
    assert Path(printed["figures"][0]).read_text().startswith("<?xml")


@pytest.mark.parametrize("named", ["folder", "checkpoint"])
def test_measuring_again_gives_the_numbers_of_the_run(
    named: str, whole: Path, capsys: pytest.CaptureFixture[str]
):
    folder = toy().folder(whole)
    subject = folder if named == "folder" else state.path_of(folder, STEPS)
    assert command_line.main(["measure", str(subject), "--device", "cpu", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["measurements"]
    found = ran(whole).measurements
    values = {name: each["value"] for name, each in printed.items()}
    assert values.items() <= {name: each.value for name, each in found.items()}.items()
    assert "relative_error" in values


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run"], "name a study to run"),
        (["run", "tou"], "did you mean toy?"),
        (["run", "toy:bas"], "cell 'bas' of toy is not one of "),
        (["run", "toy", "--seeds", "2-0"], "2-0"),
        (["run", "toy", "--seeds", "0", "--seed", "1"], "exclude each other"),
        (["run", "toy", "--device", "cuda:99"], "cannot be used here"),
        (["run", "toy", "--steps", "0"], "steps and batch are at least 1; got 0"),
        (["run", "toy", "--steps", "many"], "'many'"),
        (["run", "toy", "--stepz", "5"], "did you mean --steps?"),
        (["run", "toy", "--save-every", "0"], "saved every 1 step or more; got 0"),
        (["measure", "nowhere"], "study 'nowhere' is not one of"),
        (["measure", "toy"], "has no checkpoint"),
        (["measure", "."], "has no checkpoint; expected the folder of a run"),
    ],
)
def test_wrong_use_is_said_in_one_line(
    words: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    code, line = said(words, capsys)
    assert code == 2
    assert message in line
    assert len(line.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_every_seed_and_purpose_has_random_numbers_of_its_own():
    cpu = torch.device("cpu")
    firsts = [
        torch.rand(1, generator=stream(seed, purpose, cpu)).item()
        for seed in range(3)
        for purpose in range(3)
    ]
    assert len(set(firsts)) == 9


def test_a_batch_must_divide_among_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session.Accelerator, "num_processes", 3)
    with pytest.raises(ValueError, match="a batch of 8 is not 3 equal shares"):
        ran(tmp_path)


@pytest.mark.parametrize(
    "launcher",
    [
        ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
        ["accelerate.commands.launch", "--cpu", "--num_processes", "2"],
    ],
    ids=["torchrun", "accelerate launch"],
)
def test_two_processes_give_the_losses_of_one(launcher: list[str], whole: Path, tmp_path: Path):
    words = ["-m", "recombine", "run", f"toy:{CELL}", "--tiny", "--device", "cpu", "--ema", "0.5"]
    done = subprocess.run(
        [sys.executable, "-m", *launcher, *words, "--steps", str(STEPS), "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    ours, theirs = (
        [json.loads(line)["loss"] for line in kept(out)[1].splitlines()]
        for out in (tmp_path, whole)
    )
    assert ours == pytest.approx(theirs, abs=1e-4)
    assert len(list(tmp_path.rglob("results.csv"))) == 1


def test_cells_with_one_training_are_trained_once_and_measured_each(tmp_path: Path):
    """Only how they are sampled differs: the second finds the weights of the first."""
    length = studies.load("length")
    plans = [
        run.planned("length", length, key, 0, True, {"steps": 2, "batch": 2})
        for key in ("grid_one-local-guided", "grid_one-local")
    ]
    first, second = (plan.folder(tmp_path) for plan in plans)
    assert first == second
    assert place(plans[0], first) != place(plans[1], second)
    assert plans[0].trained.sampler != plans[1].trained.sampler
    assert plans[0].facts == plans[1].facts


def test_a_model_that_draws_nothing_says_so():
    with pytest.raises(ValueError, match="this one was trained by Classification"):
        load("zoo:probe").drawn(torch.zeros(1, 3, 7), torch.Generator())
