"""Draw the picture of README: what shipped models draw beside true renders of the same scenes.

    python benchmarks/length_sheet.py docs/figures/length_samples.png

Takes two minutes on two cores. The scenes are the first of a seed, none picked: failures are as
visible as successes.
"""

import sys
from pathlib import Path

import torch

from recombine import zoo
from recombine.commands.tour import (
    TOUR,
    Visit,
    drawn,
    figure,
    requests,
    shipped_model,
    true_renders,
)
from recombine.report.files import write_bytes
from recombine.report.picture import png

COUNTS, SAMPLES, SEED = (1, 3, 6, 9), 2, 1


def main(out: Path) -> None:
    """Draw a row of true renders and a row per model, on the CPU."""
    cpu, reader = torch.device("cpu"), zoo.detector()
    with torch.inference_mode():
        placed = requests(shipped_model(TOUR[0].name, cpu).training, COUNTS, SAMPLES, SEED, cpu)
        visits = [true_renders(placed, reader)]
        for stop in TOUR:
            print(f"{stop.name} draws", flush=True)
            visits.append(Visit(stop, drawn(shipped_model(stop.name, cpu), placed, reader, SEED)))
        write_bytes(out, png(figure(visits, shown=1)))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python benchmarks/length_sheet.py OUT.png")
    main(Path(sys.argv[1]))
