"""What a tokenizer keeps of images, and whether it uses all that it has for it."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from recombine.measure.fidelity import psnr
from recombine.measurement import Measurement

BEST = 100.0
"""Decibel that are said of an image made anew without any error."""
FEWEST = 0.1
"""A codebook has collapsed if its perplexity is a smaller share of its codes than this."""
EXPLAINED = 0.5
"""A channel is in use if images explain this share of its variance; the rest is noise."""


def reconstruction(
    again: Float[Tensor, "batch channel height width"],
    image: Float[Tensor, "batch channel height width"],
) -> dict[str, Measurement]:
    """Return how far images made anew are from the images, in [0, 1]: mean over images."""
    error = (again - image).abs().flatten(1).mean(dim=1)
    decibel = psnr(again, image).clamp(max=BEST)
    return {
        "absolute_error": Measurement.mean(error.tolist()),
        "psnr": Measurement.mean(decibel.tolist()),
    }


def codebook_use(ids: Int[Tensor, "batch row column"], codes: int) -> dict[str, Measurement]:
    """Return the share of codes that these images use, and the perplexity of the codes' law.

    The share is a fact about these images, so it has no interval. The entropy is the mean of
    -log share over tokens; its interval is from image to image, and that of perplexity is its exp.
    """
    share = _shares(ids, codes)
    surprise = -share.log()[ids].flatten(1).mean(dim=1)
    entropy = Measurement.mean(surprise.tolist())
    assert entropy.low is not None
    assert entropy.high is not None
    value, low, high = (math.exp(each) for each in (entropy.value, entropy.low, entropy.high))
    return {
        "codes_used": Measurement(int((share > 0).sum()) / codes, None, None, n=len(ids)),
        "perplexity": Measurement(value, low, high, n=len(ids)),
    }


def codebook_alarm(ids: Int[Tensor, "batch row column"], codes: int) -> str | None:
    """Return what to do about a codebook that has collapsed, or None if it has not."""
    share = _shares(ids, codes)
    perplexity = math.exp(torch.special.entr(share).sum())
    # A few tokens cannot show more codes than there are tokens.
    if perplexity >= FEWEST * min(codes, ids.numel()):
        return None
    return (
        f"codebook collapsed: {int((share > 0).sum())} of {codes} codes in use, "
        f"perplexity {perplexity:.1f}; train longer, use fewer codes or revive sooner"
    )


def seen_at(ids: Int[Tensor, "batch row column"], codes: int) -> Bool[Tensor, "row column {codes}"]:
    """Tell which codes these images have at each place."""
    return one_hot(ids.long(), codes).bool().any(dim=0)


def unseen_share(
    ids: Int[Tensor, "batch row column"], seen: Bool[Tensor, "row column code"]
) -> Measurement:
    """Return the share of tokens whose code was never seen at their place: mean over images.

    Where there is none, or nothing else, images do not differ and there is no interval.
    """
    share = _unseen(ids, seen).double().flatten(1).mean(dim=1)
    if (share == share[0]).all():
        return Measurement(float(share[0]), None, None, n=len(share))
    return Measurement.mean(share.tolist())


def nearest_seen(
    ids: Int[Tensor, "batch row column"],
    seen: Bool[Tensor, "row column code"],
    vectors: Float[Tensor, "code latent"],
) -> Int[Tensor, "batch row column"]:
    """Return the ids with each that was never seen at its place replaced by the nearest that was.

    Nearest by the distance of the codes' vectors. What is left is within reach of a model that
    puts no code where it never saw one.
    """
    if not seen.any(dim=-1).all():
        raise ValueError("the nearest seen code needs a code at every place; a place has none")
    # Not by a matrix product, whose rounding can change which is nearest.
    far = torch.cdist(vectors, vectors, compute_mode="donot_use_mm_for_euclid_dist")[ids]
    # A code that was seen there is the nearest to itself.
    return far.masked_fill(~seen, torch.inf).argmin(dim=-1)


def _unseen(ids: Tensor, seen: Tensor) -> Tensor:
    return ~seen.expand(len(ids), *seen.shape).gather(-1, ids[..., None].long())[..., 0]


def latent_use(
    mean: Float[Tensor, "batch latent row column"], logvar: Float[Tensor, "batch latent row column"]
) -> dict[str, Measurement]:
    """Return the share of channels in use by KL latents, and the spread of their means.

    The spread is over images and places, about the mean of each channel: what a model of latents
    has to be told, as nothing fixes their scale.
    """
    spread = mean.double().var(dim=(0, 2, 3), correction=0).mean().sqrt()
    used = Measurement(_used(mean, logvar) / mean.shape[1], None, None, n=len(mean))
    return {
        "channels_used": used,
        "latent_spread": Measurement(float(spread), None, None, n=len(mean)),
    }


def latent_alarm(
    mean: Float[Tensor, "batch latent row column"], logvar: Float[Tensor, "batch latent row column"]
) -> str | None:
    """Return what to do about KL latents of which most channels say nothing, or None."""
    used, channels = _used(mean, logvar), mean.shape[1]
    if 2 * used >= channels:
        return None
    return (
        f"latent collapsed: {used} of {channels} channels tell images apart; "
        f"train longer or lower the weight of KL"
    )


def _shares(ids: Tensor, codes: int) -> Float[Tensor, " code"]:
    """Return the share of the tokens that each code has."""
    if ids.numel() == 0:
        raise ValueError("the use of codes needs an image; got none")
    if not 0 <= int(ids.min()) <= int(ids.max()) < codes:
        raise ValueError(f"ids are from 0 to {codes - 1}; got {int(ids.min())} to {int(ids.max())}")
    return torch.bincount(ids.flatten(), minlength=codes).double() / ids.numel()


def _used(mean: Tensor, logvar: Tensor) -> int:
    """Return how many channels differ more between images, place by place, than by noise."""
    if len(mean) < 2:
        raise ValueError(f"what tells images apart needs 2 images or more; got {len(mean)}")
    between = mean.double().var(dim=0).mean(dim=(1, 2))
    noise = logvar.double().exp().mean(dim=(0, 2, 3))
    return int((between >= EXPLAINED * (between + noise)).sum())
