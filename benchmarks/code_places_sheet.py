"""Draw what seen codes at seen places can make of compositions that are new.

    recombine run code_places:all
    python benchmarks/code_places_sheet.py runs/code_places docs/figures/code_places.png

The first pictures of each run's samples, none picked.
"""

import sys
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

from recombine.split import BINARY, level

WORDS = {
    "moving": "places vary,\ntokenizer of all",
    "still": "standing still,\ntokenizer of all",
    "moving_seen": "places vary,\ntokenizer of the seen",
    "still_seen": "standing still,\ntokenizer of the seen",
}
IN_A_ROW = 8
"""Pictures in a row of a run's samples."""
SHOWN = 4
"""How many of them are drawn."""


def main(runs: Path, out: Path) -> None:
    """Draw a row per run, a panel per composition that was not seen."""
    if not out.resolve().parent.is_dir():
        sys.exit(f"{out.parent} is not there; expected a folder to write {out.name} to")
    new = [which for which in BINARY.asked if level(which, BINARY.seen)]
    figure = Figure(figsize=(8.6, 0.55 * len(WORDS) + 0.25), layout="constrained")
    panels = figure.subplots(len(WORDS), len(new), squeeze=False)
    for (name, words), line in zip(WORDS.items(), panels, strict=True):
        for which, axes in zip(new, line, strict=True):
            path = runs / name / "seed0" / "samples" / f"{'-'.join(which)}.png"
            if not path.exists():
                sys.exit(
                    f"{path} is not there; expected the folder of recombine run code_places:all"
                )
            sheet = Image.open(path).convert("RGB")
            axes.imshow(sheet.crop((0, 0, sheet.width * SHOWN // IN_A_ROW, sheet.height)))
            axes.set_xticks([])
            axes.set_yticks([])
        line[0].set_ylabel(words, fontsize=6, rotation=0, ha="right", va="center")
    for which, axes in zip(new, panels[0], strict=True):
        axes.set_title(f"{' '.join(which)} (level {level(which, BINARY.seen)})", fontsize=7)
    figure.savefig(out, dpi=150)
    print(f"{out} is written")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python benchmarks/code_places_sheet.py RUNS OUT.png")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
