"""Sort samples by eye without knowing whose they are, and compare with the reader.

    python benchmarks/blinded.py sheets FOLDER CELL [CELL ...]    # numbered pictures, 50 a sheet
    python benchmarks/blinded.py compare FOLDER labels.txt CELL [CELL ...]

So many kept samples of each cell of the study of coverage (replicate 0) are shuffled. A line of
labels.txt holds a shape for each sample of a row of a sheet, in order: c, t, s, x (cross) or - for
nothing valid. The comparison counts what the eye and the reader by rendering say of the shape.
"""

import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from PIL import Image, ImageDraw

from recombine import studies
from recombine.measure.agreement import kappa
from recombine.measure.fit import Fit
from recombine.report.files import write_bytes
from recombine.report.picture import pictures, png, tiled
from recombine.results.query import arrays

EACH, SIDE, COLUMNS, ROWS, SEED = 50, 112, 10, 5, 7
LETTERS = {"c": "circle", "t": "triangle", "s": "square", "x": "cross", "-": "nothing valid"}


def shuffled(folder: Path, cells: list[str]) -> tuple[torch.Tensor, Fit]:
    """Return the samples in the order of the sheets, and their reader."""
    images = []
    for cell in cells:
        declared: Any = studies.load("coverage").cells[cell]
        training = declared.of_seed(0).training
        kept = arrays("coverage", folder)[f"{cell}/seed0/samples"]
        flat = torch.from_numpy(kept).flatten(0, 1)
        some = random.Random(f"{SEED} {cell}").sample(range(len(flat)), EACH)
        images.append(training.view.back(training.view.restored(flat[some])).float().clamp(0, 1))
    every = torch.cat(images)
    order = list(range(len(every)))
    random.Random(SEED).shuffle(order)
    return every[order], Fit(training.world)


def sheets(folder: Path, cells: list[str]) -> None:
    """Write numbered sheets."""
    images, _ = shuffled(folder, cells)
    tiles = []
    for number, picture in enumerate(pictures(images)):
        tile = picture.resize((SIDE, SIDE), Image.Resampling.LANCZOS)
        ImageDraw.Draw(tile).text((2, 1), str(number), "black")
        tiles.append(tile)
    size = COLUMNS * ROWS
    for at in range(0, len(tiles), size):
        part = tiled(tiles[at : at + size], COLUMNS, gap=4)
        write_bytes(folder / f"blinded{at // size}.png", png(part))


def compare(folder: Path, labels: Path, cells: list[str]) -> None:
    """Print the table of what the eye and the reader say."""
    images, reader = shuffled(folder, cells)
    eye = [LETTERS[letter] for letter in "".join(labels.read_text().split())]
    if len(eye) != len(images):
        sys.exit(f"blinded: {len(images)} labels are expected; got {len(eye)}")
    read = reader(images)
    names = [*reader.world.shapes, "nothing valid"]
    for factor in (1.0, 2.0):
        shape = torch.where(read.within(factor), read.concepts[:, 0], len(names) - 1)
        table = Counter(zip(eye, [names[number] for number in shape.tolist()], strict=True))
        print(f"limits times {factor:g}")
        print("eye \\ reader".ljust(16), *(name.rjust(14) for name in names))
        for one in names:
            print(one.ljust(16), *(str(table[one, other]).rjust(14) for other in names))
        found = kappa(torch.tensor([names.index(each) for each in eye]), shape)
        print(f"kappa {found.value:.3f} [{found.low:.3f}, {found.high:.3f}], n = {found.n}")


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[1] not in ("sheets", "compare"):
        sys.exit("usage: python benchmarks/blinded.py sheets|compare FOLDER [labels.txt] CELL ...")
    if sys.argv[1] == "sheets":
        sheets(Path(sys.argv[2]), sys.argv[3:])
    else:
        compare(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
