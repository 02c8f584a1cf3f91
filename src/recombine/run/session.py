"""A run in progress: steps that can be watched, saved, stopped and gone on with."""

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from recombine.checkpoint import Checkpoint
from recombine.data import Stream
from recombine.measure.subject import Findings, SumsUp, joined
from recombine.objectives.jepa import JepaObjective
from recombine.report.files import naming, write_bytes, write_text
from recombine.report.picture import pictures, png, tiled
from recombine.run.devices import channels_last
from recombine.run.kept import Kept, keep, kept
from recombine.run.lock import Lock
from recombine.run.model import CONDITIONING, TRAINING, Model, stream
from recombine.run.plan import Plan
from recombine.run.state import Metrics, checkpoints, packed, path_of, tidy, unpack
from recombine.run.trackers import NO_LOG, check, opened
from recombine.share import SharedDraws
from recombine.train import Step, Weights

LOOK = 50
"""Steps between looks at the loss: each look waits for the device."""
AHEAD = 32
"""Batches that a GPU makes at once."""
DIVERGED = 100
"""A loss this many times the first one will not come back."""
_COLUMNS = 8

Watch = Callable[[int, float], None]
"""Called with the step and its loss at every look."""


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
    log: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check(self.log)
        if self.save_every < 1:
            raise ValueError(f"a checkpoint is saved every 1 step or more; got {self.save_every}")


class Session:
    """A run in progress: what is in memory, and the folder it is kept in.

    One that is `stacked` is not compiled: the stack is, as a whole.
    """

    def __init__(
        self,
        plan: Plan,
        accelerator: Accelerator,
        settings: Settings,
        at_once: int = 1,
        stacked: bool = False,
    ) -> None:
        self.plan, self.accelerator, self.settings = plan, accelerator, settings
        self.at_once, self.stacked = at_once, stacked
        self.pending: list[Tensor] = []
        self.cell = plan.trained
        self.folder = plan.folder(settings.out)
        self.lock = Lock(self.folder)
        self.metrics = Metrics(self.folder / "metrics.jsonl")
        self.log = NO_LOG
        self.seconds, self.started = 0.0, time.perf_counter()
        self.first_loss = math.nan
        budget, device = self.cell.training.budget, accelerator.device
        process, processes = accelerator.process_index, accelerator.num_processes
        if budget.batch % processes:
            raise ValueError(f"a batch of {budget.batch} is not {processes} equal shares")
        self.share = SharedDraws(process, processes) if processes > 1 else None
        own = budget.batch // processes
        ahead = AHEAD if device.type == "cuda" else 1
        world, seed = self.cell.training.world, plan.seed
        self.stream = Stream(world, own, seed, device, process, processes, ahead=ahead)
        self.generators = {
            name: stream(plan.seed, purpose, device)
            for name, purpose in (("noise", TRAINING), ("condition", CONDITIONING))
        }
        self.weights = Weights.of(
            self.cell.training.untrained(seed, device), budget.ema, budget.weight_decay
        )
        denoiser, average = self.weights.denoiser, self.weights.average.module
        if device.type == "cuda":
            for module in (denoiser, average):
                channels_last(module)
            # Not the average: compiling it takes longer than a measurement.
            if settings.compiled:
                # Anew for each run: after eight networks of a kind torch would give up on it.
                torch.compiler.reset()
                if not stacked:
                    denoiser.compile()
        self.called = accelerator.prepare_model(denoiser)
        # Preparing puts mixed precision into the very module: what stood there before is kept.
        self.plain = average.forward
        self.averaged = accelerator.prepare_model(average, evaluation_mode=True)

    def open(self) -> None:
        """Start the run's folder, or go on from its newest checkpoint."""
        first = self.accelerator.is_main_process
        if first:
            self.lock.take()
            described = self.folder / "training.json"
            if described.exists():
                self.plan.check(_facts(described), described)
            else:
                write_text(described, json.dumps(self.plan.facts, indent=2) + "\n")
            tidy(self.folder)
        self.accelerator.wait_for_everyone()
        if found := checkpoints(self.folder):
            self._resume(found)
        elif first:
            self.metrics.path.unlink(missing_ok=True)
        if first and kept(self.plan, self.folder) is None:
            self.log = opened(self.settings.log, self.plan, self.folder, self.stream.step)

    def _resume(self, found: list[Path]) -> None:
        try:
            checkpoint = Checkpoint.load(found[0])
        except ValueError as error:
            older = f"; remove it to go on from {found[1].name}" if found[1:] else ""
            raise ValueError(f"{error}{older}") from error
        self.plan.check(checkpoint.facts, found[0])
        if self.accelerator.is_main_process:
            self.metrics.keep(checkpoint.facts["metrics"])
        with naming(found[0]):
            unpack(checkpoint.tensors, self.weights, self.generators)
        self.stream = self.stream.resumed(checkpoint.facts["stream"])
        self.seconds, self.first_loss = (checkpoint.facts[k] for k in ("seconds", "first_loss"))

    @property
    def left(self) -> range:
        """The steps that are left."""
        return range(self.stream.step + 1, self.cell.training.budget.steps + 1)

    @property
    def compiles(self) -> bool:
        """Whether the network is to be compiled: on a GPU, unless that is not wanted."""
        return self.settings.compiled and self.accelerator.device.type == "cuda"

    def step(self) -> Step:
        """Return what takes a step."""
        training = self.cell.training
        average: Any = None
        if isinstance(training.objective, JepaObjective):
            # As an objective that learns from it calls it, at every step.
            alone = self.compiles and not self.stacked
            average = torch.compile(self.averaged) if alone else self.averaged
        return Step(
            self.weights,
            training.objective,
            training.budget.clip,
            self.generators["noise"],
            self.called,
            self.share,
            average,
            training.view if self.stacked else self._seen,
        )

    def examples(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Return the batches to come: images and conditions."""
        for batch in self.stream:
            with self.share or nullcontext():
                generator = self.generators["condition"]
                condition = self.cell.training.conditioner(batch.scenes, generator)
            yield batch.image, condition

    def took(self, index: int, loss: Tensor, stop: bool) -> None:
        """Look, measure and save after this step, when it is time."""
        self.pending.append(loss)
        if self._due(index, stop):
            stopping = self._look(index, self.pending, stop)
            self._keep(index, stopping)
            self.pending = []

    def _seen(self, image: Tensor) -> Tensor:
        """Return what the model sees of pictures."""
        seen = self.cell.training.view(image)
        if seen.is_cuda and seen.dim() == 4:
            # Convolutions are faster with the channels of a pixel side by side.
            seen = seen.contiguous(memory_format=torch.channels_last)
        return seen

    def _saves(self, step: int) -> bool:
        return step % self.settings.save_every == 0 or step == self.cell.training.budget.steps

    def _due(self, step: int, stop: bool) -> bool:
        """Tell whether to look after this step; processes must agree, so one alone cannot stop."""
        if step % LOOK == 0 or step in self.cell.milestones:
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
        # `not <` also catches NaN; the loss of a likelihood can start below zero.
        limit = self.first_loss + DIVERGED * abs(self.first_loss)
        bad = [line for line in lines if not line["loss"] < limit]
        if self.accelerator.is_main_process:
            good = lines[: lines.index(bad[0])] if bad else lines
            self.metrics.append(good)
            for line in good:
                rate = self.cell.training.budget.rate(line["step"])
                self.log.numbers(line["step"], {"loss": line["loss"], "learning_rate": rate})
            self.settings.watch(step, losses[-1])
        if bad:
            self._give_up(bad[0]["step"], f"the loss is {bad[0]['loss']:g}")
        return stopping > 0

    def _keep(self, step: int, stopping: bool) -> None:
        """Measure at a milestone, save when it is time, and stop when that was requested."""
        first = self.accelerator.is_main_process
        if first and step in self.cell.milestones:
            found = joined(self._measured(step))
            values = {
                name: [each.value, each.low, each.high, each.n]
                for name, each in found.measurements.items()
            }
            self.metrics.append([{"step": step, "measurements": values}])
            self.log.measured(step, found.measurements)
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
            "metrics": self.metrics.state,
            "first_loss": self.first_loss,
            "seconds": self._elapsed(),
        }
        Checkpoint(tensors, facts).save(path_of(self.folder, step))
        tidy(self.folder)

    def _give_up(self, step: int, what: str) -> None:
        last = checkpoints(self.folder)[:1]
        good = f"the last good checkpoint is {last[0]}" if last else "there is no checkpoint yet"
        rate = self.cell.training.budget.learning_rate / 3
        says = f"{self.folder}: {what} at step {step}; {good}"
        raise Diverged(f"{says}; try --learning-rate {rate:.2g}")

    def keep_time(self, at_once: int) -> None:
        """Count a share of the time from now on: that of so many runs, or none while others run."""
        self.seconds, self.started = self._elapsed(), time.perf_counter()
        self.at_once = at_once

    def _elapsed(self) -> float:
        passed = time.perf_counter() - self.started
        return self.seconds + (passed / self.at_once if self.at_once else 0.0)

    def _measured(self, step: int) -> list[Findings]:
        device, seed = self.accelerator.device, self.plan.seed
        model = Model(self.cell, self.averaged, device, seed, plain=self.plain)
        each = model.each(self.cell.measures)
        for name, images in joined(each).images.items():
            (self.folder / "samples").mkdir(exist_ok=True)
            sheet = tiled(pictures(images), _COLUMNS)
            write_bytes(self.folder / "samples" / f"{name}-{step}.png", png(sheet))
            self.log.picture(step, name, sheet)
        return each

    def finish(self) -> Kept:
        """Measure the trained model and write the results, unless that is done."""
        self.keep_time(1)
        if (done := kept(self.plan, self.folder)) is not None:
            return done
        curves = self.metrics.curves()
        parts = [("", Findings({}, curves))]
        each = self._measured(self.cell.training.budget.steps)
        for measure, found in zip(self.cell.measures, each, strict=True):
            reader = getattr(measure, "reader", "")
            parts.append((reader, found))
            if isinstance(measure, SumsUp):
                over = measure.over_training({**curves, **found.curves})
                parts.append((reader, Findings(over)))
        final = joined([found for _, found in parts]).measurements
        self.log.measured(self.cell.training.budget.steps, final)
        return keep(self.plan, self.folder, parts, self.accelerator.device, self._elapsed())


def _facts(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
