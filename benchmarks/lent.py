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
import re
import sys
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from accelerate import Accelerator

from recombine import run as runner
from recombine import views, zoo
from recombine.checkpoint import checkpoints
from recombine.experiment import Experiment, Plan
from recombine.experiments import declared
from recombine.report.record import Record

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
        plans = [plan for each in runs.split("+") for plan in seeded(each, tiny)]
        if len(plans) > runner.AT_ONCE:
            most = runner.AT_ONCE
            raise ValueError(f"1 to {most} runs are trained at once; got {len(plans)} in {text}")
        return cls(tuple(plans), float(seconds or 0))

    def __str__(self) -> str:
        return " ".join(label(plan) for plan in self.plans)


def seeded(text: str, tiny: bool) -> list[Plan]:
    """Read "objective:dit_vq:0-2"."""
    match = re.fullmatch(r"(\w+):(\w+):(\d+)(?:-(\d+))?", text)
    if not match:
        raise ValueError(f"a run is EXPERIMENT:VARIANT:SEEDS, such as jepa:small:1-3; got {text!r}")
    name, variant, first, last = match.groups()
    experiment = declared().get(name, {}).get(variant)
    if not isinstance(experiment, Experiment):
        raise ValueError(f"{name}:{variant} is not a trained experiment (see recombine list)")
    experiment = experiment.tiny() if tiny else experiment
    seeds = range(int(first), int(last or first) + 1)
    if not seeds:
        raise ValueError(f"seeds are a number or a range such as 1-3; got {first}-{last}")
    return [Plan(name, variant, experiment, seed, tiny) for seed in seeds]


def label(plan: Plan) -> str:
    """Return what a run's record is called in results/."""
    return f"{plan.name}_{plan.variant}_{plan.seed}"


def shipping(texts: Sequence[str]) -> dict[str, str]:
    """Read "autoencoder_kl_all_0=tokenizer_kl_all": a run, and its name in the zoo."""
    if wrong := [each for each in texts if not re.fullmatch(r"\w+=\w+", each)]:
        raise ValueError(f"--ship is RUN=NAME; got {wrong[0]!r}")
    return dict(each.split("=") for each in texts)


def trained(group: Group, accelerator: Accelerator, settings: runner.Settings) -> list[Plan]:
    """Train a group and say what came out; return the runs that are done."""
    try:
        for plan in group.plans:
            views.check(plan.experiment.view)
        runner.together(group.plans, accelerator, [settings] * len(group.plans))
    except (runner.Diverged, ValueError) as error:
        print(f"  {error}", flush=True)
    done = []
    for plan in group.plans:
        path = plan.folder(settings.out) / "record.json"
        if path.exists():
            record = Record.load(path)
            found = {name: record.measurements[name].value for name in record.headline}
            told = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
            print(f"  {label(plan)}: {told}; {record.seconds:.0f} s", flush=True)
            done.append(plan)
    return done


def shipped(plan: Plan, runs: Path, name: str, folder: Path | None = None) -> Path:
    """Pack the weights of a run under a name, into the zoo or another folder."""
    where = plan.folder(runs)
    return zoo.ship(checkpoints(where)[0], where / "record.json", name, folder)


def pack(plans: Sequence[Plan], runs: Path, out: Path, keep: Sequence[str]) -> None:
    """Write all that is done, weights of those that are kept, as pieces of one archive."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for plan in plans:
            folder, name = plan.folder(runs), label(plan)
            archive.add(folder / "record.json", f"{name}.json")
            if (folder / "samples").exists():
                archive.add(folder / "samples", f"samples/{name}")
            if name in keep:
                archive.add(shipped(plan, runs, name, runs), f"{name}.safetensors")
    data = content.getvalue()
    for at in range(0, len(data), PIECE):
        (out / f"pack.{at // PIECE:03}").write_bytes(data[at : at + PIECE])


def main(options: argparse.Namespace) -> None:
    """Run group after group."""
    started = time.perf_counter()
    groups = [Group.read(text, options.tiny) for text in options.groups]
    names = shipping(options.ship)
    planned = [label(plan) for group in groups for plan in group.plans]
    if unknown := [each for each in (*options.keep, *names) if each not in planned]:
        raise ValueError(f"{unknown[0]} is none of the runs that are asked for: {planned[0]}, ...")
    options.out.mkdir(parents=True, exist_ok=True)
    if left := sorted(options.out.glob("pack.*")):
        raise ValueError(f"{left[0]} is there already; choose another --out or remove it")
    accelerator = runner.machine(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    settings = runner.Settings(options.runs, save_every=10**9, compiled=not options.eager)
    done: list[Plan] = []
    for group in groups:
        passed = time.perf_counter() - started
        if passed + group.seconds > options.limit:
            print(f"{passed:.0f} s: no time left for {group}", flush=True)
            continue
        print(f"{passed:.0f} s: {group}", flush=True)
        new = trained(group, accelerator, settings)
        for plan in new:
            if label(plan) in names:
                shipped(plan, options.runs, names[label(plan)])
        done += new
        pack(done, options.runs, options.out, options.keep)
    print(f"{time.perf_counter() - started:.0f} s in all", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("groups", nargs="+", metavar="RUNS=SECONDS")
    parser.add_argument("--out", type=Path, required=True, help="folder for the pieces")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder for the runs")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds in all")
    parser.add_argument("--keep", nargs="*", default=[], metavar="RUN")
    parser.add_argument("--ship", nargs="*", default=[], metavar="RUN=NAME")
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    try:
        main(parser.parse_args())
    except ValueError as error:
        sys.exit(f"lent.py: {error}")
