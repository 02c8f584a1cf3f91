"""The limits of the reader by rendering: how far true renders and debris lie from them.

    python benchmarks/limits.py [images]

Prints, for true renders of Shapes2D as they are, with noise, behind a blur, and through each
tokenizer, and for every kind of debris, which share is accepted at half, at once and at double
every limit, and the 1st and 99th hundredth of what each limit bounds. Generators are not read.
"""

import sys
import time

import torch
from torch import Tensor

from recombine.measure.fit import LIMITS, Fit
from recombine.render.raster import blurred
from recombine.studies.coverage import LATENTS, VECTORS
from recombine.worlds.debris import DEBRIS, debris
from recombine.worlds.shapes2d import Shapes2D

SEED = 10_071
"""Of scenes and debris that set the limits; no training and no measurement has it."""


def tried(world: Shapes2D, count: int) -> dict[str, Tensor]:
    """Return images that should be accepted, by what was done to them."""
    images = world.image(world.scenes(torch.arange(count), SEED))
    noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(SEED))
    views = {"VQ": VECTORS, "KL": LATENTS}
    through = {name: view.back(view(images)).clamp(0, 1) for name, view in views.items()}
    return {
        "renders": images,
        "noise .02": (images + 0.02 * noise).clamp(0, 1),
        "noise .05": (images + 0.05 * noise).clamp(0, 1),
        "blur .8": blurred(images, 0.8),
        "blur 1.5": blurred(images, 1.5),
        "blur 1, noise .03": (blurred(images, 1.0) + 0.03 * noise).clamp(0, 1),
        **through,
    }


def main(count: int) -> None:
    """Read everything and print what was found."""
    world = Shapes2D()
    reader = Fit(world)
    concepts = world.scenes(torch.arange(count), SEED).concepts[:, 0]
    shown = tried(world, count)
    shown |= {kind: debris(world, kind, torch.arange(count), SEED) for kind in DEBRIS}
    for name, images in shown.items():
        start = time.process_time()
        found = reader(images)
        seconds = time.process_time() - start
        right = (found.rows == concepts).all(dim=1).double().mean()
        share = [found.within(factor).double().mean() for factor in (0.5, 1.0, 2.0)]
        accepted = " ".join(f"{each:.3f}" for each in share)
        print(f"{name:18} right {right:.3f} accepted {accepted} ({seconds:.1f} s of one core)")
        for limit, kept in found.kept(LIMITS).items():
            ends = getattr(found, limit).double().quantile(torch.tensor([0.01, 0.99]).double())
            print(
                f"    {limit:14} {ends[0]:8.3f} {ends[1]:8.3f}  kept by {kept.double().mean():.3f}"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 960)
