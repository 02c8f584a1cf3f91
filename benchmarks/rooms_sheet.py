"""Draw what models of Shapes3D make of large spheres in hues they have not seen them in.

    python -m benchmarks.rooms_sheet docs/figures/rooms.png WEIGHTS...

The first samples of a seed, none picked. Framed in red is what the probe does not read as asked.
"""

import sys
from pathlib import Path

from benchmarks.composition_sheet import draw, drawn, true_renders
from benchmarks.sheet import check_folder

from recombine.commands.measure import plan_of
from recombine.experiments.other_worlds import ROOMS
from recombine.worlds.shapes3d import Shapes3D

COLUMNS = 2
COUNT = 2 * COLUMNS


def main(out: Path, files: list[Path]) -> None:
    """Draw a row of panels of true renders, and one per model."""
    check_folder(out)
    which = ROOMS.split.at(2)
    rows = {"true renders": true_renders(Shapes3D(), which, COUNT)}
    for path in files:
        plan = plan_of(path)
        called = f"{plan.variant.removesuffix('_shapes3d')},\nseed {plan.seed}"
        rows[called] = drawn(path, which, COUNT)
    draw(out, rows, ROOMS, which, COLUMNS)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python -m benchmarks.rooms_sheet OUT.png WEIGHTS...")
    main(Path(sys.argv[1]), [Path(each) for each in sys.argv[2:]])
