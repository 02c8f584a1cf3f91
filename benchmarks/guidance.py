"""How much guidance does the local model need? Two adjacent requested places, by its weight.

    python -m benchmarks.guidance 64 1 3        # samples, weights; minutes on a CPU

Printed are how often both places are hit, and how varied the colours found there are: the
perplexity of their distribution, 8 if all are equally frequent. The numbers on record (study
`guidance`) are of this model and of `list_all-local`, which is no longer shipped.
"""

import sys
from dataclasses import replace

import torch

from recombine import load, zoo
from recombine.measure.length import Request
from recombine.measure.matching import RADIUS, matched
from recombine.measure.requests import requested
from recombine.measurement import Measurement
from recombine.report.table import quoted
from recombine.run import Model
from recombine.sample.guidance import Guidance
from recombine.worlds.clevr import Clevr

SEED = 777
"""The scenes; no training and no other measurement has this seed."""
CANDIDATES = 25
"""Scenes drawn for each that is kept: one in fourteen has its two objects side by side."""
COLOUR = [factor.name for factor in Clevr.factors].index("colour")


def side_by_side(model: Model, samples: int) -> Request:
    """Return requests for two objects whose places are nearer than two radii of a hit."""
    training, generator = model.training, torch.Generator().manual_seed(5)
    many = CANDIDATES * samples
    every = requested(training.world, training.conditioner.encode, 2, many, generator, SEED)
    near = (every.place[:, 0] - every.place[:, 1]).norm(dim=1) < 2 * RADIUS
    parts = (every.place, every.present, every.condition, every.image)
    return Request(*(part[near][:samples] for part in parts))


def measured(model: Model, request: Request, weight: float) -> dict[str, Measurement]:
    """Draw with guidance of this weight, and count."""
    sampler = replace(model.cell.sampler, guidance=Guidance(torch.zeros_like, weight))
    guided = replace(model, cell=replace(model.cell, sampler=sampler))
    images = guided.images(request.condition, torch.Generator().manual_seed(1))
    found = zoo.detector()(images)
    pairs = matched(found.place, found.present, request.place, request.present, RADIUS)
    hit, rows = pairs >= 0, torch.arange(len(pairs))[:, None]
    colours = found.concepts[rows, pairs.clamp(min=0)][hit][:, COLOUR]
    share = torch.bincount(colours, minlength=8).double() / max(len(colours), 1)
    return {
        "both_hit": Measurement.rate(int(hit.all(dim=1).sum()), len(hit)),
        "hit": Measurement.rate(int(hit.sum()), hit.numel()),
        "colours": Measurement(
            float(torch.special.entr(share).sum().exp()), None, None, len(colours)
        ),
    }


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python -m benchmarks.guidance SAMPLES WEIGHT [WEIGHT ...]")
    with torch.inference_mode():
        local = load("zoo:grid_one_local")
        wanted = side_by_side(local, int(sys.argv[1]))
        for text in sys.argv[2:]:
            for name, each in measured(local, wanted, float(text)).items():
                print(f"weight {text}: {name} {quoted(each)}", flush=True)
