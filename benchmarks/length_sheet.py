"""Draw the picture of README: what shipped models draw beside true renders of the same scenes.

    python benchmarks/length_sheet.py docs/figures/length_samples.png

Takes two minutes on two cores. The scenes are the first of a seed, none picked: failures are as
visible as successes.
"""

import sys
from pathlib import Path

import torch

from recombine import zoo
from recombine.commands.tour import TOUR, Visit, drawn, figure, requests, true_renders
from recombine.report.files import write_bytes
from recombine.report.picture import png
from recombine.run import load

COUNTS, SAMPLES, SEED = (1, 3, 6, 9), 2, 1


def main(out: Path) -> None:
    """Draw a row of true renders and a row per model, on the CPU."""
    reader = zoo.detector()
    models = {stop: load(f"{zoo.PREFIX}{stop.name}") for stop in TOUR}
    with torch.inference_mode():
        training = models[TOUR[0]].training
        placed = requests(training, COUNTS, SAMPLES, SEED, torch.device("cpu"))
        visits = [true_renders(placed, reader)]
        for stop, model in models.items():
            print(f"{stop.name} draws", flush=True)
            visits.append(Visit(stop, drawn(model, placed, reader, SEED)))
        write_bytes(out, png(figure(visits)))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python benchmarks/length_sheet.py OUT.png")
    main(Path(sys.argv[1]))
