"""From a computation to its record: a question answered without training, once."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from recombine.experiment import Computation, Watched, command_of, folder_of
from recombine.report.files import write_bytes
from recombine.report.origin import device_name
from recombine.report.picture import contact_sheet, png
from recombine.report.record import Record
from recombine.spelling import spelled

_COLUMNS = 8


def unwatched(done: int, of: int) -> None:
    """Let the parts of a computation pass in silence."""


@dataclass(frozen=True)
class Calculation:
    """One computation to be done: as it is declared, shrunk or overridden, and a seed."""

    name: str
    variant: str
    computation: Computation
    seed: int = 0
    tiny: bool = False
    overrides: Mapping[str, str] = field(default_factory=dict)
    """The fields that were set, as they were typed."""

    def folder(self, out: Path) -> Path:
        """Return where its record lies."""
        return folder_of(self, out)

    @property
    def command(self) -> str:
        """What to type to do it again."""
        return command_of(self)

    def kept(self, out: Path) -> Record | None:
        """Return the record that is already there, when it is of the same value."""
        path = self.folder(out) / "record.json"
        found = Record.load(path) if path.exists() else None
        return found if found and found.experiment == spelled(self.computation) else None


def compute(
    calculation: Calculation, device: torch.device, out: Path, watch: Watched = unwatched
) -> Record:
    """Return the record that is there, or compute and write it."""
    if kept := calculation.kept(out):
        return kept
    computation: Any = calculation.computation
    generator = torch.Generator(device).manual_seed(calculation.seed)
    started = time.perf_counter()
    found = computation(generator, watch)
    record = Record(
        question=computation.question,
        command=calculation.command,
        experiment=spelled(computation),
        seed=calculation.seed,
        device=device_name(device),
        seconds=time.perf_counter() - started,
        measurements=found.measurements,
        # Tiny ones measure too little for some numbers.
        headline=tuple(name for name in computation.headline if name in found.measurements),
        curves=found.curves,
    )
    folder = calculation.folder(out)
    for name, images in found.images.items():
        (folder / "samples").mkdir(parents=True, exist_ok=True)
        sheet = contact_sheet(images, _COLUMNS)
        write_bytes(folder / "samples" / f"{name}.png", png(sheet))
    record.save(folder / "record.json")
    return record
