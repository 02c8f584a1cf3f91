"""Do other readers agree on what a model composes? The probe, a linear one, and nearest renders.

    python benchmarks/readers.py results/readers_maskgit.json zoo:maskgit_moving
    python benchmarks/readers.py results/readers_maskgit_surest.json zoo:maskgit_moving --noise 0
    python benchmarks/readers.py results/readers_dit_vq.json objective:dit_vq

For models that were trained before the other two were asked beside the probe, and for MaskGIT with
another noise in the order in which tokens are shown (0: the surest first; 1e9: any order). Of a
model that is not shipped, the run of seed 0 is read under runs/.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

from recombine import run as runner
from recombine import zoo
from recombine.checkpoint import checkpoints
from recombine.commands.measure import plan_of
from recombine.experiments.objective import Composition
from recombine.report.origin import device_name
from recombine.report.record import Record
from recombine.sample.unmask import Unmask

HEADLINE = ("accuracy@level2", "accuracy_linear@level2", "accuracy_nearest@level2")


def main(out: Path, name: str, noise: float | None = None) -> None:
    """Measure one model and write a record."""
    if not out.resolve().parent.is_dir():
        raise ValueError(f"{out.parent} is not there; expected a folder to write {out.name} to")
    device, started = torch.device("cuda" if torch.cuda.is_available() else "cpu"), time.time()
    path = weights(name)
    plan = plan_of(path)
    question, words = f"Do other readers agree on what `{plan.variant}` composes?", [str(out), name]
    if noise is not None:
        sampler = plan.experiment.sampler
        if not isinstance(sampler, Unmask):
            raise ValueError(f"{name} has no order of tokens; --noise is for MaskGIT, MAR and GIVT")
        changed = replace(plan.experiment, sampler=replace(sampler, noise=noise))
        plan = replace(plan, experiment=changed)
        question = f"And if `{plan.variant}` shows tokens in an order with a noise of {noise:g}?"
        words += ["--noise", f"{noise:g}"]
    if not any(isinstance(each, Composition) for each in plan.experiment.asks):
        raise ValueError(f"{name} is not asked for compositions")
    trained = runner.loaded(plan, path, runner.machine(device))
    found = runner.measured(trained, plan.seed)
    record = Record(
        question=question,
        command=f"python benchmarks/readers.py {' '.join(words)}",
        experiment=f"{plan.experiment.asks}, {plan.experiment.sampler}, {plan.name}:{plan.variant}",
        seed=plan.seed,
        device=device_name(device),
        seconds=time.time() - started,
        measurements=found.measurements,
        headline=HEADLINE,
    )
    record.save(out)
    print({each: record.measurements[each].value for each in HEADLINE})


def weights(name: str) -> Path:
    """Return the weights of a shipped model, or of a run."""
    of, _, which = name.partition(":")
    if of == "zoo":
        return zoo.path(which)
    found = checkpoints(Path("runs", of, which, "seed0"))
    if not found:
        raise ValueError(f"{name} is neither zoo:NAME nor a run; recombine run {name} makes one")
    return found[0]


if __name__ == "__main__":
    if len(sys.argv) not in (3, 5) or sys.argv[3:4] not in ([], ["--noise"]):
        sys.exit("usage: python benchmarks/readers.py OUT.json NAME [--noise NOISE]")
    try:
        main(Path(sys.argv[1]), sys.argv[2], *map(float, sys.argv[4:]))
    except ValueError as error:
        sys.exit(f"readers.py: {error}")
