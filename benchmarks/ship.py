"""Ship the weights of a finished run: pack them into the zoo, with its final numbers.

    python benchmarks/ship.py runs/length/grid_all/seed0 grid_all

Only the averaged weights go, in half precision. Commit them once, when they are final.
"""

import sys
from pathlib import Path

from recombine import zoo
from recombine.checkpoint import Checkpoint
from recombine.results import read
from recombine.results.store import NAME
from recombine.run.kept import Kept
from recombine.run.state import checkpoints


def main(folder: Path, name: str) -> None:
    """Pack the newest checkpoint of a run."""
    found = checkpoints(folder)
    if not found:
        raise ValueError(f"{folder} has no checkpoint; expected the folder of a run")
    (results,) = read(folder / NAME)
    measured = Kept.of(results, folder / NAME).measurements
    shipped = zoo.ship(Checkpoint.load(found[0]), measured, name)
    total = sum(zoo.path(each).stat().st_size for each in zoo.names())
    print(f"{shipped.name}: {shipped.stat().st_size:,} bytes; the zoo holds {total:,}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python benchmarks/ship.py RUN_FOLDER NAME")
    try:
        main(Path(sys.argv[1]), sys.argv[2])
    except ValueError as error:
        sys.exit(f"ship: {error}")
