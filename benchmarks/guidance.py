"""How much guidance do the local models need? Two told places side by side, by its weight.

    python benchmarks/guidance.py OUT.json [SAMPLES [WEIGHT,...]]
    python benchmarks/guidance.py results/guidance.json 64 1,3      # minutes on a CPU

Both places hit, and how varied the colours of what is drawn there are: the perplexity of the law of
colours, 8 if all are equally frequent.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from recombine import run as runner
from recombine import zoo
from recombine.commands.measure import plan_of
from recombine.experiment import Plan
from recombine.experiments.length_generalization import requested
from recombine.measure.length import Request
from recombine.measure.matching import RADIUS, matched
from recombine.measurement import Measurement
from recombine.report.origin import device_name
from recombine.report.record import Record
from recombine.sample.guidance import Guidance
from recombine.worlds.clevr import Clevr

MODELS = ("grid_one_local", "list_all_local")
SEED = 777
"""The scenes; no training and no other measurement has this seed."""
CANDIDATES = 25
"""Scenes looked at for each that is asked for: one in fourteen has its objects side by side."""
USUAL = ("", "256", "1,2,3,4")
COLOUR = [factor.name for factor in Clevr.factors].index("colour")


def main(out: Path, samples: int = 256, weights: Sequence[float] = (1, 2, 3, 4)) -> None:
    """Measure both models at every weight and write a record."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    started, found = time.perf_counter(), {}
    for name in MODELS:
        plan = plan_of(zoo.path(name))
        request = side_by_side(plan, samples, device)
        for weight in weights:
            measured = asked(plan, name, request, weight, device)
            found |= {f"{key}@{name}@{weight:g}": each for key, each in measured.items()}
            print(name, weight, {key: each.value for key, each in measured.items()}, flush=True)
    Record(
        question="Told of two places side by side, how often are both hit, by weight of guidance?",
        command=f"python benchmarks/guidance.py {out} {samples} {','.join(map(str, weights))}",
        experiment=f"{MODELS}, weights {tuple(weights)}, {samples} samples, seed {SEED}",
        seed=SEED,
        device=device_name(device),
        seconds=time.perf_counter() - started,
        measurements=found,
        headline=tuple(f"both_hit@{name}@{weight:g}" for name in MODELS for weight in weights),
    ).save(out)


def side_by_side(plan: Plan, samples: int, device: torch.device) -> Request:
    """Return requests for two objects whose told places are nearer than two hit radii."""
    world, encode = plan.experiment.world, plan.experiment.conditioner.encode
    generator = torch.Generator(device).manual_seed(5)
    many = CANDIDATES * samples
    every = requested(world, encode, 2, many, generator, SEED)  # type: ignore[arg-type]
    near = (every.place[:, 0] - every.place[:, 1]).norm(dim=1) < 2 * RADIUS
    parts: list[Tensor] = [
        each[near][:samples] for each in (every.place, every.present, every.condition, every.image)
    ]
    return Request(*parts)


def asked(
    plan: Plan, name: str, request: Request, weight: float, device: torch.device
) -> dict[str, Measurement]:
    """Draw under guidance of this weight, and count."""
    sampler = replace(plan.experiment.sampler, guidance=Guidance(torch.zeros_like, weight))
    guided = replace(plan, experiment=replace(plan.experiment, sampler=sampler))
    trained = runner.loaded(guided, zoo.path(name), runner.machine(device))
    with torch.inference_mode():
        images = trained.images(request.condition, torch.Generator(device).manual_seed(1))
        read = zoo.detector()(images)
    pairs = matched(read.place, read.present, request.place, request.present, RADIUS)
    hit = pairs >= 0
    rows = torch.arange(len(pairs), device=pairs.device)[:, None]
    colours = read.concepts[rows, pairs.clamp(min=0)][hit][:, COLOUR]
    share = torch.bincount(colours.cpu(), minlength=8).double() / max(len(colours), 1)
    varied = float(torch.special.entr(share).sum().exp())
    return {
        "both_hit": Measurement.rate(int(hit.all(dim=1).sum()), len(hit)),
        "hit": Measurement.rate(int(hit.sum()), hit.numel()),
        "colours": Measurement(varied, None, None, n=len(colours)),
    }


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        sys.exit("usage: python benchmarks/guidance.py OUT.json [SAMPLES [WEIGHT,...]]")
    given = dict(enumerate(sys.argv[1:]))
    out, samples, weights = (given.get(at, usual) for at, usual in enumerate(USUAL))
    main(Path(out), int(samples), [float(weight) for weight in weights.split(",")])
