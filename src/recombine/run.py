"""From an experiment to its record: the one chapter that knows files, devices, clocks and seeds.

A run is a folder. Whatever stops it, the same command goes on from its last checkpoint, and on a
CPU the weights and metrics are, to the bit, those of a run that was never stopped.
"""

import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from torch import Tensor, nn

from recombine.checkpoint import (
    Checkpoint,
    checkpoints,
    packed,
    path_of,
    tidy,
    unpack,
    unpack_average,
)
from recombine.data import Stream
from recombine.draw import bits
from recombine.experiment import Experiment, Findings, Trained, spelled
from recombine.report.files import write_bytes, write_text
from recombine.report.origin import device_name
from recombine.report.picture import contact_sheet, png
from recombine.report.record import Record
from recombine.train import Share, Step, Weights, train

LOOK = 50
"""Steps between looks at the loss: each look waits for the device."""
DIVERGED = 100
"""A loss this many times the first one will not come back."""
_COLUMNS, _POINTS = 8, 200

Watch = Callable[[int, float], None]
"""Told the step and its loss at every look."""


class Interrupted(KeyboardInterrupt):
    """Stopped by the user, after saving."""


class Diverged(RuntimeError):
    """The loss is no longer a number, or beyond return."""


@dataclass(frozen=True)
class Plan:
    """One run to be: an experiment as it is declared, shrunk or overridden, and a seed."""

    name: str
    variant: str
    experiment: Experiment
    seed: int
    tiny: bool = False
    overrides: Mapping[str, int | float] = field(default_factory=dict)

    def folder(self, out: Path) -> Path:
        """Return where the run lies."""
        return out / self.name / (self.variant + "-tiny" * self.tiny) / f"seed{self.seed}"

    @property
    def command(self) -> str:
        """What to type to run it."""
        options = [f"--{key.replace('_', '-')} {value}" for key, value in self.overrides.items()]
        words = [f"{self.name}:{self.variant}", *["--tiny"] * self.tiny, *options]
        return f"recombine run {' '.join(words)} --seed {self.seed}"

    @property
    def facts(self) -> dict[str, Any]:
        """What a folder or a checkpoint says of the run it belongs to."""
        parts = {each.name: getattr(self.experiment, each.name) for each in fields(Experiment)}
        return {
            "name": self.name,
            "variant": self.variant,
            "tiny": self.tiny,
            "overrides": dict(self.overrides),
            "seed": self.seed,
            "digest": self.experiment.digest,
            "experiment": {name: spelled(value) for name, value in parts.items()},
        }

    def check(self, facts: Mapping[str, Any], where: Path) -> None:
        """Raise unless the facts are of this run."""
        for name in ("digest", "seed"):
            if facts.get(name) == self.facts[name]:
                continue
            theirs, ours = facts.get("experiment", {}), self.facts["experiment"]
            differing = [key for key in ours if theirs.get(key) != ours[key]] or ["seed"]
            raise ValueError(
                f"{where} belongs to another experiment: it differs in {', '.join(differing)}; "
                f"choose another --out or remove {where.parent}"
            )


@dataclass(frozen=True)
class Settings:
    """How to run, as far as no number depends on it."""

    out: Path = Path("runs")
    save_every: int = 1000
    compiled: bool = True
    watch: Watch = lambda step, loss: None

    def __post_init__(self) -> None:
        if self.save_every < 1:
            raise ValueError(f"a checkpoint is saved every 1 step or more; got {self.save_every}")


def machine(device: torch.device) -> Accelerator:
    """Return the devices and processes to run on: bf16 on a GPU, gloo between CPUs."""
    on_gpu = device.type == "cuda"
    if on_gpu and device.index is not None:
        torch.cuda.set_device(device)
    # Others wait while the first process measures.
    patience = InitProcessGroupKwargs(timeout=timedelta(hours=12))
    return Accelerator(
        cpu=device.type == "cpu",
        mixed_precision="bf16" if on_gpu else "no",
        kwargs_handlers=[patience],
    )


def run(plan: Plan, accelerator: Accelerator, settings: Settings) -> Record | None:
    """Train or go on training, measure, and write the record; only the first process has it."""
    folder = plan.folder(settings.out)
    if (folder / "record.json").exists():
        plan.check(_facts(folder), folder / "experiment.json")
        return Record.load(folder / "record.json")
    session = Session(plan, accelerator, settings)
    session.open()
    try:
        session.train()
        record = session.finish() if accelerator.is_main_process else None
    except KeyboardInterrupt as stop:
        last = checkpoints(folder)[:1]
        at = f"saved as {last[0]}" if last else "nothing is saved yet"
        raise Interrupted(f"stopped: {at}; go on with {plan.command}") from stop
    accelerator.wait_for_everyone()
    accelerator.free_memory()
    return record


def measured(plan: Plan, path: Path, accelerator: Accelerator) -> Findings:
    """Put the experiment's questions to the averaged weights of a checkpoint."""
    checkpoint = Checkpoint.load(path)
    plan.check(checkpoint.facts, path)
    denoiser = _untrained(plan, accelerator.device)
    _named(path, lambda: unpack_average(checkpoint.tensors, denoiser))
    denoiser = accelerator.prepare_model(denoiser.eval(), evaluation_mode=True)
    return _findings(plan, denoiser, accelerator.device, checkpoint.facts["step"])


class Session:
    """A run in progress: what is in memory, and the folder it is kept in."""

    def __init__(self, plan: Plan, accelerator: Accelerator, settings: Settings) -> None:
        self.plan, self.accelerator, self.settings = plan, accelerator, settings
        self.folder = plan.folder(settings.out)
        self.metrics = Metrics(self.folder / "metrics.jsonl")
        budget, device = plan.experiment.budget, accelerator.device
        share, rest = divmod(budget.batch, accelerator.num_processes)
        if rest:
            raise ValueError(
                f"a batch of {budget.batch} does not divide among {accelerator.num_processes} "
                "processes"
            )
        place = accelerator.process_index, accelerator.num_processes
        self.share = Share(*place) if place[1] > 1 else None
        self.stream = Stream(plan.experiment.world, share, plan.seed, device, *place)
        self.generators = {
            purpose: _generator(plan.seed, number, device)
            for number, purpose in enumerate(("noise", "tell"))
        }
        self.weights = Weights.of(_untrained(plan, device), budget.ema)
        self.seconds, self.started = 0.0, time.perf_counter()

    def open(self) -> None:
        """Start the run's folder, or go on from its newest checkpoint."""
        if self.accelerator.is_main_process:
            self.folder.mkdir(parents=True, exist_ok=True)
            described = self.folder / "experiment.json"
            if described.exists():
                self.plan.check(_facts(self.folder), described)
            write_text(described, json.dumps(self.plan.facts, indent=2) + "\n")
        self.accelerator.wait_for_everyone()
        if found := checkpoints(self.folder):
            self._resume(found)
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            tidy(self.folder)
            self.metrics.keep(self.stream.step)

    def _resume(self, found: list[Path]) -> None:
        try:
            checkpoint = Checkpoint.load(found[0])
        except ValueError as error:
            older = f"; remove it to go on from {found[1].name}" if found[1:] else ""
            raise ValueError(f"{error}{older}") from error
        self.plan.check(checkpoint.facts, found[0])
        _named(found[0], lambda: unpack(checkpoint.tensors, self.weights, self.generators))
        self.stream = self.stream.resumed(checkpoint.facts["stream"])
        self.seconds = checkpoint.facts["seconds"]

    def train(self) -> None:
        """Take the steps that are left, and save on the way."""
        budget = self.plan.experiment.budget
        steps = range(self.stream.step + 1, budget.steps + 1)
        pending: list[Tensor] = []
        with interruptible() as stop:
            for taken in train(self._step(), self._examples(), budget.rate, steps):
                pending.append(taken.loss)
                alone = self.accelerator.num_processes == 1
                saving = taken.index % self.settings.save_every == 0 or taken.index == budget.steps
                asked = taken.index in budget.milestones
                if not (saving or asked or taken.index % LOOK == 0 or alone and stop.is_set()):
                    continue
                stopping = self._look(taken.index, pending, stop.is_set())
                pending = []
                if asked and self.accelerator.is_main_process:
                    found = self._asked(taken.index)
                    values = {name: asdict(each) for name, each in found.measurements.items()}
                    self.metrics.append([{"step": taken.index, "measurements": values}])
                if saving or stopping:
                    self._save(taken.index)
                if stopping:
                    raise KeyboardInterrupt

    def _step(self) -> Step:
        experiment, denoiser = self.plan.experiment, self.weights.denoiser
        if self.accelerator.device.type == "cuda" and self.settings.compiled:
            denoiser.compile()
            self.weights.average.module.compile()
        called = self.accelerator.prepare_model(denoiser.train())
        noise = self.generators["noise"]
        return Step(
            self.weights, experiment.objective, experiment.budget.clip, noise, called, self.share
        )

    def _examples(self) -> Iterator[tuple[Tensor, Tensor]]:
        for batch in self.stream:
            if self.share is None:
                image, condition = self.plan.experiment.example(batch, self.generators["tell"])
            else:
                with self.share:
                    image, condition = self.plan.experiment.example(batch, self.generators["tell"])
            yield _laid_out(image), condition

    def _look(self, step: int, pending: list[Tensor], stop: bool) -> bool:
        """Write down the losses since the last look; return whether any process is to stop."""
        seen = torch.stack([*pending, pending[0].new_tensor(float(stop))])
        *losses, stopping = self.accelerator.reduce(seen, "mean").tolist()
        first = step - len(losses) + 1
        good = [loss for loss in losses if math.isfinite(loss)]
        if self.accelerator.is_main_process:
            lines = [{"step": at, "loss": loss} for at, loss in enumerate(losses, first)]
            self.metrics.append(lines[: len(good)] if good == losses[: len(good)] else [])
        ...
        return stopping > 0
