"""Runs that take turns are the runs they would be alone, to the bit (stacks: test_stacks.py)."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from recombine import __main__ as command_line
from recombine import checkpoint, run, studies
from recombine.measure.subject import Findings
from recombine.run import Plan, session, state
from recombine.run.model import Model

STEPS = 12
FIRST, SECOND, *_ = studies.load("toy").cells
RUNS = ((FIRST, 0), (FIRST, 1), (SECOND, 0))


def seeded(key: str, seeds: range | list[int], **overrides: int) -> list[Plan]:
    return [run.planned("toy", studies.load("toy"), key, seed, True, overrides) for seed in seeds]


def plans(steps: int = STEPS) -> list[Plan]:
    """Return two runs that differ in their budget, and another cell, which is done earlier."""
    changes = ({"steps": steps}, {"steps": steps, "batch": 7}, {"steps": steps - 4})
    return [
        plan
        for (key, seed), changed in zip(RUNS, changes, strict=True)
        for plan in seeded(key, [seed], **changed)
    ]


def ran(out: Path, which: list[Plan], watch: run.Watch = lambda step, loss: None) -> list[float]:
    """Run them at once and return how long each took, in seconds."""
    each = run.Settings(out, 5, watch=watch)
    found = run.together(which, run.machine(torch.device("cpu")), [each] * len(which))
    return [kept.seconds for kept in found if kept]


def left(out: Path) -> dict[str, bytes]:
    """Return all that runs leave which does not depend on the time."""
    names = ("*/*/*/metrics.jsonl", "*/*/*/samples/*")
    files = [path for name in names for path in out.glob(name)]
    kept = {str(path.relative_to(out)): path.read_bytes() for path in files}
    for plan in plans():
        tensors = checkpoint.Checkpoint.load(state.checkpoints(plan.folder(out))[0]).tensors
        kept |= {
            f"{plan.folder(out).relative_to(out)}/{n}": t.numpy().tobytes()
            for n, t in tensors.items()
        }
    return kept


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the three runs leave one after another."""
    out = tmp_path_factory.mktemp("alone")
    for plan in plans():
        ran(out, [plan])
    return left(out)


def test_runs_at_once_leave_what_they_leave_alone(alone: dict[str, bytes], tmp_path: Path):
    order: list[int] = []
    ran(tmp_path, plans(), watch=lambda step, loss: order.append(step))
    assert left(tmp_path) == alone
    assert len(alone) > 30
    # In turn: looks at the same step follow each other.
    assert order == [5, 5, 5, 8, 10, 10, 12, 12]


def test_ctrl_c_saves_all_of_them_and_the_same_command_goes_on(
    alone: dict[str, bytes], tmp_path: Path
):
    def interrupts(step: int, loss: float) -> None:
        if step == 5:
            os.kill(os.getpid(), signal.SIGINT)
            interrupted.append(step)

    interrupted: list[int] = []
    names = "checkpoint-6.*checkpoint-5.*checkpoint-5.*; the same command"
    with pytest.raises(run.Interrupted, match=names):
        ran(tmp_path, plans(), watch=lambda *seen: None if interrupted else interrupts(*seen))
    ran(tmp_path, plans())
    assert left(tmp_path) == alone


def test_the_times_of_a_group_add_up_to_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Of a clock that only looks and measurements move: ten seconds each, and seven."""
    now, measure = [0.0], Model.each

    def watch(step: int, loss: float) -> None:
        now[0] += 10

    def measured(*arguments: Any) -> list[Findings]:
        now[0] += 7
        return measure(*arguments)

    monkeypatch.setattr(session.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(Model, "each", measured)
    seconds = ran(tmp_path, plans(), watch)
    # Looks at 5, 10 and 12 of two runs, at 5 and 8 of the third, and a measurement of each.
    assert now[0] == 8 * 10 + 3 * 7
    assert sum(seconds) == pytest.approx(now[0], abs=0.2)
    # Up to its end the third pays a third of four looks; the others share what is left.
    assert seconds[2] == pytest.approx(40 / 3 + 7, abs=0.06)
    # Those that are done already cost nothing but being looked for.
    assert ran(tmp_path, plans()) == pytest.approx(seconds)


def test_a_run_that_diverges_does_not_take_the_others_with_it(
    alone: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    look = run.Session._look

    def looked(self: run.Session, step: int, pending: list[torch.Tensor], stop: bool) -> bool:
        if self.plan.seed == 1:
            pending[-1].fill_(float("nan"))
        return look(self, step, pending, stop)

    monkeypatch.setattr(run.Session, "_look", looked)
    with pytest.raises(run.Diverged, match=r"seed1: the loss is nan at step 5; there is no"):
        ran(tmp_path, plans())
    assert len(list(tmp_path.rglob("results.csv"))) == 2
    monkeypatch.undo()
    ran(tmp_path, plans())
    assert left(tmp_path) == alone


def test_two_runs_do_not_write_into_one_folder(tmp_path: Path):
    (plan, *_) = plans()
    with pytest.raises(
        ValueError, match=r"one run at a time writes into a folder; got \S+seed0 twice"
    ):
        ran(tmp_path, [plan, plan])
    many = [plan for batch in range(1, 10) for plan in seeded(FIRST, [batch], batch=batch)]
    count = "1 to 8 networks .* of one architecture count as one; got 9, which differ in budget$"
    with pytest.raises(ValueError, match=count):
        ran(tmp_path, many)
    assert not list(tmp_path.iterdir())


def test_the_command_line_trains_so_many_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    groups: list[int] = []
    together = run.together

    def counted(which: list[Plan], *rest: object) -> object:
        groups.append(len(which))
        return together(which, *rest)

    monkeypatch.setattr(run, "together", counted)
    words = ["run", f"toy:{FIRST}", "--tiny", "--device", "cpu", "--seeds", "0-2", "--json"]
    assert command_line.main([*words, "--out", str(tmp_path), "--together", "2"]) == 0
    assert groups == [2, 1]
    assert [each["seed"] for each in json.loads(capsys.readouterr().out)["runs"]] == [0, 1, 2]
    assert command_line.main([*words, "--together", "0"]) == 2
    assert "at least 1 run is trained at once; got --together 0" in capsys.readouterr().err
