"""Influence on many pixels at once, beside one backward pass per pixel and channel."""

from functools import partial

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from recombine.bench.timing import awake, known, over, speed
from recombine.denoiser import Denoiser, Preconditioned
from recombine.measure.influence import pixel_influence
from recombine.measurement import Measurement
from recombine.models.unet import STUDY_UNET, UNet

SIGMA = 1.0


def measured(device: torch.device, seconds: float, of: UNet = STUDY_UNET) -> dict[str, Measurement]:
    """Measure both on one image of the study's U-Net, and how far the results are apart.

    A GPU takes all pixels; the peer, and a CPU, a few, as the rate does not depend on their
    number.
    """
    denoiser = awake(Preconditioned(of.build()).to(device))
    x = torch.randn(1, of.channels, of.size, of.size, device=device)
    condition = torch.zeros(1, 256, device=device)
    arguments = (denoiser, x, x.new_full((1,), SIGMA), condition)
    few = torch.randint(of.size, (16 if device.type == "cuda" else 4, 2), device=device)
    at_once = 512 if device.type == "cuda" else 4
    # In full precision: shortened products differ by more than the order of sums.
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        ours, twin = pixel_influence(*arguments, few, at_once), one_by_one(*arguments, few)
    apart = (ours - twin).abs().max() / twin.max()
    many, pixels = (None, of.size**2) if device.type == "cuda" else (few, len(few))
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    batched = speed(partial(pixel_influence, *arguments, many, at_once), pixels, seconds)
    found = {"pixels_per_second@batched": batched}
    if device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(device) / 2**30
        found[f"peak_gibibytes@{at_once}_at_once"] = known(peak)
    alone = speed(partial(one_by_one, *arguments, few), len(few), seconds)
    return {
        **found,
        "pixels_per_second@one_by_one": alone,
        "ratio@one_by_one": over(batched, alone),
        "largest_difference": known(apart.item(), n=ours.numel()),
    }


def one_by_one(
    denoiser: Denoiser,
    x: Float[Tensor, "1 channel height width"],
    sigma: Float[Tensor, " 1"],
    condition: Shaped[Tensor, " 1 *condition"],
    pixels: Int[Tensor, "pixel 2"],
) -> Float[Tensor, "1 pixel height width"]:
    """Return the same influence by one forward pass and a backward pass for each number."""
    x = x.detach().clone().requires_grad_()
    with torch.enable_grad():
        denoised = denoiser(x, sigma, condition)
        found = []
        for row, column in pixels.tolist():
            squares = [
                torch.autograd.grad(channel[row, column], x, retain_graph=True)[0].square()
                for channel in denoised[0]
            ]
            found.append(torch.stack(squares).sum(dim=(0, 2)).sqrt()[0])
    return torch.stack(found)[None]
