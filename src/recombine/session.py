"""A run in progress: steps that can be watched, saved, stopped and gone on with."""

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from recombine.checkpoint import Checkpoint, Metrics, checkpoints, packed, path_of, tidy, unpack
from recombine.data import Stream
from recombine.denoiser import LearnsFromAverage
from recombine.draw import bits
from recombine.experiment import Findings, Plan, Trained, joined
from recombine.graph import GraphedStep
from recombine.report.files import naming, write_bytes, write_text
from recombine.report.origin import device_name
from recombine.report.picture import contact_sheet, png
from recombine.report.record import Record
from recombine.share import SharedDraws
from recombine.spelling import spelled
from recombine.train import Step, Weights, train

LOOK = 50
"""Steps between looks at the loss: each look waits for the device."""
AHEAD = 32
"""Batches that a GPU makes at once."""
DIVERGED = 100
"""A loss this many times the first one will not come back."""
_COLUMNS = 8

Watch = Callable[[int, float], None]
"""Told the step and its loss at every look."""


class Interrupted(KeyboardInterrupt):
    """Stopped by the user, after saving."""


class Diverged(RuntimeError):
    """The loss is no longer a number, or beyond return."""


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


def measured(trained: Trained, seed: int) -> Findings:
    """Ask with the same random numbers each time, so that only the weights make a difference."""
    generator = _generator(seed, 2, trained.device)
    with torch.no_grad():
        return trained.experiment.asked(trained, generator)


class Session:
    """A run in progress: what is in memory, and the folder it is kept in."""

    def __init__(
        self, plan: Plan, accelerator: Accelerator, settings: Settings, at_once: int = 1
    ) -> None:
        self.plan, self.accelerator, self.settings = plan, accelerator, settings
        self.at_once = at_once
        self.folder = plan.folder(settings.out)
        self.metrics = Metrics(self.folder / "metrics.jsonl")
        self.seconds, self.started = 0.0, time.perf_counter()
        self.first_loss = math.nan
        budget, device = plan.experiment.budget, accelerator.device
        process, processes = accelerator.process_index, accelerator.num_processes
        if budget.batch % processes:
            raise ValueError(f"a batch of {budget.batch} is not {processes} equal shares")
        self.share = SharedDraws(process, processes) if processes > 1 else None
        own = budget.batch // processes
        ahead = AHEAD if device.type == "cuda" else 1
        world, seed = plan.experiment.world, plan.seed
        self.stream = Stream(world, own, seed, device, process, processes, ahead=ahead)
        self.generators = {
            purpose: _generator(plan.seed, number, device)
            for number, purpose in enumerate(("noise", "tell"))
        }
        self.weights = Weights.of(untrained(plan, device), budget.ema, budget.weight_decay)
        denoiser, average = self.weights.denoiser, self.weights.average.module
        if device.type == "cuda":
            for module in (denoiser, average):
                module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            # Not the average: compiling it takes longer than a measurement.
            if settings.compiled:
                # Anew for each run: after eight networks of a kind torch would give up on it.
                torch.compiler.reset()
                denoiser.compile()
        self.called = accelerator.prepare_model(denoiser)
        # Preparing puts mixed precision into the very module: what stood there before is kept.
        self.plain = average.forward
        self.averaged = accelerator.prepare_model(average, evaluation_mode=True)

    def open(self) -> None:
        """Start the run's folder, or go on from its newest checkpoint."""
        first = self.accelerator.is_main_process
        if first:
            self.folder.mkdir(parents=True, exist_ok=True)
            described = self.folder / "experiment.json"
            if described.exists():
                self.plan.check(_facts(described), described)
            write_text(described, json.dumps(self.plan.facts, indent=2) + "\n")
            tidy(self.folder)
        self.accelerator.wait_for_everyone()
        if found := checkpoints(self.folder):
            self._resume(found)
        if first:
            self.metrics.keep(self.stream.step)

    def _resume(self, found: list[Path]) -> None:
        try:
            checkpoint = Checkpoint.load(found[0])
        except ValueError as error:
            older = f"; remove it to go on from {found[1].name}" if found[1:] else ""
            raise ValueError(f"{error}{older}") from error
        self.plan.check(checkpoint.facts, found[0])
        with naming(found[0]):
            unpack(checkpoint.tensors, self.weights, self.generators)
        self.stream = self.stream.resumed(checkpoint.facts["stream"])
        self.seconds, self.first_loss = (checkpoint.facts[k] for k in ("seconds", "first_loss"))

    def steps(self, stop: threading.Event) -> Iterator[None]:
        """Take the steps that are left, one at a time; look, measure and save on the way."""
        experiment = self.plan.experiment
        budget, noise = experiment.budget, self.generators["noise"]
        average = self._target() if isinstance(experiment.objective, LearnsFromAverage) else None
        parts = (self.weights, experiment.objective, budget.clip, noise)
        step = Step(*parts, self.called, self.share, average, self._seen)
        left = range(self.stream.step + 1, budget.steps + 1)
        pending: list[Tensor] = []
        for taken in train(self._graphed(step), self._examples(), budget.rate, left):
            pending.append(taken.loss)
            if self._due(taken.index, stop.is_set()):
                stopping = self._look(taken.index, pending, stop.is_set())
                self._keep(taken.index, stopping)
                pending = []
            yield

    def _target(self) -> nn.Module:
        """Return the average as an objective that learns from it calls it, at every step."""
        fast = self.settings.compiled and self.accelerator.device.type == "cuda"
        return torch.compile(self.averaged) if fast else self.averaged  # type: ignore[return-value]

    def _graphed(self, step: Step) -> Step | GraphedStep:
        return (
            GraphedStep(step) if step.generator.device.type == "cuda" and not self.share else step
        )

    def _examples(self) -> Iterator[tuple[Tensor, Tensor]]:
        for batch in self.stream:
            with self.share or nullcontext():
                told = self.plan.experiment.conditioner(batch.scenes, self.generators["tell"])
            yield batch.image, told

    def _seen(self, image: Tensor) -> Tensor:
        """Return what the denoiser sees of pictures."""
        seen = self.plan.experiment.view(image)
        if seen.is_cuda and seen.dim() == 4:
            # Convolutions are faster with the channels of a pixel side by side.
            seen = seen.contiguous(memory_format=torch.channels_last)
        return seen

    def _saves(self, step: int) -> bool:
        return step % self.settings.save_every == 0 or step == self.plan.experiment.budget.steps

    def _due(self, step: int, stop: bool) -> bool:
        """Tell whether to look after this step; processes must agree, so one alone cannot stop."""
        if step % LOOK == 0 or step in self.plan.experiment.budget.milestones:
            return True
        return self._saves(step) or (stop and self.share is None)

    def _look(self, step: int, pending: list[Tensor], stop: bool) -> bool:
        """Write down the losses since the last look; return whether a process is to stop."""
        seen = torch.stack([*pending, pending[0].new_tensor(float(stop))])
        *losses, stopping = self.accelerator.reduce(seen, "mean").tolist()
        lines = [
            {"step": at, "loss": loss} for at, loss in enumerate(losses, step - len(losses) + 1)
        ]
        if math.isnan(self.first_loss):
            self.first_loss = losses[0]
        # Not a number is not below either; a likelihood's loss can start below zero.
        limit = self.first_loss + DIVERGED * abs(self.first_loss)
        bad = [line for line in lines if not line["loss"] < limit]
        if self.accelerator.is_main_process:
            self.metrics.append(lines[: lines.index(bad[0])] if bad else lines)
            self.settings.watch(step, losses[-1])
        if bad:
            self._give_up(bad[0]["step"], f"the loss is {bad[0]['loss']:g}")
        return stopping > 0

    def _keep(self, step: int, stopping: bool) -> None:
        """Measure at a milestone, save when it is time, and stop when asked to."""
        first = self.accelerator.is_main_process
        if first and step in self.plan.experiment.budget.milestones:
            found = self._asked(step)
            values = {name: asdict(each) for name, each in found.measurements.items()}
            self.metrics.append([{"step": step, "measurements": values}])
        if first and (stopping or self._saves(step)):
            self._save(step)
        if stopping:
            raise Interrupted

    def _save(self, step: int) -> None:
        tensors = packed(self.weights, self.generators)
        # Weights can break in the very step whose loss was still good.
        if not all(value.isfinite().all() for value in tensors.values()):
            self._give_up(step, "a weight is not finite")
        facts = {
            **self.plan.facts,
            "step": step,
            "stream": self.stream.state(),
            "first_loss": self.first_loss,
            "seconds": self._elapsed(),
        }
        Checkpoint(tensors, facts).save(path_of(self.folder, step))
        tidy(self.folder)

    def _give_up(self, step: int, what: str) -> None:
        last = checkpoints(self.folder)[:1]
        good = f"the last good checkpoint is {last[0]}" if last else "there is no checkpoint yet"
        rate = self.plan.experiment.budget.learning_rate / 3
        says = f"{self.folder}: {what} at step {step}; {good}"
        raise Diverged(f"{says}; try --learning-rate {rate:.2g}")

    def keep_time(self, at_once: int) -> None:
        """Count a share of the time from now on: that of so many runs, or none while others run."""
        self.seconds, self.started = self._elapsed(), time.perf_counter()
        self.at_once = at_once

    def _elapsed(self) -> float:
        passed = time.perf_counter() - self.started
        return self.seconds + (passed / self.at_once if self.at_once else 0.0)

    def _asked(self, step: int) -> Findings:
        device = self.accelerator.device
        trained = Trained(self.plan.experiment, self.averaged, device, plain=self.plain)
        found = measured(trained, self.plan.seed)
        for name, images in found.images.items():
            (self.folder / "samples").mkdir(exist_ok=True)
            sheet = contact_sheet(images, _COLUMNS)
            write_bytes(self.folder / "samples" / f"{name}-{step}.png", png(sheet))
        return found

    def finish(self) -> Record:
        """Measure the trained model and write the record, unless that is done."""
        self.keep_time(1)
        experiment, path = self.plan.experiment, self.folder / "record.json"
        # Questions may have changed since; then the trained model is asked again.
        if path.exists() and (done := Record.load(path)).experiment == spelled(experiment):
            return done
        found = self._asked(experiment.budget.steps)
        curves = {**self.metrics.curves(), **found.curves}
        found = joined([found, experiment.looked_back(curves)])
        record = Record(
            question=experiment.question,
            command=self.plan.command,
            experiment=spelled(experiment),
            seed=self.plan.seed,
            device=device_name(self.accelerator.device),
            seconds=self._elapsed(),
            measurements=found.measurements,
            # Tiny runs measure too little for some numbers.
            headline=tuple(name for name in experiment.headline if name in found.measurements),
            curves={**curves, **found.curves},
        )
        record.save(path)
        return record


def _facts(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def _generator(seed: int, purpose: int, device: torch.device) -> torch.Generator:
    """Return a generator of its own for each purpose."""
    key = bits(seed, torch.tensor([purpose]), torch.tensor(0))
    return torch.Generator(device).manual_seed(int(key) & (2**63 - 1))


def untrained(plan: Plan, device: torch.device) -> nn.Module:
    """Return the denoiser of a seed: drawn on the CPU, so it is the same on every device."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(plan.seed)
        denoiser = plan.experiment.denoiser()
    return denoiser.to(device)
