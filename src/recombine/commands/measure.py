"""`recombine measure`: ask a trained model its experiment's questions again."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import tyro

from recombine import run as runner
from recombine.checkpoint import Checkpoint, checkpoints
from recombine.commands import choice
from recombine.commands.console import print_json
from recombine.commands.parse import UNSET
from recombine.commands.run import chosen_variants, seeded
from recombine.report.table import quoted


@dataclass(frozen=True)
class Options:
    """Measure the newest checkpoint of a run, or any checkpoint; nothing is written.

    Example: recombine measure runs/denoise_toy/base/seed0 --json
    """

    subject: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME_OR_CHECKPOINT")]
    """EXPERIMENT[:VARIANT], the folder of a run, or a checkpoint file."""
    seed: int = 0
    """Which run, when an experiment is named."""
    out: Path = Path("runs")
    """Folder of the runs, when an experiment is named."""
    device: Annotated[str | None, UNSET] = None
    """Where to measure: cpu, cuda, cuda:1 (default: the accelerator if there is one)."""
    json: bool = False
    """Print one JSON object and nothing else on standard output."""


def run(options: Options) -> None:
    """Print every measurement."""
    path = chosen_checkpoint(options)
    plan = plan_of(path)
    found = runner.measured(plan, path, runner.machine(choice.chosen_device(options.device)))
    if options.json:
        values = {name: asdict(each) for name, each in found.measurements.items()}
        print_json({"subject": str(path), "measurements": values})
        return
    for name, each in found.measurements.items():
        print(f"{name} {quoted(each)}")


def chosen_checkpoint(options: Options) -> Path:
    """Return the file that is meant."""
    place = Path(options.subject)
    if place.is_file():
        return place
    if not place.exists() and len(place.parts) > 1:
        raise ValueError(f"{place} is not there; expected an experiment, a run's folder or a file")
    if not place.is_dir():
        name, variant = chosen_variants(options.subject)[0]
        place = options.out / name / variant / f"seed{options.seed}"
    found = checkpoints(place) if place.is_dir() else []
    if not found:
        raise ValueError(f"{place} has no checkpoint; expected the folder of a run")
    return found[0]


def plan_of(path: Path) -> runner.Plan:
    """Return the run that a checkpoint is from, as it is declared today."""
    facts = Checkpoint.load(path).facts
    name, variant = chosen_variants(f"{facts['name']}:{facts['variant']}")[0]
    return seeded(name, variant, [facts["seed"]], facts["tiny"], facts["overrides"])[0]
