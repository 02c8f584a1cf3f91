"""Draw the small blue triangles of models that have seen shapes stand still, seed by seed.

    recombine run still:kl still:vq still:mar still:givt still:givt_steered --seeds 1-3
    recombine run still:maskgit still:steered still:with_jepa still:jepa_steered --seeds 1-3
    python -m benchmarks.still_sheet masking runs docs/figures/still_samples.png
    recombine run still:kl_seen still:vq_seen still:mar_seen still:givt_seen --seeds 1-3
    recombine run still:maskgit_seen still:with_jepa_seen still:steered_seen --seeds 1-3
    recombine run points:base points:with_jepa points:steered points:jepa_steered --seeds 1-3
    recombine run points:one_gaussian --seeds 1-3
    python -m benchmarks.still_sheet points runs docs/figures/points_samples.png
    recombine run loss_or_masks:squared loss_or_masks:named points:squared_small --seeds 1-3
    python -m benchmarks.still_sheet losses runs docs/figures/losses_samples.png
    recombine run points:givt_squared_small points:givt_squared_jepa_small --seeds 1-3
    recombine run jitter:mar_jepa_still_seen_small --seeds 1-3
    python -m benchmarks.still_sheet givt runs docs/figures/givt_samples.png

The models are those of a figure, of `masking` and `points` those with 8 layers; the first pictures
at the end of each run, none picked.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.sheet import draw

from recombine.experiments import still
from recombine.experiments.objective import SHORT
from recombine.figures import loss_or_masks, masking, points, repaired

SEEDS = still.vq.seeds


@dataclass(frozen=True)
class Shown:
    """The models of a figure that are drawn, and after how many steps."""

    models: Mapping[str, str]
    steps: int = still.TRAINING.steps

    @property
    def asked(self) -> str:
        """The file of samples that is shown."""
        return f"triangle-small-blue-{self.steps}.png"


# What is new there; the others are in other pictures.
LOSSES = ("loss_or_masks:squared", "loss_or_masks:named", "points:squared_small")
GIVT = (
    "points:givt_squared_small",
    "points:givt_squared_jepa_small",
    "jitter:mar_jepa_still_seen_small",
)


def small(rows: Mapping[str, str], names: Sequence[str]) -> Shown:
    """Return some small networks of a panel."""
    return Shown({words: name for words, name in rows.items() if name in names}, SHORT.steps)


FIGURES = {
    "masking": Shown(masking.PANELS["8 layers"]),
    "points": Shown(points.PANELS["8 layers"]),
    "losses": small(loss_or_masks.PANELS["shapes stand still"], LOSSES),
    "givt": small(repaired.PANELS["small networks"], GIVT),
}


def main(figure: str, runs: Path, out: Path) -> None:
    """Draw a row per model, a panel per seed."""
    if figure not in FIGURES:
        sys.exit(f"the models are those of {', '.join(FIGURES)}; got {figure}")
    shown = FIGURES[figure]
    rows = {
        words.replace(", ", ",\n"): [
            runs.joinpath(*name.split(":"), f"seed{seed}", "samples", shown.asked) for seed in SEEDS
        ]
        for words, name in shown.models.items()
    }
    made_by = f"recombine run {next(iter(shown.models.values()))} ... --seeds 1-3"
    draw(rows, [f"seed {seed}" for seed in SEEDS], 6, out, made_by)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python -m benchmarks.still_sheet FIGURE RUNS OUT.png")
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
