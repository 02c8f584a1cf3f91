"""A stack of runs leaves what its runs leave alone: folders, losses, checkpoints, results."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from recombine import run, studies
from recombine.checkpoint import Checkpoint
from recombine.results import read
from recombine.run import Plan, stack
from recombine.run.model import Model
from recombine.run.state import checkpoints
from recombine.stacked import StackedStep

STEPS = 12
TOY = studies.load("toy")
KEY = next(iter(TOY.cells))


def plan(seed: int, **changes: float) -> Plan:
    """Return a run of the toy study, measured at step 6 and at the end."""
    made = run.planned("toy", TOY, KEY, seed, True, {"steps": STEPS, **changes})
    return replace(made, declared=replace(made.trained, milestones=(6,)))


PLANS = [plan(0), plan(1), plan(2, learning_rate=3e-2)]


def ran(out: Path, which: list[Plan], watch: run.Watch = lambda step, loss: None) -> None:
    settings = [run.Settings(out, 5, watch=watch)] * len(which)
    run.together(which, run.machine(torch.device("cpu")), settings)


def lines(out: Path, of: Plan) -> list[dict]:
    return [
        json.loads(each) for each in (of.folder(out) / "metrics.jsonl").read_text().split("\n")[:-1]
    ]


def same(out: Path, other: Path, of: Plan, exactly: bool = False) -> None:
    """Check that a run has left the same in both places."""
    names = [sorted(p.name for p in of.folder(each).rglob("*")) for each in (out, other)]
    assert names[0] == names[1]
    close = 0.0 if exactly else 1e-5
    for ours, theirs in zip(lines(out, of), lines(other, of), strict=True):
        assert ours.keys() == theirs.keys()
        assert ours["step"] == theirs["step"]
        if "loss" in ours:
            assert ours["loss"] == pytest.approx(theirs["loss"], rel=close, abs=0)
        for name, each in ours.get("measurements", {}).items():
            assert each == pytest.approx(theirs["measurements"][name], rel=20 * close, nan_ok=True)
    for ours, theirs in zip(
        checkpoints(of.folder(out)), checkpoints(of.folder(other)), strict=True
    ):
        here, there = Checkpoint.load(ours), Checkpoint.load(theirs)
        assert here.tensors.keys() == there.tensors.keys()
        for name, value in there.tensors.items():
            torch.testing.assert_close(here.tensors[name], value, atol=close, rtol=close)
        for name in ("digest", "seed", "step", "stream"):
            assert here.facts[name] == there.facts[name]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the runs leave one after another."""
    out = tmp_path_factory.mktemp("alone")
    for each in PLANS:
        ran(out, [each])
    return out


@pytest.fixture(scope="module")
def stacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What they leave as a stack."""
    out = tmp_path_factory.mktemp("stacked")
    ran(out, PLANS)
    return out


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the runs of each stack."""
    counted: list[int] = []
    start = StackedStep.__init__

    def started(self: StackedStep, steps: list, compiled: bool = False) -> None:
        counted.append(len(steps))
        start(self, steps, compiled)

    monkeypatch.setattr(StackedStep, "__init__", started)
    return counted


def test_a_stack_leaves_what_runs_leave_alone(alone: Path, stacked: Path):
    for each in PLANS:
        same(stacked, alone, each)
        assert (each.folder(stacked) / "training.json").read_text() == (
            each.folder(alone) / "training.json"
        ).read_text()
        ((ours,), (theirs,)) = (read(each.folder(out)) for out in (stacked, alone))
        assert [(r.measurement, r.step) for r in ours.rows] == [
            (r.measurement, r.step) for r in theirs.rows
        ]


def test_a_stopped_stack_goes_on_to_the_bit(stacked: Path, tmp_path: Path, sizes: list[int]):
    """And alone up to rounding, or with others that stand elsewhere."""
    interrupted: list[int] = []

    def interrupts(step: int, loss: float) -> None:
        if step == 5 and not interrupted:
            os.kill(os.getpid(), signal.SIGINT)
            interrupted.append(step)

    with pytest.raises(run.Interrupted, match=r"checkpoint-6.*checkpoint-6.*checkpoint-6"):
        ran(tmp_path, PLANS, interrupts)
    half = tmp_path.with_name("half")
    tmp_path.rename(half)
    for name in ("again", "one", "other"):
        for each in PLANS:
            folder = each.folder(tmp_path / name)
            folder.mkdir(parents=True)
            for file in each.folder(half).rglob("*"):
                if file.is_file():
                    place = folder / file.relative_to(each.folder(half))
                    place.parent.mkdir(exist_ok=True)
                    place.write_bytes(file.read_bytes())
    ran(tmp_path / "again", PLANS)
    ran(tmp_path / "one", PLANS[1:2])
    # The last run stands at step 0: the others are a stack, and it is one of its own.
    for file in PLANS[2].folder(tmp_path / "other").glob("checkpoint*"):
        file.unlink()
    ran(tmp_path / "other", PLANS)
    assert sizes == [3, 3, 1, 2]
    for each in PLANS:
        same(tmp_path / "again", stacked, each, exactly=True)
        same(tmp_path / "other", stacked, each)
    same(tmp_path / "one", stacked, PLANS[1])


def test_a_run_that_diverges_leaves_its_stack_as_it_was(alone: Path, tmp_path: Path):
    """At this learning rate it is lost in a few steps; it is reported at the end."""
    lost = plan(3, learning_rate=1e4)
    with pytest.raises(run.Diverged, match=r"seed3: the loss is \S+ at step \d; there is no check"):
        ran(tmp_path, [PLANS[0], lost, PLANS[2]])
    for each in (PLANS[0], PLANS[2]):
        same(tmp_path, alone, each)
    assert not checkpoints(lost.folder(tmp_path))
    # Its losses are written once: it is not looked at again.
    written = [line["step"] for line in lines(tmp_path, lost)]
    assert written == list(range(1, len(written) + 1))
    assert len(list(tmp_path.rglob("results.csv"))) == 2


def test_a_stack_ends_when_all_of_it_has_diverged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    taken: list[int] = []
    call = StackedStep.__call__
    monkeypatch.setattr(StackedStep, "__call__", lambda *given: (taken.append(1), call(*given))[1])
    lost = [plan(seed, learning_rate=1e4, steps=200) for seed in (3, 4)]
    lost = [replace(each, declared=replace(each.trained, milestones=())) for each in lost]
    with pytest.raises(run.Diverged, match="seed3"):
        ran(tmp_path, lost)
    assert len(taken) == 5
    assert not list(tmp_path.rglob("results.csv"))


def test_a_milestone_measures_the_average_of_its_own_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seen: dict[int, dict[str, torch.Tensor]] = {}
    measure = Model.each

    def measured(self: Model, measures: object) -> list:
        weights = self.denoiser.state_dict()
        seen[self.seed] = {name: value.clone() for name, value in weights.items()}
        return measure(self, measures)

    monkeypatch.setattr(Model, "each", measured)
    ran(tmp_path, PLANS)
    for each in PLANS:
        (newest, *_) = checkpoints(each.folder(tmp_path))
        kept = Checkpoint.load(newest).tensors
        assert len(seen[each.seed]) > 4
        for name, value in seen[each.seed].items():
            assert torch.equal(kept[f"average/{name}"], value)


def test_runs_of_one_architecture_are_grouped():
    """They may differ in seed and learning rate, and in world; budgets and networks part them."""
    other, fewer = plan(10, batch=7), plan(11, batch=7)
    mixed = [PLANS[0], other, PLANS[1], PLANS[2], fewer]
    assert stack.units(mixed) == [[0, 2, 3], [1, 4]]
    assert stack.units(mixed, stacked=False) == [[0], [1], [2], [3], [4]]
    assert stack.groups(mixed, 1) == [[each] for each in mixed]
    assert stack.groups(mixed, 3) == [PLANS, [other, fewer]]
    assert stack.groups(mixed, 5) == [[*PLANS, other, fewer]]
    many = [plan(batch, batch=batch) for batch in range(1, 11)]
    assert [len(each) for each in stack.groups(many, 64)] == [8, 2]
    assert [len(each) for each in stack.groups([plan(seed) for seed in range(20)], 64)] == [20]


def test_cells_with_the_same_training_are_not_trained_at_once():
    factorial = studies.load("factorial")
    keys = ("masks", "masks-greedy")
    plans = [
        run.planned("factorial", factorial, key, seed, True) for key in keys for seed in (0, 1)
    ]
    assert stack.groups(plans, 4) == [plans[:2], plans[2:]]


def test_networks_with_convolutions_take_turns():
    circles = studies.load("circles")
    plans = [
        run.planned("circles", circles, next(iter(circles.cells)), seed, True) for seed in (0, 1)
    ]
    assert stack.units(plans) == [[0], [1]]
    assert stack.differing(plans) == "convolutions, which are not stacked"


def test_the_field_that_differs_is_named():
    factorial = studies.load("factorial")
    dit, maskgit = (
        run.planned("factorial", factorial, key, 0) for key in ("noise", "masks-cross_entropy")
    )
    assert stack.differing([dit, maskgit]) == "network, objective, view"
    condition = replace(
        PLANS[0].trained.training.conditioner, encode=lambda scenes: torch.zeros(1, 5)
    )
    training = replace(PLANS[0].trained.training, conditioner=condition)
    other = replace(PLANS[0], declared=replace(PLANS[0].trained, training=training))
    assert stack.differing([PLANS[0], other]) == "condition"
