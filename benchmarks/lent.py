"""Train groups of runs on a machine that is lent for minutes, and pack each group when it is done.

    python benchmarks/lent.py --out out --limit 575 \
        objective:dit_vq_small:1-3+objective:maskgit_small:1-3=140 objective:dit_vq:0=150

The runs of a group, EXPERIMENT:VARIANT:SEEDS joined by "+", are trained at once; "=140" is how many
seconds it is thought to take. A group that would end after the limit is not begun. `--eager` does
not compile, `--keep` names runs whose weights are wanted too (objective_dit_vq_0), `--ship
RUN=NAME` puts the weights of one into the zoo for the groups after it. All that is done comes back
as pieces that some ways of copying files allow: cat out/pack.* | tar x.
"""

import argparse
import io
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from recombine import run as runner
from recombine import views, zoo
from recombine.checkpoint import checkpoints
from recombine.experiment import Experiment, Plan
from recombine.experiments import declared

PIECE = 15_000_000
"""Bytes of a piece."""


@dataclass(frozen=True)
class Group:
    """Runs that are trained at once, and how many seconds that may take."""

    plans: tuple[Plan, ...]
    seconds: float

    @classmethod
    def read(cls, text: str, tiny: bool) -> "Group":
        """Read "objective:dit_vq:0-2+objective:maskgit:0=300"."""
        runs, _, seconds = text.partition("=")
        plans = []
        for each in runs.split("+"):
            name, variant, seeds = each.split(":")
            experiment = declared()[name][variant]
            assert isinstance(experiment, Experiment), f"{name}:{variant} is not trained"
            experiment = experiment.tiny() if tiny else experiment
            first, _, last = seeds.partition("-")
            chosen = range(int(first), int(last or first) + 1)
            plans += [Plan(name, variant, experiment, seed, tiny) for seed in chosen]
        return cls(tuple(plans), float(seconds or 0))


def label(plan: Plan) -> str:
    """Return what a run's record is called in results/."""
    return f"{plan.name}_{plan.variant}_{plan.seed}"


def packed(plans: list[Plan], runs: Path, out: Path, keep: set[str]) -> None:
    """Write all that is done, weights of those that are kept, as pieces of one archive."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for plan in plans:
            folder, name = plan.folder(runs), label(plan)
            archive.add(folder / "record.json", f"{name}.json")
            if (folder / "samples").exists():
                archive.add(folder / "samples", f"samples/{name}")
            if name in keep:
                zoo.ship(checkpoints(folder)[0], folder / "record.json", name, runs)
                archive.add(runs / f"{name}.safetensors", f"{name}.safetensors")
    data = content.getvalue()
    for at in range(0, len(data), PIECE):
        (out / f"pack.{at // PIECE:03}").write_bytes(data[at : at + PIECE])


def main(options: argparse.Namespace) -> None:
    """Run group after group."""
    started = time.perf_counter()
    runs = options.out / "runs" if options.runs is None else options.runs
    options.out.mkdir(parents=True, exist_ok=True)
    shipped = dict(each.split("=") for each in options.ship)
    groups = [Group.read(text, options.tiny) for text in options.groups]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    accelerator = runner.machine(device)
    done: list[Plan] = []
    for group in groups:
        names = " ".join(label(plan) for plan in group.plans)
        passed = time.perf_counter() - started
        if passed + group.seconds > options.limit:
            print(f"{passed:.0f} s: no time left for {names}", flush=True)
            continue
        print(f"{passed:.0f} s: {names}", flush=True)
        for plan in group.plans:
            views.check(plan.experiment.view)
        settings = runner.Settings(runs, save_every=10**9, compiled=not options.eager)
        try:
            records = runner.together(group.plans, accelerator, [settings] * len(group.plans))
        except runner.Diverged as error:
            print(f"  {error}", flush=True)
            continue
        for plan, record in zip(group.plans, records, strict=True):
            assert record is not None
            found = {name: record.measurements[name].value for name in record.headline}
            told = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
            print(f"  {label(plan)}: {told}; {record.seconds:.0f} s", flush=True)
            if name := shipped.get(label(plan)):
                folder = plan.folder(runs)
                zoo.ship(checkpoints(folder)[0], folder / "record.json", name)
        done += group.plans
        packed(done, runs, options.out, set(options.keep))
    print(f"{time.perf_counter() - started:.0f} s in all", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", nargs="+", metavar="RUNS=SECONDS")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--limit", type=float, default=float("inf"))
    parser.add_argument("--keep", nargs="*", default=[])
    parser.add_argument("--ship", nargs="*", default=[])
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    main(parser.parse_args())
