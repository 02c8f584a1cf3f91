"""Trackers: what they are given is what the run keeps, and no number depends on them."""

import csv
import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from accelerate import tracking
from accelerate.tracking import GeneralTracker
from PIL import Image

from recombine import __main__ as command_line
from recombine import run
from recombine.measure.subject import Findings
from recombine.measurement import Measurement
from recombine.results import read
from recombine.run import session, trackers
from toy_runs import STEPS, assert_same, kept, ran, toy

RATE = Measurement(0.5, 0.25, 0.75, n=256)


@dataclass(frozen=True)
class Sheet:
    """A measurement that has a sample to show, and a number without an interval."""

    name: ClassVar[str] = "sheet"

    def __call__(self, subject: Any, generator: torch.Generator) -> Findings:
        images = torch.zeros(2, 3, 4, 4)
        images[1, 0] = 1
        found = {"reds": RATE, "one,of,two": Measurement(1, None, None, 1)}
        return Findings(found, images={"drawn": images})

    def tiny(self) -> "Sheet":
        return self


class Noting(GeneralTracker):
    """A tracker by accelerate's protocol that notes what it is given."""

    name = "noting"
    requires_logging_directory = False
    notes: ClassVar[list[tuple[Any, ...]]] = []

    def __init__(self, run_name: str, **settings: Any) -> None:
        super().__init__()
        self.notes.append(("init", run_name, settings))

    @property
    def tracker(self) -> list[tuple[Any, ...]]:
        return self.notes

    def start(self) -> None:
        self.notes.append(("start",))

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        self.notes.append(("configuration", values))

    def log(self, values: dict[str, Any], step: int | None = None, **named: Any) -> None:
        self.notes.append(("log", step, values))

    def log_images(self, values: dict[str, Any], step: int | None = None) -> None:
        self.notes.append(("images", step, values))

    def finish(self) -> None:
        self.notes.append(("finish",))


@pytest.fixture
def noting(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    monkeypatch.setitem(tracking.LOGGER_TYPE_TO_CLASS, "noting", Noting)
    monkeypatch.setattr(Noting, "notes", [])
    return Noting.notes


def lines(out: Path) -> list[tuple[int, str, float]]:
    with (toy().folder(out) / "log.csv").open() as file:
        head, *rows = csv.reader(file)
    assert head == ["step", "name", "value"]
    return [(int(step), name, float(value)) for step, name, value in rows]


def test_csv_has_the_loss_and_learning_rate_of_every_step_as_the_run_keeps_them(
    whole: Path, tmp_path: Path
):
    ran(tmp_path, log=("csv",))
    assert_same(tmp_path, whole)
    losses = [json.loads(line)["loss"] for line in kept(whole)[1].splitlines()]
    found = lines(tmp_path)
    assert [value for _, name, value in found if name == "loss"] == losses
    budget = toy().trained.training.budget
    rates = [(step, value) for step, name, value in found if name == "learning_rate"]
    assert rates == [(step, budget.rate(step)) for step in range(1, STEPS + 1)]
    assert not (toy().folder(whole) / "log.csv").exists()


def test_measurements_of_milestones_and_of_the_end_are_there_with_their_intervals(tmp_path: Path):
    measured = ran(tmp_path, toy(measures=(Sheet(),), milestones=(7,)), log=("csv",))
    found = {(step, name): value for step, name, value in lines(tmp_path) if step in (7, STEPS)}
    for step in (7, STEPS):
        ends = [found[step, f"reds{part}"] for part in ("", "/low", "/high", "/n")]
        assert ends == [0.5, 0.25, 0.75, 256]
        assert found[step, "one,of,two"] == 1
        assert (step, "one,of,two/low") not in found
    assert measured.measurements["reds"] == RATE


@pytest.mark.parametrize("stop", [3, 8])
def test_the_log_of_a_run_that_was_stopped_is_that_of_one_that_was_not(
    stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(session, "LOOK", 1)

    def watch(step: int, loss: float) -> None:
        if step == stop:
            raise RuntimeError("stopped")

    plan = toy(measures=(Sheet(),), milestones=(2, 7))
    ran(tmp_path / "whole", plan, log=("csv",))
    with pytest.raises(RuntimeError, match="stopped"):
        ran(tmp_path / "stopped", plan, log=("csv",), watch=watch)
    path = toy().folder(tmp_path / "stopped") / "log.csv"
    assert lines(tmp_path / "stopped")[-1][0] == stop
    with path.open("a") as file:
        file.write("9,lo")
    ran(tmp_path / "stopped", plan, log=("csv",))
    assert path.read_text() == (toy().folder(tmp_path / "whole") / "log.csv").read_text()


def test_a_tracker_of_accelerates_kind_is_given_the_same(
    whole: Path, tmp_path: Path, noting: list[tuple[Any, ...]]
):
    ran(tmp_path / "a", log=("noting", "csv"))
    assert_same(tmp_path / "a", whole)
    begin, start, configuration, *logged, end = noting
    assert (begin, start, end) == (("init", "recombine-toy", {}), ("start",), ("finish",))
    assert configuration[1]["seed"] == 0
    assert configuration[1]["command"] == toy().command
    numbers = [(step, name, value) for _, step, values in logged for name, value in values.items()]
    assert numbers == lines(tmp_path / "a")
    noting.clear()
    ran(tmp_path / "a", log=("noting",))
    assert noting == []  # a run that is finished has nothing to report


def test_samples_are_reported_as_they_are_kept(tmp_path: Path, noting: list[tuple[Any, ...]]):
    ran(tmp_path, toy(measures=(Sheet(),), milestones=(7,)), log=("noting",))
    sheets = [note for note in noting if note[0] == "images"]
    assert [step for _, step, _ in sheets] == [7, STEPS]
    for _, step, values in sheets:
        png = Image.open(toy().folder(tmp_path) / "samples" / f"drawn-{step}.png")
        assert list(values) == ["samples/drawn"]
        assert np.array_equal(values["samples/drawn"], np.asarray(png)[None])
    assert np.asarray(png).max() == 255


def test_trackers_are_closed_when_a_run_fails(tmp_path: Path, noting: list[tuple[Any, ...]]):
    def watch(step: int, loss: float) -> None:
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        ran(tmp_path, log=("noting",), watch=watch)
    assert noting[-1] == ("finish",)


def test_a_computation_reports_what_it_found(tmp_path: Path):
    words = ["run", "swing_by:two_concepts", "--tiny", "--log", "csv", "--out", str(tmp_path)]
    assert command_line.main(words) == 0
    (path, *_) = sorted(tmp_path.rglob("log.csv"))
    (results,) = read(path.with_name("results.csv"))
    final = {row.measurement: row.value for row in results.rows if row.step is None}
    with path.open() as file:
        found = {name: float(value) for _, name, value in list(csv.reader(file))[1:]}
    assert {name: found[name] for name in final} == final


def test_an_unknown_tracker_is_named(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.chdir(tmp_path)
    said = refused("run", "toy", "--tiny", "--log", "csv,tensorbord")
    known = "csv, tensorboard, trackio, wandb"
    assert said == f"--log 'tensorbord' is not one of {known}; did you mean tensorboard?"
    assert "'aim' is not one of" in refused("run", "toy", "--tiny", "--log", "aim")


@pytest.mark.parametrize("kind", trackers.INSTALLED)
def test_a_tracker_that_is_not_installed_says_how_to_install_it(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(trackers, "find_spec", lambda name: None)
    words = ["run", "toy", "--tiny", "--log", kind, "--out", str(tmp_path / "runs")]
    assert command_line.main(words) == 1
    said = capsys.readouterr().err
    assert said == f"recombine: --log {kind} needs the package {kind}: pip install {kind}\n"
    assert not (tmp_path / "runs").exists()


@pytest.mark.skipif(not importlib.util.find_spec("tensorboard"), reason="needs tensorboard")
@pytest.mark.filterwarnings("default")
def test_tensorboard_has_every_number_and_the_samples(tmp_path: Path, whole: Path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    ran(tmp_path / "a", log=("tensorboard",))
    assert_same(tmp_path / "a", whole)
    plan = toy(measures=(Sheet(),), milestones=(7,))
    ran(tmp_path / "b", plan, log=("tensorboard", "csv"))
    events = EventAccumulator(str(plan.folder(tmp_path / "b") / "tensorboard"))
    events.Reload()
    for name in ("loss", "learning_rate", "reds", "reds/high"):
        shown = [(each.step, np.float32(each.value)) for each in events.Scalars(name)]
        kept_here = [(step, np.float32(v)) for step, n, v in lines(tmp_path / "b") if n == name]
        assert shown == kept_here
    assert [each.step for each in events.Images("samples/drawn")] == [7, STEPS]


@pytest.mark.skipif(not importlib.util.find_spec("trackio"), reason="needs trackio")
@pytest.mark.filterwarnings("default")
def test_trackio_takes_a_run(tmp_path: Path, whole: Path):
    ran(tmp_path, toy(measures=(Sheet(),), milestones=(7,)), log=("trackio",))
    assert torch.equal(*(next(iter(kept(out)[0].values())) for out in (tmp_path, whole)))


def test_settings_refuse_a_tracker_before_a_run_has_a_folder():
    with pytest.raises(ValueError, match="is not one of csv"):
        run.Settings(log=("nothing",))
