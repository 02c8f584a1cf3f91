"""Do other readers agree on what a model composes? The probe, a linear one, and nearest renders.

    python benchmarks/readers.py zoo:maskgit results/readers_maskgit.json
    python benchmarks/readers.py runs/objective/dit_vq/seed0 results/readers_dit_vq.json

For models that were trained before the other two were asked beside the probe.
"""

import sys
import time
from pathlib import Path

import torch

from recombine import run as runner
from recombine import zoo
from recombine.checkpoint import checkpoints
from recombine.commands.measure import plan_of
from recombine.experiments.objective import Composition
from recombine.report.origin import device_name
from recombine.report.record import Record

HEADLINE = ("accuracy@level2", "accuracy_linear@level2", "accuracy_nearest@level2")


def main(name: str, out: Path) -> None:
    """Measure one model and write a record."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    path = zoo.path(name[4:]) if name.startswith("zoo:") else newest(Path(name))
    plan, started = plan_of(path), time.perf_counter()
    trained = runner.loaded(plan, path, runner.machine(device))
    with torch.no_grad():
        found = Composition()(trained, torch.Generator(device).manual_seed(plan.seed))
    record = Record(
        question=f"Do other readers agree on what `{plan.variant}` composes?",
        command=f"python benchmarks/readers.py {plan.name}:{plan.variant} --seed {plan.seed}",
        experiment=f"{Composition()} of {plan.name}:{plan.variant}",
        seed=plan.seed,
        device=device_name(device),
        seconds=time.perf_counter() - started,
        measurements=found.measurements,
        headline=HEADLINE,
    )
    record.save(out)
    print({each: record.measurements[each].value for each in HEADLINE})


def newest(where: Path) -> Path:
    """Return the weights of a run's folder, or the file itself."""
    return checkpoints(where)[0] if where.is_dir() else where


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python benchmarks/readers.py (zoo:NAME | RUN_FOLDER) OUT.json")
    main(sys.argv[1], Path(sys.argv[2]))
