"""The local denoiser in one pass, beside the same weights patch by patch."""

from functools import partial

import torch

from recombine.bench.timing import awake, known, over, speed
from recombine.measurement import Measurement
from recombine.models.local import Local, patchwise


def measured(device: torch.device, seconds: float) -> dict[str, Measurement]:
    """Measure both on the same images, and how far the results are apart."""
    of, batch = Local(3, 64), 16 if device.type == "cuda" else 1
    network = awake(of.build().to(device))
    x, clock = torch.randn(batch, 3, 64, 64, device=device), torch.zeros(batch, device=device)
    condition = (torch.rand(batch, of.cells, of.cells, device=device) < 0.02).float()
    # In full precision: shortened products differ by more than the order of sums.
    with torch.backends.cudnn.flags(allow_tf32=False):
        apart = (network(x, clock, condition) - patchwise(network, x, clock, condition)).abs().max()
    whole = speed(partial(network, x, clock, condition), batch, seconds)
    patches = speed(partial(patchwise, network, x, clock, condition), batch, seconds)
    return {
        "images_per_second@one_pass": whole,
        "images_per_second@patch_by_patch": patches,
        "ratio@patch_by_patch": over(whole, patches),
        "largest_difference": known(apart.item(), n=x.numel()),
    }
