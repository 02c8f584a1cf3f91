"""Short runs of the toy study, and what they leave behind."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from recombine import __main__ as command_line
from recombine import run, studies
from recombine.results import read
from recombine.run import Kept, Plan, state

STEPS, SAVE_EVERY = 12, 5
CELL = next(iter(studies.load("toy").cells))


def toy(seed: int = 0, **changes: object) -> Plan:
    """Return the toy study, short, with some of its budget or of the cell changed."""
    overrides = {"steps": STEPS, "ema": 0.5}
    cell_changes = {
        name: changes.pop(name) for name in ("milestones", "measures") if name in changes
    }
    plan = run.planned("toy", studies.load("toy"), CELL, seed, True, {**overrides, **changes})
    return replace(plan, declared=replace(plan.trained, **cell_changes))


def ran(out: Path, plan: Plan | None = None, **how: run.Watch) -> Kept:
    machine = run.machine(torch.device("cpu"))
    (found,) = run.together([plan or toy()], machine, [run.Settings(out, SAVE_EVERY, **how)])
    assert found is not None
    return found


def curve(found: Kept, name: str) -> list[tuple[float, float]]:
    (results,) = read(found.path)
    return [(r.step, r.value) for r in results.rows if r.measurement == name and r.step is not None]


def kept(out: Path) -> tuple[dict[str, torch.Tensor], str]:
    folder = toy().folder(out)
    (newest, *_) = state.checkpoints(folder)
    return load_file(newest), (folder / "metrics.jsonl").read_text()


def assert_same(out: Path, other: Path) -> None:
    (weights, metrics), (others, other_metrics) = kept(out), kept(other)
    assert metrics == other_metrics
    assert weights.keys() == others.keys()
    assert all(torch.equal(weights[name], others[name]) for name in weights)


def said(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = command_line.main(words)
    return code, capsys.readouterr().err.strip()
