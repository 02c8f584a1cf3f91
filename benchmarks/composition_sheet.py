"""Draw what shipped models of the objectives' study make of every composition of Shapes2D.

    python benchmarks/composition_sheet.py docs/figures/composition_samples.png

The first samples of a seed, none picked. Framed in red is what the probe does not read as asked.
"""

import sys
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from recombine import run as runner
from recombine import zoo
from recombine.commands.measure import plan_of
from recombine.experiments.objective import Composition, means
from recombine.experiments.probe import fresh
from recombine.report.picture import pixels
from recombine.scene import concept_rows
from recombine.split import BINARY, level
from recombine.worlds.shapes2d import Shapes2D

MODELS = {
    "dit": "DiT, KL latents",
    "maskgit": "MaskGIT, codes",
    "maskgit_small": "small MaskGIT",
    "maskgit_jepa": "with JEPA",
    "maskgit_steered": "told like a DiT",
    "dit_still": "DiT, codes,\nstill",
    "maskgit_still": "MaskGIT, still",
}
"""Shipped models, and what they are called in the picture."""
ROWS, COLUMNS, SEED = 2, 3, 0
INSET = 0.6
"""Pixels between the border of an image and its frame."""
CPU = torch.device("cpu")


def main(out: Path) -> None:
    """Draw a row of panels per model, and one of true renders."""
    if not out.resolve().parent.is_dir():
        sys.exit(f"{out.parent} is not there; expected a folder to write {out.name} to")
    true = torch.stack([fresh(Shapes2D(), which, ROWS * COLUMNS, CPU) for which in BINARY.asked])
    rows = [("true renders", true)]
    with torch.inference_mode():
        rows += [(called, drawn(name)) for name, called in MODELS.items()]
        figure = Figure(figsize=(8.6, 0.95 * len(rows) + 0.25), layout="constrained")
        panels = figure.subplots(len(rows), len(BINARY.asked), squeeze=False)
        for (called, images), line in zip(rows, panels, strict=True):
            line[0].set_ylabel(called, fontsize=7)
            for which, each, axes in zip(BINARY.asked, images, line, strict=True):
                panel(axes, each, right(each, which))
    for which, axes in zip(BINARY.asked, panels[0], strict=True):
        away = level(which, BINARY.seen)
        axes.set_title(f"{' '.join(which)}\n{f'level {away}' if away else 'seen'}", fontsize=6)
    figure.savefig(out, dpi=150)
    print(f"{out} is written")


def drawn(name: str) -> Tensor:
    """Return samples of every composition, on the CPU."""
    print(name, flush=True)
    path = zoo.path(name)
    trained = runner.loaded(plan_of(path), path, runner.machine(CPU))
    world, conditioner = trained.experiment.world, trained.experiment.conditioner
    assert isinstance(world, Shapes2D)
    count = ROWS * COLUMNS
    told = torch.cat([conditioner.encode(means(world, w, count, CPU)) for w in BINARY.asked])
    images = trained.images(told, torch.Generator().manual_seed(SEED)).clamp(0, 1)
    return images.unflatten(0, (len(BINARY.asked), count))


def right(images: Tensor, which: tuple[str, ...]) -> list[bool]:
    """Tell which images the probe reads as this composition."""
    ask = Composition()
    read = zoo.probe(ask.probe, ask.reader, CPU)(images)
    return (read == concept_rows(Shapes2D().factors, (which,))).all(dim=1).tolist()


def panel(axes: Axes, images: Tensor, good: list[bool]) -> None:
    """Show images in rows, a red frame around those that are not as asked."""
    side = images.shape[-1]
    for at, (picture, fine) in enumerate(zip(pixels(images).numpy(), good, strict=True)):
        row, column = divmod(at, COLUMNS)
        left, top = column * side, row * side
        axes.imshow(picture, extent=(left, left + side, top + side, top), interpolation="nearest")
        colour, width = ("0.8", 0.4) if fine else ("#d62728", 1.2)
        inside = (left + INSET, top + INSET)
        length = side - 2 * INSET
        look = {"fill": False, "edgecolor": colour, "linewidth": width}
        axes.add_patch(Rectangle(inside, length, length, **look))
    axes.set_xlim(0, COLUMNS * side)
    axes.set_ylim(ROWS * side, 0)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python benchmarks/composition_sheet.py OUT.png")
    main(Path(sys.argv[1]))
