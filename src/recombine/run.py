"""From an experiment to its record: the one chapter that knows files, devices, clocks and seeds.

A run is a folder. Whatever stops it, the same command goes on from its last checkpoint, and on a
CPU the weights and metrics are, to the bit, those of a run that was never stopped.
"""

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, InitProcessGroupKwargs

from recombine.checkpoint import Checkpoint, checkpoints, unpack_average
from recombine.experiment import Plan, Trained
from recombine.report.files import naming
from recombine.report.record import Record
from recombine.sample.heun import Progress, unwatched
from recombine.session import Diverged, Interrupted, Session, Settings, Watch, measured, untrained
from recombine.train import interruptible

__all__ = [
    "AT_ONCE",
    "Diverged",
    "Interrupted",
    "Session",
    "Settings",
    "Watch",
    "loaded",
    "machine",
    "measured",
    "own_stream",
    "run",
    "together",
]

AT_ONCE = 8
"""Runs that may be trained at once: torch compiles no more networks of a kind."""


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
    return together([plan], accelerator, [settings])[0]


def together(
    plans: Sequence[Plan], accelerator: Accelerator, settings: Sequence[Settings]
) -> list[Record | None]:
    """Run several plans at once, a step of each in turn; their numbers are those of runs alone.

    Small networks leave much of a GPU idle: there each run has a stream of its own. A run that
    diverges is told when the others are done.
    """
    folders = [str(plan.folder(each.out)) for plan, each in zip(plans, settings, strict=True)]
    if twice := [each for each in folders if folders.count(each) > 1]:
        raise ValueError(f"one run at a time writes into a folder; got {twice[0]} twice")
    if not 1 <= len(plans) <= AT_ONCE:
        raise ValueError(f"1 to {AT_ONCE} runs are trained at once; got {len(plans)}")
    made = zip(plans, settings, strict=True)
    sessions = [Session(plan, accelerator, each, len(plans)) for plan, each in made]
    for session in sessions:
        session.open()
    try:
        with interruptible() as stop:
            diverged = _in_turn(sessions, stop)
        done = [session for session in sessions if session not in diverged]
        first = accelerator.is_main_process
        records = [session.finish() if first else None for session in done]
    except KeyboardInterrupt as stopped:
        last = [path for session in sessions for path in checkpoints(session.folder)[:1]]
        at = f"saved as {', '.join(map(str, last))}" if last else "nothing is saved yet"
        raise Interrupted(f"stopped: {at}; the same command goes on from there") from stopped
    for error in diverged.values():
        raise error
    accelerator.wait_for_everyone()
    del sessions, session, done
    accelerator.free_memory()
    return records


def _in_turn(sessions: Sequence["Session"], stop: threading.Event) -> dict["Session", Diverged]:
    """Take a step of each in turn; asked to stop, all save first. Return those that diverged."""
    device = sessions[0].accelerator.device
    diverged: dict[Session, Diverged] = {}
    interrupted = None
    left = {each: (each.steps(stop), own_stream(device, len(sessions))) for each in sessions}
    while left:
        for session, (steps, here) in tuple(left.items()):
            try:
                with here:
                    next(steps)
                continue
            except StopIteration:
                pass
            except Interrupted as error:
                interrupted = error
            except Diverged as error:
                diverged[session] = error
            del left[session]
            session.keep_time(0)
            for other in left:
                other.keep_time(len(left))
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    if interrupted:
        raise interrupted
    return diverged


def own_stream(device: torch.device, at_once: int) -> AbstractContextManager[Any]:
    """Return where one of several runs queues its work: behind what a GPU was given before."""
    if device.type != "cuda" or at_once == 1:
        return nullcontext()
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    return torch.cuda.stream(stream)


def loaded(
    plan: Plan, path: Path, accelerator: Accelerator, watch: Progress = unwatched
) -> Trained:
    """Return the model that the averaged weights of a checkpoint make."""
    checkpoint = Checkpoint.load(path)
    plan.check(checkpoint.facts, path)
    denoiser = untrained(plan, accelerator.device)
    with naming(path):
        unpack_average(checkpoint.tensors, denoiser)
    # Convolutions are faster with the channels of a pixel side by side, on a CPU too.
    denoiser.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    plain = denoiser.forward
    denoiser = accelerator.prepare_model(denoiser.eval(), evaluation_mode=True)
    return Trained(plan.experiment, denoiser, accelerator.device, watch, plain)
