"""How close two pictures are: by pixel, by structure and by outline."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

WINDOW = 1.5
"""Width of SSIM's Gaussian window in pixels."""
SMALLEST = 20
"""Objects of no more pixels than this are left out."""


def psnr(
    image: Float[Tensor, "batch channel height width"],
    reference: Float[Tensor, "batch channel height width"],
) -> Float[Tensor, " batch"]:
    """Peak signal to noise ratio in decibel, for values in [0, 1]."""
    return -10 * (image - reference).square().mean(dim=(1, 2, 3)).log10()


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
