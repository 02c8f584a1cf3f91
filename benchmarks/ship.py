"""Ship the weights of a finished run: pack them into the zoo, with their record.

    python benchmarks/ship.py runs/length_generalization/grid_all/seed0 grid_all

Only the averaged weights go, in half precision. Commit them once, when they are final.
"""

import sys
from pathlib import Path

from recombine import zoo
from recombine.checkpoint import checkpoints


def main(folder: Path, name: str) -> None:
    """Pack the newest checkpoint of a run."""
    found = checkpoints(folder)
    if not found:
        raise ValueError(f"{folder} has no checkpoint; expected the folder of a run")
    shipped = zoo.ship(found[0], folder / "record.json", name)
    total = sum(zoo.path(each).stat().st_size for each in zoo.names())
    print(f"{shipped.name}: {shipped.stat().st_size:,} bytes; the zoo holds {total:,}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python benchmarks/ship.py RUN_FOLDER NAME")
    try:
        main(Path(sys.argv[1]), sys.argv[2])
    except ValueError as error:
        sys.exit(f"ship: {error}")
