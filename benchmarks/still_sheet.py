"""Draw the small blue triangles of models that have seen shapes stand still, seed by seed.

    recombine run still:kl still:vq still:mar still:givt still:givt_steered --seeds 1-3
    recombine run still:maskgit still:steered still:with_jepa still:jepa_steered --seeds 1-3
    python -m benchmarks.still_sheet masking runs docs/figures/still_samples.png
    recombine run still:kl_seen still:vq_seen still:mar_seen still:givt_seen --seeds 1-3
    recombine run still:maskgit_seen still:with_jepa_seen still:steered_seen --seeds 1-3
    recombine run points:base points:with_jepa points:steered points:jepa_steered --seeds 1-3
    recombine run points:one_gaussian --seeds 1-3
    python -m benchmarks.still_sheet points runs docs/figures/points_samples.png

The models are those of a figure, `masking` or `points`, with 8 layers; the first pictures at the
end of each run, none picked.
"""

import sys
from pathlib import Path

from benchmarks.sheet import draw

from recombine.experiments import still
from recombine.figures import masking, points

SEEDS = still.vq.seeds
ASKED = f"triangle-small-blue-{still.TRAINING.steps}.png"
FIGURES = {"masking": masking.PANELS, "points": points.PANELS}


def main(figure: str, runs: Path, out: Path) -> None:
    """Draw a row per model, a panel per seed."""
    if figure not in FIGURES:
        sys.exit(f"the models are those of {' or '.join(FIGURES)}; got {figure}")
    models = FIGURES[figure]["8 layers"]
    rows = {
        words.replace(", ", ",\n"): [
            runs.joinpath(*name.split(":"), f"seed{seed}", "samples", ASKED) for seed in SEEDS
        ]
        for words, name in models.items()
    }
    made_by = f"recombine run {next(iter(models.values()))} ... --seeds 1-3"
    draw(rows, [f"seed {seed}" for seed in SEEDS], 6, out, made_by)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python -m benchmarks.still_sheet FIGURE RUNS OUT.png")
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
