"""Which is the cheapest sampler whose answers are those of Heun's 18 steps? The demo's models.

    python -m benchmarks.sampler choose 24                       # 1 to 3 objects: an hour of a core
    python -m benchmarks.sampler confirm 24 today heun_7_bf16    # 1 to 10 objects: half an hour

What is drawn lies in runs/sampler and is not drawn again. Every sampler draws the same requests
from the same seeds, so that differences to today's are paired.

Declared before any run: six candidates, and the choice on 1 to 3 objects alone. The first rule was
the cheapest whose rate of success lies within today's interval. It would have taken six steps of
`multistep`, which hit as many requested places but draw 0.39 objects fewer an image with
`grid_one`, which adds objects of its own. So the rule was made stricter, still on 1 to 3 objects:
no paired 95 % interval of the difference in success, hits or count excludes 0. Of the candidates
only seven steps of Heun's method pass for `grid_all` and `grid_one`.
"""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from recombine import load, zoo
from recombine.measure.length import outcome
from recombine.measure.requests import requested, rule_of
from recombine.measurement import Measurement
from recombine.report.table import quoted
from recombine.run import Model
from recombine.sample.heun import Sampler, heun, multistep

MODELS = ("grid_all", "grid_one", "grid_one_local")
TODAY = (heun, 18, 0.002, False)
"""Solver, steps, the lowest noise level, and whether in bf16."""
CANDIDATES = {
    "today": TODAY,
    "multistep_12": (multistep, 12, 0.02, False),
    "multistep_12_bf16": (multistep, 12, 0.02, True),
    "multistep_10_bf16": (multistep, 10, 0.02, True),
    "multistep_8_bf16": (multistep, 8, 0.02, True),
    "multistep_6_bf16": (multistep, 6, 0.02, True),
    "heun_7_bf16": (heun, 7, 0.02, True),
}
SEED, NOISE = 4_242, 99
"""Of the scenes, which no training and no other measurement has, and of the noise."""
CACHE = Path("runs/sampler")


def sampling(model: Model, name: str) -> Model:
    """Return the model with one of the samplers."""
    solver, steps, lowest, short = CANDIDATES[name]
    guidance = model.cell.sampler.guidance
    sampler = Sampler(steps=steps, lowest=lowest, solver=solver, guidance=guidance)
    denoiser = model.denoiser

    def shortened(*call: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return denoiser(*call)

    cell = replace(model.cell, sampler=sampler)
    return replace(model, cell=cell, denoiser=shortened if short else denoiser)


def counted(subject: str, name: str, count: int, samples: int) -> dict[str, list[float]]:
    """Return of each image whether it succeeds, how many places are hit and how many are found."""
    path = CACHE / f"{subject}-{name}-{count}-{samples}.json"
    if path.exists():
        return json.loads(path.read_text())
    model = sampling(load(f"zoo:{subject}"), name)
    generator = torch.Generator().manual_seed(SEED)
    training = model.training
    encode = training.conditioner.encode
    request = requested(training.world, encode, count, samples, generator, SEED)
    started = time.perf_counter()
    images = model.images(request.condition, torch.Generator().manual_seed(NOISE)).clamp(0, 1)
    seconds = (time.perf_counter() - started) / samples
    found = outcome(zoo.detector()(images), request.place, request.present)
    good = found.hits == found.requested
    if rule_of(training).strict:
        good = good & (found.count <= found.requested)
    kept = {
        "success": good.int().tolist(),
        "hits": found.hits.tolist(),
        "count": found.count.tolist(),
        "seconds": [seconds],
    }
    CACHE.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kept))
    print(f"{path.stem}: success {sum(kept['success'])}/{samples}, {seconds:.3f} s", flush=True)
    return kept


def table(names: Sequence[str], counts: Sequence[int], samples: int) -> None:
    """Draw and count with every sampler; what lies in the cache is not drawn again."""
    for subject in MODELS:
        for name in names:
            for count in counts:
                counted(subject, name, count, samples)


def paired(names: Sequence[str], counts: Sequence[int], samples: int) -> Iterator[str]:
    """Yield of every sampler its success by number of objects, and its differences to today's."""
    for subject in MODELS:
        today = [counted(subject, "today", count, samples) for count in counts]
        for name in names:
            mine = [counted(subject, name, count, samples) for count in counts]
            rates = [Measurement.rate(int(sum(each["success"])), samples) for each in mine]
            by_count = zip(counts, rates, strict=True)
            yield f"{subject} {name}: " + "; ".join(f"{k}: {quoted(rate)}" for k, rate in by_count)
            for number in ("success", "hits", "count"):
                gaps = [
                    after - before
                    for new, old in zip(mine, today, strict=True)
                    for after, before in zip(new[number], old[number], strict=True)
                ]
                yield f"  {number} beside today's: {quoted(Measurement.mean(gaps))}"


if __name__ == "__main__":
    what, samples, *rest = sys.argv[1:]
    with torch.inference_mode():
        last, names = (3, [*CANDIDATES]) if what == "choose" else (10, rest)
        table(names, range(1, last + 1), int(samples))
        for found in paired(names, range(1, last + 1), int(samples)):
            print(found)
