"""A run as a user meets it: interrupted, resumed, repeated, spread over processes."""

import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from recombine import __main__ as command_line
from recombine import checkpoint, run, session
from recombine.commands.run import OVERRIDES, Options, chosen_seeds, chosen_variants, seeded
from recombine.experiment import Budget, Plan
from recombine.report.record import Record

STEPS, SAVE_EVERY = 12, 5


def toy(seed: int = 0, **changes: object) -> Plan:
    """Return the toy experiment, short, with some of its budget changed."""
    (plan,) = seeded("denoise_toy", "base", [seed], True, {"steps": STEPS, "ema": 0.5})
    budget = replace(plan.experiment.budget, **changes)
    return replace(plan, experiment=replace(plan.experiment, budget=budget))


def settings(out: Path, watch: run.Watch = lambda step, loss: None) -> run.Settings:
    return run.Settings(out, SAVE_EVERY, watch=watch)


def ran(out: Path, plan: Plan | None = None, **how: run.Watch) -> Record:
    record = run.run(plan or toy(), run.machine(torch.device("cpu")), settings(out, **how))
    assert record is not None
    return record


def kept(out: Path) -> tuple[dict[str, torch.Tensor], str]:
    folder = toy().folder(out)
    (newest, *_) = checkpoint.checkpoints(folder)
    return load_file(newest), (folder / "metrics.jsonl").read_text()


def assert_same(out: Path, other: Path) -> None:
    (weights, metrics), (others, other_metrics) = kept(out), kept(other)
    assert metrics == other_metrics
    assert weights.keys() == others.keys()
    assert all(torch.equal(weights[name], others[name]) for name in weights)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing stopped."""
    out = tmp_path_factory.mktemp("whole")
    ran(out)
    return out


def test_a_tokenizer_that_is_not_shipped_is_missed_before_anything_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Also where it is the second of two runs that needs it."""
    words = ["run", "objective:maskgit_small", "other_worlds:maskgit_celeba", "--tiny"]
    code, message = said([*words, "--out", str(tmp_path / "runs")], capsys)
    assert code == 2
    assert message.startswith("recombine: zoo:tokenizer_vq_celeba is not one of ")
    assert not (tmp_path / "runs").exists()


def test_every_number_of_a_budget_can_be_given_on_the_command_line():
    numbers = {each.name for each in fields(Budget) if each.type in (int, float)}
    assert set(OVERRIDES) == numbers
    options = {each.name for each in fields(Options)}
    assert numbers <= options


def said(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = command_line.main(words)
    return code, capsys.readouterr().err.strip()


def test_a_run_leaves_what_the_design_promises(whole: Path):
    folder = whole / "denoise_toy" / "base-tiny" / "seed0"
    names = {path.name for path in folder.iterdir()}
    weights = {"checkpoint-10.safetensors", "checkpoint-12.safetensors"}
    assert names == {"experiment.json", "metrics.jsonl", "record.json"} | weights
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    described = json.loads((folder / "experiment.json").read_text())
    assert described["experiment"]["budget"].startswith("Budget(steps=12, batch=8,")
    record = Record.load(folder / "record.json")
    assert "Clouds()" in record.experiment
    assert record.command == "recombine run denoise_toy:base --tiny --steps 12 --ema 0.5 --seed 0"
    assert record.curves["loss"][-1] == [STEPS, lines[-1]["loss"]]


def test_the_first_losses_are_these(whole: Path):
    # A change here is a change of numbers, and belongs into the change log as such.
    losses = [json.loads(line)["loss"] for line in kept(whole)[1].splitlines()]
    assert losses[0] == pytest.approx(1.2297108, rel=1e-5)
    assert losses[-1] == pytest.approx(1.8339643, rel=1e-5)


def test_a_finished_run_is_not_run_again(whole: Path):
    def watch(step: int, loss: float) -> None:
        raise AssertionError(f"trained step {step} again")

    assert ran(whole, watch=watch) == Record.load(toy().folder(whole) / "record.json")


def test_new_questions_are_put_to_a_trained_model(tmp_path: Path):
    first = ran(tmp_path)
    plan = toy()
    ask = replace(plan.experiment.asks[0], levels=(0.3,))
    record = ran(tmp_path, replace(plan, experiment=replace(plan.experiment, asks=(ask,))))
    assert "relative_error@0.3" in record.measurements
    assert record.curves["loss"] == first.curves["loss"]


def killed(out: Path, moment: str) -> None:
    """Run in a process of its own, and die as by kill -9 at a moment."""

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def watch(step: int, loss: float) -> None:
        if moment == f"step {step}":
            die()

    rename = Path.replace

    def torn(partial: Path, target: Path) -> Path:
        if moment == f"writing {target.name}":
            os.truncate(partial, partial.stat().st_size // 2)
            die()
        return rename(partial, target)

    Path.replace = torn  # type: ignore[method-assign]
    # Looking at every step, so that any step can be the last.
    session.LOOK = 1
    ran(out, watch=watch)


@pytest.fixture(scope="module")
def apart() -> Callable[..., int]:
    """Call a function in a fresh process that has its imports done; return its exit code."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["recombine.commands.run"])

    def call(function: Callable[..., None], *words: object) -> int:
        process = context.Process(target=function, args=words)
        process.start()
        process.join(120)
        assert process.exitcode is not None
        return process.exitcode

    return call


@pytest.mark.parametrize(
    "moments",
    [
        ["step 3"],
        ["step 8", "step 12"],
        ["writing checkpoint-10.safetensors"],
        ["writing checkpoint-5.safetensors", "writing checkpoint-12.safetensors"],
    ],
    ids=lambda moments: ", ".join(moments),
)
def test_a_killed_run_goes_on_to_the_same_bits(
    moments: list[str], whole: Path, tmp_path: Path, apart: Callable[..., int]
):
    for moment in moments:
        assert apart(killed, tmp_path, moment) == -signal.SIGKILL
        assert not (toy().folder(tmp_path) / "record.json").exists()
    ran(tmp_path)
    assert_same(tmp_path, whole)
    assert not list(toy().folder(tmp_path).glob(".*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_and_the_same_command_goes_on(number: int, whole: Path, tmp_path: Path):
    def watch(step: int, loss: float) -> None:
        if step == SAVE_EVERY:
            os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    with pytest.raises(run.Interrupted, match=r"saved as \S+checkpoint-6.safetensors; the same"):
        ran(tmp_path, watch=watch)
    assert signal.getsignal(number) == before
    ran(tmp_path)
    assert_same(tmp_path, whole)


def test_the_command_line_says_how_to_resume(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    look = run.Session._look

    def interrupted(session: run.Session, *words: object) -> bool:
        os.kill(os.getpid(), signal.SIGINT)
        return look(session, *words) or True

    monkeypatch.setattr(run.Session, "_look", interrupted)
    words = ["run", "denoise_toy", "--tiny", "--device", "cpu", "--out", str(tmp_path)]
    code, message = said([*words, "--save-every", "7"], capsys)
    assert code == 130
    assert message.endswith("checkpoint-7.safetensors; the same command goes on from there")


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
            loss = plan.experiment.objective(*words, **named)
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
            return plan.experiment.objective(*words, **named) - 5

    take = session.Step
    monkeypatch.setattr(
        session, "Step", lambda weights, _, *rest: take(weights, Likelihood(), *rest)
    )
    assert ran(tmp_path, plan).curves["loss"][0][1] < 0


def test_broken_weights_are_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    save = run.Session._save

    def broken(session: run.Session, step: int) -> None:
        if step == 10:
            next(session.weights.denoiser.parameters()).data[0] = float("inf")
        save(session, step)

    monkeypatch.setattr(run.Session, "_save", broken)
    with pytest.raises(run.Diverged, match=r"a weight is not finite at step 10; .*checkpoint-5"):
        ran(tmp_path)
    assert len(checkpoint.checkpoints(toy().folder(tmp_path))) == 1


def test_a_full_disk_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    write = checkpoint.write_bytes

    def full(path: Path, content: bytes) -> None:
        if path.name == "checkpoint-10.safetensors":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, content)

    monkeypatch.setattr(checkpoint, "write_bytes", full)
    words = ["run", "denoise_toy", "--tiny", "--device", "cpu", "--out", str(tmp_path)]
    code, message = said([*words, "--save-every", "5"], capsys)
    assert code == 1
    assert message.endswith("checkpoint-10.safetensors cannot be written: No space left on device")
    left = checkpoint.checkpoints(tmp_path / "denoise_toy" / "base-tiny" / "seed0")
    assert [path.stem for path in left] == ["checkpoint-5"]


def test_another_experiment_is_refused_with_what_differs(whole: Path):
    with pytest.raises(
        ValueError, match=r"another experiment: it differs in budget; choose another"
    ):
        ran(whole, toy(learning_rate=0.1))


def test_a_checkpoint_of_another_experiment_is_refused(whole: Path, tmp_path: Path):
    plan = toy(learning_rate=0.1)
    folder = plan.folder(tmp_path)
    folder.mkdir(parents=True)
    stray = checkpoint.path_of(toy().folder(whole), STEPS)
    (folder / stray.name).write_bytes(stray.read_bytes())
    with pytest.raises(
        ValueError, match=r"checkpoint-12.safetensors belongs to another experiment"
    ):
        ran(tmp_path, plan)


def test_a_damaged_checkpoint_names_the_one_before(
    tmp_path: Path, whole: Path, capsys: pytest.CaptureFixture[str]
):
    ran(tmp_path)
    (newest, older) = checkpoint.checkpoints(toy().folder(tmp_path))
    newest.write_bytes(newest.read_bytes()[:-3])
    words = ["run", "denoise_toy", "--tiny", "--device", "cpu", "--out", str(tmp_path)]
    code, message = said([*words, "--steps", str(STEPS), "--ema", "0.5"], capsys)
    assert code == 2
    assert "not a whole checkpoint" in message
    assert message.endswith(f"remove it to go on from {older.name}")
    assert len(message.splitlines()) == 1
    newest.unlink()
    (toy().folder(tmp_path) / "record.json").unlink()
    ran(tmp_path)
    assert_same(tmp_path, whole)


def test_milestones_are_measured_when_reached_and_survive_a_restart(tmp_path: Path):
    plan = toy(milestones=(4, 9))

    def watch(step: int, loss: float) -> None:
        if step == 9:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(run.Interrupted):
        ran(tmp_path / "stopped", plan, watch=watch)
    stopped, straight = ran(tmp_path / "stopped", plan), ran(tmp_path / "straight", plan)
    assert stopped.curves == straight.curves
    assert [step for step, _ in straight.curves["relative_error"]] == [4, 9]
    values = [value for _, value in straight.curves["relative_error"]]
    assert len({*values, straight.measurements["relative_error"].value}) == 3


def test_milestones_change_no_weight(whole: Path, tmp_path: Path):
    ran(tmp_path, toy(milestones=(4, 9)))
    (weights, _), (others, _) = kept(tmp_path), kept(whole)
    assert all(torch.equal(weights[name], others[name]) for name in weights)


def test_seeds_differ_in_start_and_data_and_every_one_has_its_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    words = ["run", "denoise_toy:base", "--tiny", "--seeds", "0-1", "--out", str(tmp_path)]
    assert command_line.main([*words, "--device", "cpu", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [each["seed"] for each in printed["runs"]] == [0, 1]
    values = {each["measurements"]["relative_error"]["value"] for each in printed["runs"]}
    assert len(values) == 2
    assert len(list(tmp_path.rglob("record.json"))) == 2
    assert Path(printed["figures"][0]).read_text().startswith("<?xml")


@pytest.mark.parametrize("named", ["folder", "checkpoint"])
def test_measuring_again_gives_the_numbers_of_the_record(
    named: str, whole: Path, capsys: pytest.CaptureFixture[str]
):
    folder = toy().folder(whole)
    subject = folder if named == "folder" else checkpoint.path_of(folder, STEPS)
    assert command_line.main(["measure", str(subject), "--device", "cpu", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["measurements"]
    record = Record.load(folder / "record.json")
    assert {name: each["value"] for name, each in printed.items()} == {
        name: each.value for name, each in record.measurements.items()
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run"], "name an experiment to run"),
        (["run", "denoise_tou"], "did you mean denoise_toy?"),
        (["run", "denoise_toy:bas"], "variant 'bas' of denoise_toy is not one of base,"),
        (["run", "denoise_toy", "--seeds", "2-0"], "seeds are numbers or ranges"),
        (["run", "denoise_toy", "--seeds", "0", "--seed", "1"], "exclude each other"),
        (["run", "denoise_toy", "--device", "cuda:99"], "cannot be used here"),
        (["run", "denoise_toy", "--steps", "0"], "steps and batch are at least 1; got 0"),
        (["run", "denoise_toy", "--steps", "many"], "expected a whole number, got 'many'"),
        (["run", "denoise_toy", "--save-every", "0"], "saved every 1 step or more; got 0"),
        (["measure", "nowhere"], "experiment 'nowhere' is not one of"),
        (["measure", "denoise_toy"], "has no checkpoint"),
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


def test_seeds_and_variants_are_read_as_written():
    assert chosen_seeds("0-2") == [0, 1, 2]
    assert chosen_seeds("5, 0-1,1") == [5, 0, 1]
    assert chosen_variants("denoise_toy") == [("denoise_toy", "base")]
    assert ("denoise_toy", "noise_prediction") in chosen_variants("denoise_toy:all")


def test_every_seed_and_purpose_has_random_numbers_of_its_own():
    cpu = torch.device("cpu")
    firsts = [
        torch.rand(1, generator=session._generator(seed, purpose, cpu)).item()
        for seed in range(3)
        for purpose in range(3)
    ]
    assert len(set(firsts)) == 9


def test_a_batch_must_divide_among_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run.Accelerator, "num_processes", 3)
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
    words = ["-m", "recombine", "run", "denoise_toy", "--tiny", "--device", "cpu", "--ema", "0.5"]
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
    assert len(list(tmp_path.rglob("record.json"))) == 1
