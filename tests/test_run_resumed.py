"""A run that was interrupted or killed goes on to the same bits, or says why it cannot."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from recombine import run
from recombine.run import session, state
from recombine.run.lock import Lock, Locked
from toy_runs import CELL, SAVE_EVERY, STEPS, assert_same, curve, kept, ran, said, toy


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
        assert not (toy().folder(tmp_path) / "results.csv").exists()
    ran(tmp_path)
    assert_same(tmp_path, whole)
    assert not list(toy().folder(tmp_path).glob(".*.partial"))


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
    words = ["run", f"toy:{CELL}", "--tiny", "--device", "cpu", "--out", str(tmp_path)]
    code, message = said([*words, "--save-every", "7"], capsys)
    assert code == 130
    assert message.endswith("checkpoint-7.safetensors; the same command goes on from there")


def test_a_damaged_checkpoint_names_the_one_before(
    tmp_path: Path, whole: Path, capsys: pytest.CaptureFixture[str]
):
    ran(tmp_path)
    newest, older = state.checkpoints(toy().folder(tmp_path))
    newest.write_bytes(newest.read_bytes()[:-3])
    words = ["run", f"toy:{CELL}", "--tiny", "--device", "cpu", "--out", str(tmp_path)]
    code, message = said([*words, "--steps", str(STEPS), "--ema", "0.5"], capsys)
    assert code == 2
    assert "not a whole checkpoint" in message
    assert message.endswith(f"remove it to go on from {older.name}")
    assert len(message.splitlines()) == 1
    newest.unlink()
    (toy().folder(tmp_path) / "results.csv").unlink()
    ran(tmp_path)
    assert_same(tmp_path, whole)


def test_milestones_are_measured_when_reached_survive_a_restart_and_change_no_weight(
    whole: Path, tmp_path: Path
):
    plan = toy(milestones=(4, 9))

    def watch(step: int, loss: float) -> None:
        if step == 9:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(run.Interrupted):
        ran(tmp_path / "stopped", plan, watch=watch)
    stopped, straight = ran(tmp_path / "stopped", plan), ran(tmp_path / "straight", plan)
    for name in ("loss", "relative_error"):
        assert curve(stopped, name) == curve(straight, name)
    points = curve(straight, "relative_error")
    assert [step for step, _ in points] == [4, 9]
    values = [value for _, value in points]
    assert len({*values, straight.measurements["relative_error"].value}) == 3
    (weights, _), (others, _) = kept(tmp_path / "straight"), kept(whole)
    assert all(torch.equal(weights[name], others[name]) for name in weights)


def hold(
    folder: Path,
    held: "multiprocessing.synchronize.Event",
    done: "multiprocessing.synchronize.Event",
) -> None:
    lock = Lock(folder)
    lock.take()
    held.set()
    done.wait(60)


def test_two_processes_do_not_write_into_one_folder(tmp_path: Path, whole: Path):
    """Whoever comes second is refused in one line, and goes on when the first has ended."""
    context = multiprocessing.get_context("spawn")
    held, done = context.Event(), context.Event()
    folder = toy().folder(tmp_path)
    other = context.Process(target=hold, args=(folder, held, done))
    other.start()
    assert held.wait(60)
    with pytest.raises(Locked, match=rf"in use by another process \(number {other.pid}\)"):
        ran(tmp_path)
    assert not list(folder.glob("*.json*"))
    done.set()
    other.join(60)
    ran(tmp_path)
    assert_same(tmp_path, whole)


def test_metrics_that_were_changed_are_noticed_on_resume(tmp_path: Path):
    def stop(step: int, loss: float) -> None:
        if step == 10:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(run.Interrupted):
        ran(tmp_path, watch=stop)
    path = toy().folder(tmp_path) / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.unlink()
    with pytest.raises(ValueError, match=r"metrics.jsonl was changed since the checkpoint"):
        ran(tmp_path)
    path.write_text("".join(lines))
    ran(tmp_path)
