"""Draw what shipped models of the objectives' study make of every composition of Shapes2D.

    python -m benchmarks.composition_sheet docs/figures/composition_samples.png

The first samples of a seed, none picked. Framed in red is what the probe does not read as asked.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from benchmarks.sheet import check_folder
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from recombine import run as runner
from recombine import zoo
from recombine.commands.measure import plan_of
from recombine.experiments.objective import Composition, means
from recombine.experiments.probe import Single, fresh
from recombine.report.picture import pixels
from recombine.scene import concept_rows
from recombine.split import BINARY, level
from recombine.worlds.shapes2d import Shapes2D

MODELS = {
    "dit": "DiT",
    "maskgit": "MaskGIT",
    "maskgit_jepa": "MaskGIT by\nsquares + JEPA",
    "maskgit_squares": "small, by\nsquares",
    "mar_jepa": "small MAR\n+ JEPA",
    "maskgit_moving": "MaskGIT,\nplaces vary",
    "maskgit_small": "small MaskGIT,\nplaces vary",
    "maskgit_steered": "told like a DiT,\nplaces vary",
}
"""Shipped models, and what they are called in the picture."""
ROWS, COLUMNS, SEED = 2, 3, 0
INSET = 0.6
"""Pixels between the border of an image and its frame."""
CPU = torch.device("cpu")


def main(out: Path) -> None:
    """Draw a row of panels per model, and one of true renders."""
    check_folder(out)
    count = ROWS * COLUMNS
    rows = {"true renders": true_renders(Shapes2D(), BINARY.asked, count)}
    rows |= {called: drawn(zoo.path(name), BINARY.asked, count) for name, called in MODELS.items()}
    draw(out, rows, Composition(), BINARY.asked, COLUMNS)


def draw(
    out: Path,
    rows: Mapping[str, Tensor],
    ask: Composition,
    which: Sequence[tuple[str, ...]],
    columns: int,
) -> None:
    """Draw a row of panels for each name, one for each composition, framed as the probe reads."""
    figure = Figure(figsize=(8.6, 0.95 * len(rows) + 0.25), layout="constrained")
    panels = figure.subplots(len(rows), len(which), squeeze=False)
    for (called, images), line in zip(rows.items(), panels, strict=True):
        line[0].set_ylabel(called, fontsize=7)
        for one, each, axes in zip(which, images, line, strict=True):
            panel(axes, each, right(ask, each, one), columns)
    for one, axes in zip(which, panels[0], strict=True):
        away = level(one, ask.split.seen)
        axes.set_title(f"{' '.join(one)}\n{f'level {away}' if away else 'seen'}", fontsize=6)
    figure.savefig(out, dpi=150)
    print(f"{out} is written")


def true_renders(world: Single, which: Sequence[tuple[str, ...]], count: int) -> Tensor:
    """Return so many true renders of each composition."""
    return torch.stack([fresh(world, one, count, CPU) for one in which])


@torch.inference_mode()
def drawn(path: Path, which: Sequence[tuple[str, ...]], count: int) -> Tensor:
    """Return so many samples of each composition, on the CPU."""
    print(path.stem, flush=True)
    trained = runner.loaded(plan_of(path), path, runner.machine(CPU))
    world, conditioner = trained.experiment.world, trained.experiment.conditioner
    assert isinstance(world, Single)
    told = torch.cat([conditioner.encode(means(world, one, count, CPU)) for one in which])
    images = trained.images(told, torch.Generator().manual_seed(SEED)).clamp(0, 1)
    return images.unflatten(0, (len(which), count))


@torch.inference_mode()
def right(ask: Composition, images: Tensor, which: tuple[str, ...]) -> list[bool]:
    """Tell which images the probe reads as this composition."""
    read = zoo.probe(ask.probe, ask.reader, CPU)(images)
    return (read == concept_rows(ask.split.factors, (which,))).all(dim=1).tolist()


def panel(axes: Axes, images: Tensor, good: list[bool], columns: int) -> None:
    """Show images in rows, a red frame around those that are not as asked."""
    side = images.shape[-1]
    for at, (picture, fine) in enumerate(zip(pixels(images).numpy(), good, strict=True)):
        row, column = divmod(at, columns)
        left, top = column * side, row * side
        axes.imshow(picture, extent=(left, left + side, top + side, top), interpolation="nearest")
        colour, width = ("0.8", 0.4) if fine else ("#d62728", 1.2)
        inside = (left + INSET, top + INSET)
        length = side - 2 * INSET
        look = {"fill": False, "edgecolor": colour, "linewidth": width}
        axes.add_patch(Rectangle(inside, length, length, **look))
    axes.set_xlim(0, columns * side)
    axes.set_ylim(-(-len(images) // columns) * side, 0)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m benchmarks.composition_sheet OUT.png")
    main(Path(sys.argv[1]))
