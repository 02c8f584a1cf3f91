"""Ask trained weights what another experiment asks of the same model, and keep the answer.

    python benchmarks/asked.py results/drawn_places_maskgit_1.json FILE drawn_places:maskgit

FILE is a checkpoint or weights that were kept of a run. Time and device are those of the asking.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

from recombine import run as runner
from recombine.commands.measure import plan_of
from recombine.commands.run import chosen_variants, seeded
from recombine.report.origin import device_name
from recombine.report.record import Record
from recombine.spelling import spelled


def main(out: Path, path: Path, text: str) -> None:
    """Ask, and write a record."""
    if not out.resolve().parent.is_dir():
        raise ValueError(f"{out.parent} is not there; expected a folder to write {out.name} to")
    learned = plan_of(path)
    ((name, variant),) = chosen_variants(text)
    (plan,) = seeded(name, variant, [learned.seed], learned.tiny, {})
    asks = replace(plan.experiment, budget=learned.experiment.budget)
    if asks.digest != learned.experiment.digest:
        raise ValueError(f"{path} is of {learned.name}:{learned.variant}, not the model of {text}")
    device, started = torch.device("cuda" if torch.cuda.is_available() else "cpu"), time.time()
    asked = replace(plan, experiment=asks)
    found = runner.measured(runner.loaded(asked, path, runner.machine(device)), plan.seed)
    record = Record(
        question=asks.question,
        command=f"python benchmarks/asked.py {out} {path.name} {text}",
        experiment=spelled(asks),
        seed=plan.seed,
        device=device_name(device),
        seconds=time.time() - started,
        measurements=found.measurements,
        headline=tuple(each for each in asks.headline if each in found.measurements),
        curves=found.curves,
    )
    record.save(out)
    print({each: record.measurements[each].value for each in record.headline})


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python benchmarks/asked.py OUT.json FILE EXPERIMENT:VARIANT")
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
    except ValueError as error:
        sys.exit(f"asked.py: {error}")
