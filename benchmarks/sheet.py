"""A picture of the samples that runs have left: a row of panels per name, none picked."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

IN_A_ROW = 8
"""Pictures in a row of a run's samples."""


def check_folder(out: Path) -> None:
    """Stop, before anything is drawn, if there is no folder for the picture."""
    if not out.resolve().parent.is_dir():
        sys.exit(f"{out.parent} is not there; expected a folder to write {out.name} to")


def draw(
    rows: Mapping[str, Sequence[Path]], titles: Sequence[str], shown: int, out: Path, made_by: str
) -> None:
    """Draw the first pictures of each file; `made_by` says what would have written them."""
    check_folder(out)
    figure = Figure(figsize=(8.6, 0.55 * len(rows) + 0.25), layout="constrained")
    panels = figure.subplots(len(rows), len(titles), squeeze=False)
    for (words, paths), line in zip(rows.items(), panels, strict=True):
        for path, axes in zip(paths, line, strict=True):
            if not path.exists():
                sys.exit(f"{path} is not there; expected the folder of {made_by}")
            sheet = Image.open(path).convert("RGB")
            axes.imshow(sheet.crop((0, 0, sheet.width * shown // IN_A_ROW, sheet.height)))
            axes.set_xticks([])
            axes.set_yticks([])
        line[0].set_ylabel(words, fontsize=6, rotation=0, ha="right", va="center")
    for title, axes in zip(titles, panels[0], strict=True):
        axes.set_title(title, fontsize=7)
    figure.savefig(out, dpi=150)
    print(f"{out} is written")
