"""Draw the small blue triangles of models that have seen shapes stand still, seed by seed.

    recombine run still:kl still:vq still:mar still:givt still:givt_steered --seeds 1-3
    recombine run still:maskgit still:steered still:with_jepa still:jepa_steered --seeds 1-3
    python -m benchmarks.still_sheet runs/still docs/figures/still_samples.png

The first pictures at the end of each run, none picked.
"""

import sys
from pathlib import Path

from benchmarks.sheet import draw

from recombine.experiments import still
from recombine.figures.masking import PANELS

SEEDS = still.vq.seeds
ASKED = f"triangle-small-blue-{still.TRAINING.steps}.png"


def main(runs: Path, out: Path) -> None:
    """Draw a row per model, a panel per seed."""
    rows = {
        words.replace(", ", ",\n"): [
            runs / name / f"seed{seed}" / "samples" / ASKED for seed in SEEDS
        ]
        for words, name in PANELS["8 layers"].items()
    }
    draw(rows, [f"seed {seed}" for seed in SEEDS], 6, out, "recombine run still:... --seeds 1-3")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m benchmarks.still_sheet RUNS OUT.png")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
