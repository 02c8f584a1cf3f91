"""Draw what seen codes at seen places can make of compositions that are new.

    recombine run code_places:all
    python -m benchmarks.code_places_sheet runs/code_places docs/figures/code_places.png

The first pictures of each run's samples, none picked.
"""

import sys
from pathlib import Path

from benchmarks.sheet import draw

from recombine.split import BINARY, level

WORDS = {
    "moving": "places vary,\ntokenizer of all",
    "still": "standing still,\ntokenizer of all",
    "moving_seen": "places vary,\ntokenizer of the seen",
    "still_seen": "standing still,\ntokenizer of the seen",
}


def main(runs: Path, out: Path) -> None:
    """Draw a row per run, a panel per composition that was not seen."""
    new = [which for which in BINARY.asked if level(which, BINARY.seen)]
    rows = {
        words: [runs / name / "seed0" / "samples" / f"{'-'.join(which)}.png" for which in new]
        for name, words in WORDS.items()
    }
    titles = [f"{' '.join(which)} (level {level(which, BINARY.seen)})" for which in new]
    draw(rows, titles, 4, out, "recombine run code_places:all")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m benchmarks.code_places_sheet RUNS OUT.png")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
