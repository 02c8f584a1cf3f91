"""Where a run reports while it goes on: log.csv in its folder, or a tracker through accelerate.

What is reported is what the run keeps anyhow: the loss and learning rate of every step, the
measurements of milestones and of the end with their intervals, and sheets of samples. No number
depends on it. A run that is resumed reports again what came after its checkpoint.
"""

import csv
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from accelerate.tracking import LOGGER_TYPE_TO_CLASS
from accelerate.utils import LoggerType
from PIL import Image

from recombine.measurement import Measurement, Number
from recombine.report.files import write_text
from recombine.report.words import nearest
from recombine.run.plan import Plan

CSV = "csv"
INSTALLED = ("tensorboard", "trackio", "wandb")
"""Trackers of accelerate's that are offered; one that a script registers with it is known, too."""
_HEAD = ("step", "name", "value")


@runtime_checkable
class Tracker(Protocol):
    """What we use of accelerate's `GeneralTracker`."""

    def store_init_configuration(self, values: dict[str, Any]) -> None: ...

    def log(self, values: dict[str, Any], step: int | None = None) -> None: ...

    def finish(self) -> None: ...


class CsvTracker:
    """A line of step, name and value for each number; pictures lie in the folder `samples`."""

    def __init__(self, path: Path, after: int) -> None:
        """Keep the lines up to step `after`, from where a run goes on."""
        old = path.read_text().splitlines()[1:] if path.exists() else []
        # The last line of a killed run may be cut off; its step comes again.
        whole = [line for line in csv.reader(old) if len(line) == len(_HEAD) and line[0].isdigit()]
        kept = [line for line in whole if int(line[0]) <= after]
        write_text(path, "")
        self.file = path.open("a")
        self.lines = csv.writer(self.file, lineterminator="\n")
        self.lines.writerows([_HEAD, *kept])

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """Do nothing: the training is described in the run's folder."""

    def log(self, values: dict[str, Any], step: int | None = None) -> None:
        """Write numbers of a step."""
        self.lines.writerows((step, name, value) for name, value in values.items())
        self.file.flush()

    def finish(self) -> None:
        """Close the file."""
        self.file.close()


@dataclass(frozen=True)
class Log:
    """The trackers of one run, by name; with none of them, nothing is reported."""

    trackers: Mapping[str, Tracker]

    def numbers(self, step: int, values: Mapping[str, Number]) -> None:
        """Report numbers of a step."""
        for tracker in self.trackers.values():
            tracker.log(dict(values), step=step)

    def measured(self, step: int, found: Mapping[str, Measurement]) -> None:
        """Report measurements at a step, each with its interval and n."""
        if values := {
            (name if part == "value" else f"{name}/{part}"): value
            for name, each in found.items()
            for part, value in each.printed.items()
            if value is not None
        }:
            self.numbers(step, values)

    def picture(self, step: int, name: str, sheet: Image.Image) -> None:
        """Report a sheet of samples."""
        images, name = np.asarray(sheet)[None], f"samples/{name}"
        for kind, tracker in self.trackers.items():
            if kind == "trackio":
                import trackio

                tracker.log({name: trackio.Image(images[0])}, step=step)
            elif (log_images := getattr(tracker, "log_images", None)) is not None:
                form = {"dataformats": "NHWC"} if kind == "tensorboard" else {}
                log_images({name: images}, step=step, **form)

    def finish(self) -> None:
        """Close every tracker."""
        for tracker in self.trackers.values():
            tracker.finish()


NO_LOG = Log({})


def check(kinds: Sequence[str]) -> None:
    """Refuse a tracker that is not known, and one whose package is not installed."""
    own = [name for name in LOGGER_TYPE_TO_CLASS if name not in {each.value for each in LoggerType}]
    known = [CSV, *INSTALLED, *own]
    for kind in kinds:
        if kind not in known:
            near = nearest(kind, known)
            raise ValueError(f"--log {kind!r} is not one of {', '.join(known)}{near}")
        if kind in INSTALLED and find_spec(kind) is None:
            raise ImportError(f"--log {kind} needs the package {kind}: pip install {kind}")


def opened(kinds: Sequence[str], plan: Plan, folder: Path, after: int = 0) -> Log:
    """Start the trackers of a run that goes on after a step."""
    check(kinds)
    trackers: dict[str, Tracker] = {}
    for kind in dict.fromkeys(kinds):
        if kind == CSV:
            trackers[kind] = CsvTracker(folder / "log.csv", after)
        else:
            trackers[kind] = tracker = _started(kind, plan, folder, after)
            if not after:
                tracker.store_init_configuration(_configuration(plan))
    return Log(trackers)


def _started(kind: str, plan: Plan, folder: Path, after: int) -> Any:
    """Return a tracker of accelerate's: a project for the study, in it one run."""
    run = f"{folder.parent.name}/{folder.name}"
    same = hashlib.sha256(f"{folder.resolve()}".encode()).hexdigest()[:16]
    known: dict[str, dict[str, Any]] = {
        "tensorboard": {"purge_step": after + 1},
        "trackio": {"name": run, "resume": "allow"},
        "wandb": {"name": run, "id": same, "resume": "allow", "dir": str(folder)},
    }
    settings = known.get(kind, {})
    tracker_class: Any = LOGGER_TYPE_TO_CLASS[kind]
    if tracker_class.requires_logging_directory:
        tracker = tracker_class(kind, logging_dir=folder, **settings)
    else:
        tracker = tracker_class(f"recombine-{plan.study}", **settings)
    tracker.start()
    return tracker


def _configuration(plan: Plan) -> dict[str, Any]:
    """Return what trackers show beside a run, as words and numbers."""
    facts = {"study": plan.study, "cell": plan.cell, "seed": plan.seed, "command": plan.command}
    return {**facts, **plan.levels}
