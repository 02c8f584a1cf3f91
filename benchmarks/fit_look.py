"""Fit the look of materials to Blender's renders: every other `fixed` scene, the rest is held out.

    python benchmarks/fit_look.py            # about a minute on two cores; prints the Look

Lamps keep the original's power and place; what is fitted is how rubber, metal and the surroundings
answer. The numbers it prints are those in `recombine/render/stage.py`.
"""

from dataclasses import fields

import numpy as np
import torch
from fidelity import reference
from numpy.typing import NDArray
from scipy.optimize import least_squares

from recombine.measure.tokenizing import psnr
from recombine.render.engine import picture
from recombine.render.stage import LOOK, Look
from recombine.worlds.clevr import stage

NAMES = [field.name for field in fields(Look)]


def main() -> None:
    """Print the fitted look and how well it does on scenes it was not fitted to."""
    scenes, images, _ = reference("fixed")
    start = np.array([getattr(LOOK, name) for name in NAMES])
    fitted, held_out = stage(scenes[::2]), stage(scenes[1::2])

    def misfit(scaled: NDArray[np.float64]) -> NDArray[np.float64]:
        look = Look(*(scaled * start).tolist())
        return (picture(fitted, 128, look) - images[::2]).flatten().double().numpy()

    ones = np.ones(len(NAMES))
    found = least_squares(misfit, ones, bounds=(0, np.inf), diff_step=1e-2, max_nfev=8)
    look = Look(*(round(float(value), 5) for value in found.x * start))
    for name in NAMES:
        print(f"    {name}: float = {getattr(look, name)}")
    for title, part, theirs in (
        ("fitted", fitted, images[::2]),
        ("held out", held_out, images[1::2]),
    ):
        before = psnr(picture(part, 128), theirs).mean()
        after = psnr(picture(part, 128, look), theirs).mean()
        print(f"{title}: {before:.2f} dB with the look in use, {after:.2f} dB with this one")


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
