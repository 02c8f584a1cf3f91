"""Draw what models of the study of coverage make of combinations they have not seen.

    python benchmarks/coverage_sheet.py docs/figures/coverage_samples.png dit-small maskgit-small

The first kept sample of each test composition of a replicate, from `results/`, below true renders
of the same compositions; none is picked. A red frame marks what the reader does not take for the
requested composition. Takes seconds on a CPU.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from recombine import studies
from recombine.measure.fit import Fit
from recombine.measure.renders import fresh
from recombine.report.files import write_bytes
from recombine.report.picture import pictures, png, tiled
from recombine.results.query import arrays

SEED, SIDE, COLUMNS = 0, 56, 24
WRONG = (213, 0, 50)


def row(images: torch.Tensor, right: torch.Tensor) -> list[Image.Image]:
    """Return enlarged pictures, those that are not right with a frame."""
    tiles = []
    for picture, good in zip(pictures(images), right.tolist(), strict=True):
        large = picture.resize((SIDE, SIDE), Image.Resampling.LANCZOS)
        frame = Image.new("RGB", (SIDE + 6, SIDE + 6), "white" if good else WRONG)
        frame.paste(large, (3, 3))
        tiles.append(frame)
    return tiles


def main(out: Path, cells: list[str]) -> None:
    """Draw a row of true renders and a row a cell."""
    kept = {name: torch.from_numpy(each) for name, each in arrays("coverage").items()}
    tiles: list[Image.Image] = []
    for cell in cells:
        declared: Any = studies.load("coverage").cells[cell]
        training = declared.of_seed(SEED).training
        run = f"{cell}/seed{SEED}"
        rows = kept[f"{run}/sampled"]
        reader = Fit(training.world)
        if not tiles:
            factors = training.world.factors
            which = [
                tuple(f.concepts[c] for f, c in zip(factors, each, strict=True))
                for each in rows.tolist()
            ]
            world = replace(training.world, among=())
            true = torch.cat([fresh(world, each, 1, torch.device("cpu")) for each in which])
            tiles += row(true, torch.ones(len(true), dtype=torch.bool))
        drawn = training.view.back(training.view.restored(kept[f"{run}/samples"][:, 0]))
        read = reader(drawn.float().clamp(0, 1))
        tiles += row(drawn.float().clamp(0, 1), (read.rows == rows).all(dim=1))
    write_bytes(out, png(tiled(tiles, COLUMNS)))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python benchmarks/coverage_sheet.py OUT.png CELL [CELL ...]")
    main(Path(sys.argv[1]), sys.argv[2:])
