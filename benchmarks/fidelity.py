"""How close our CLEVR is to Blender's: same scenes, same size, picture beside picture.

    python benchmarks/fidelity.py            # prints the numbers, writes results/fidelity.png

Targets at 128 pixels: mask IoU >= 0.93, SSIM >= 0.90 and PSNR >= 25 dB on the `fixed` scenes, mask
IoU >= 0.90 on the `jittered` ones, whose camera is recovered from the scene file.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from PIL import Image
from torch import Tensor

from recombine.measure.subject import Findings
from recombine.measure.tokenizing import psnr
from recombine.measurement import Measurement
from recombine.render.engine import picture, see
from recombine.report.origin import device_name
from recombine.results import Origin, Results, keep, rows
from recombine.scene import Scenes
from recombine.worlds.clevr import Clevr, stage
from recombine.worlds.scene_file import read

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "tests/data/clevr_reference"
WINDOW = 1.5
"""Width of SSIM's Gaussian window in pixels."""
SMALLEST = 20
"""Objects of no more pixels than this are left out."""


def reference(split: str) -> tuple[Scenes, Tensor, Tensor]:
    """Return Blender's scenes, images and masks."""
    data = json.loads((FOLDER / f"{split}_scenes.json").read_text())
    scenes, names = read(data, Clevr(size=128))
    images, masks = (stacked(FOLDER / f"{split}_{kind}.png") for kind in ("images", "masks"))
    if not len(names) == len(images) == len(masks):
        raise ValueError(f"{split} has {len(names)} scenes and {len(images)} images")
    return scenes, images.permute(0, 3, 1, 2) / 255, masks.long()


def stacked(path: Path) -> Tensor:
    """Return the square pictures that one file has below each other."""
    with Image.open(path) as image:
        pixels = torch.from_numpy(np.array(image))
    return pixels.unflatten(0, (-1, pixels.shape[1]))


def compared(split: str) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Return each measurement, one value per image or object, our images and Blender's."""
    scenes, images, masks = reference(split)
    ours = picture(stage(scenes), 128)
    owner, _ = see(stage(scenes), 128)
    measured = {
        "mask_iou": mask_overlap(owner + 1, masks),
        "ssim": ssim(ours, images),
        "psnr": psnr(ours, images),
    }
    return measured, ours, images


def ssim(
    image: Float[Tensor, "batch channel height width"],
    reference: Float[Tensor, "batch channel height width"],
) -> Float[Tensor, " batch"]:
    """Structural similarity (Wang et al. 2004), mean over channels and full windows."""
    offsets = torch.arange(-5, 6).to(image)
    bell = torch.exp(-(offsets**2) / (2 * WINDOW**2))
    bell = bell / bell.sum()
    weights = (bell[:, None] * bell)[None, None]

    def blurred(value: Tensor) -> Tensor:
        flat = value.flatten(0, 1)[:, None]
        return torch.nn.functional.conv2d(flat, weights).unflatten(0, value.shape[:2])

    mean, other = blurred(image), blurred(reference)
    variance = blurred(image * image) - mean * mean
    other_variance = blurred(reference * reference) - other * other
    covariance = blurred(image * reference) - mean * other
    light = (2 * mean * other + 0.01**2) / (mean * mean + other * other + 0.01**2)
    structure = (2 * covariance + 0.03**2) / (variance + other_variance + 0.03**2)
    return (light * structure).mean(dim=(1, 2, 3, 4))


def mask_overlap(
    mask: Int[Tensor, "batch height width"], reference: Int[Tensor, "batch height width"]
) -> Float[Tensor, " object"]:
    """Intersection over union of each object of the reference (0 is background)."""
    shares = []
    for ours, theirs in zip(mask, reference, strict=True):
        for number in theirs.unique().tolist():
            there = theirs == number
            if number == 0 or there.sum() <= SMALLEST:
                continue
            here = ours == number
            shares.append((here & there).sum() / (here | there).sum())
    return torch.stack(shares) if shares else torch.zeros(0)


def side_by_side(ours: Tensor, theirs: Tensor, count: int = 12) -> Image.Image:
    """Return pairs from few objects to many: Blender above, ours below, both enlarged."""
    chosen = torch.linspace(0, len(ours) - 1, count).long()
    rows = [images[chosen].permute(2, 0, 3, 1).flatten(1, 2) for images in (theirs, ours)]
    half = count // 2 * 128
    grid = torch.cat([row[:, part] for part in (slice(0, half), slice(half, None)) for row in rows])
    pixels = (grid.clamp(0, 1) * 255).round().byte().numpy()
    return Image.fromarray(pixels).resize((2 * pixels.shape[1], 2 * pixels.shape[0]), 0)


def main() -> None:
    """Print the means, write the picture and keep the record."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "results"
    started, kept = time.perf_counter(), {}
    for split in ("fixed", "jittered"):
        measured, ours, theirs = compared(split)
        for name, values in measured.items():
            kept[f"{name}@{split}"] = Measurement.mean(values.tolist())
            least = f"(least {values.min():.3f}, n {len(values)})"
            print(f"{split:9} {name:9} {values.mean():7.3f}  {least}")
        if split == "fixed":
            folder.mkdir(exist_ok=True)
            side_by_side(ours, theirs).save(folder / "fidelity.png")
    command, seconds = "python benchmarks/fidelity.py", time.perf_counter() - started
    origin = Origin("fidelity", "renderer", 0, device_name("cpu"), seconds=seconds, command=command)
    keep([Results(origin, rows(Findings(kept)))], folder)
    print(f"wrote fidelity.csv and fidelity.png (Blender above, ours below) to {folder.name}")


if __name__ == "__main__":
    main()
