"""A computation's results: a question answered without training, once."""

import time
from collections.abc import Sequence
from pathlib import Path

import torch

from recombine.report.files import write_bytes
from recombine.report.picture import pictures, png, tiled
from recombine.run.kept import Kept, keep, kept
from recombine.run.lock import Lock
from recombine.run.plan import Plan
from recombine.run.trackers import NO_LOG, opened
from recombine.study import Cell, Watched

_COLUMNS = 8


def unwatched(done: int, of: int) -> None:
    """Let the parts of a computation pass in silence."""


def compute(
    plan: Plan, device: torch.device, out: Path, watch: Watched = unwatched, log: Sequence[str] = ()
) -> Kept:
    """Return the results that are there, or compute and write them."""
    assert not isinstance(plan.declared, Cell)
    folder = plan.folder(out)
    lock, reported = Lock(folder), NO_LOG
    lock.take()
    try:
        if (done := kept(plan, folder)) is not None:
            return done
        reported = opened(log, plan, folder)
        started = time.perf_counter()
        found = plan.declared(torch.Generator(device).manual_seed(plan.seed), watch)
        for name, images in found.images.items():
            (folder / "samples").mkdir(parents=True, exist_ok=True)
            sheet = tiled(pictures(images), _COLUMNS)
            write_bytes(folder / "samples" / f"{name}.png", png(sheet))
            reported.picture(0, name, sheet)
        reported.measured(0, found.measurements)
        return keep(plan, folder, [("", found)], device, time.perf_counter() - started)
    finally:
        reported.finish()
        lock.release()
