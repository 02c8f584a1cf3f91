"""Draw what all five shipped models of the length study make of the same requests.

    python benchmarks/length_sheet.py docs/figures/length_samples.png

The first scenes of a seed, none picked: failures are as visible as successes. A white dot is a
told place with an object on it, a red ring one without.
"""

import sys
from pathlib import Path

import torch

from recombine import run as runner
from recombine import zoo
from recombine.commands.measure import plan_of
from recombine.commands.tour import Stop, Visit, figure, requests, visit
from recombine.report.files import write_bytes
from recombine.report.picture import png

STOPS = (
    Stop("grid_all", "Exp. 1", ""),
    Stop("grid_one", "Exp. 2", ""),
    Stop("list_all", "Exp. 3", ""),
    Stop("grid_one_local", "Exp. 2L", ""),
    Stop("list_all_local", "Exp. 3L", ""),
)
COUNTS, SAMPLES, SEED = (1, 3, 4, 6, 9, 12), 2, 1


def main(out: Path) -> None:
    """Draw a row per model."""
    with torch.inference_mode():
        write_bytes(out, png(figure([visited(stop) for stop in STOPS])))


def visited(stop: Stop) -> Visit:
    """Ask one model, on the CPU."""
    path, cpu = zoo.path(stop.name), torch.device("cpu")
    plan = plan_of(path)
    asked = requests(plan.experiment, COUNTS, SAMPLES, SEED, cpu)
    trained = runner.loaded(plan, path, runner.machine(cpu))
    print(stop.name, flush=True)
    return visit(stop, zoo.record(stop.name), trained, asked, zoo.detector(), SEED)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python benchmarks/length_sheet.py OUT.png")
    main(Path(sys.argv[1]))
