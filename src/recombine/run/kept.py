"""The results of a run: rows in its folder, and a note of what was measured."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from recombine.measure.subject import Findings, joined
from recombine.measurement import Measurement, Number
from recombine.report.files import write_text
from recombine.report.origin import device_name
from recombine.results import Origin, Results, read, write
from recombine.results.findings import notes, rows
from recombine.results.store import NAME
from recombine.run.plan import Plan
from recombine.spelling import spelled
from recombine.study import Cell

DECLARED = "measured.json"


@dataclass(frozen=True)
class Kept:
    """What came out of a run: its final numbers, and the file that has all of them."""

    path: Path
    measurements: Mapping[str, Measurement]
    device: str
    seconds: Number
    alarms: tuple[str, ...] = ()

    @classmethod
    def of(cls, found: Results, path: Path) -> "Kept":
        """Return what the rows of one run say."""
        final = {
            row.measurement: Measurement(row.value, row.low, row.high, row.n or 1)
            for row in found.rows
            if row.step is None
        }
        origin = found.origin
        return cls(path, final, origin.device, origin.seconds, origin.notes)


def place(plan: Plan, folder: Path) -> Path:
    """Return where results lie: in the run's folder, or below it for a cell that shares it."""
    return folder if plan.cell == plan.shared else folder / plan.cell


def kept(plan: Plan, folder: Path) -> Kept | None:
    """Return the results that are there, when the same was measured."""
    here = place(plan, folder)
    noted = here / DECLARED
    if not (here / NAME).exists() or not noted.exists():
        return None
    if json.loads(noted.read_text()) != declared(plan):
        return None
    (found,) = read(here / NAME)
    return Kept.of(found, here / NAME)


def keep(
    plan: Plan,
    folder: Path,
    parts: Sequence[tuple[str, Findings]],
    device: torch.device,
    seconds: float,
) -> Kept:
    """Write what each reader found; the note of what was measured comes last."""
    found = joined([each for _, each in parts])
    here = place(plan, folder)
    (here / DECLARED).unlink(missing_ok=True)
    origin = Origin(
        study=plan.study,
        cell=plan.cell,
        seed=plan.seed,
        device=device_name(device),
        levels=plan.levels,
        seconds=round(seconds, 1),
        command=plan.command,
        notes=notes(found),
    )
    arrays = {name: value.cpu().numpy() for name, value in found.arrays.items()}
    every = {(row.measurement, row.step): row for by, each in parts for row in rows(each, by)}
    results = Results(origin, tuple(every.values()))
    path = write(results, here, arrays)
    write_text(here / DECLARED, json.dumps(declared(plan), indent=2) + "\n")
    return Kept.of(results, path)


def declared(plan: Plan) -> dict[str, str]:
    """Return in words what was measured of what: another declaration is measured anew."""
    cell = plan.declared
    # What a user's file computes or measures is known by its text alone.
    file = {"file": plan.file.digest} if plan.file else {}
    if not isinstance(cell, Cell):
        return {**file, "computation": spelled(cell)}
    return {
        **file,
        "training": cell.training.digest,
        "sampler": spelled(cell.sampler),
        "measures": spelled(cell.measures),
        "milestones": spelled(cell.milestones),
    }
