"""What a tokenizer keeps of images, and whether it uses all that it has for it."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recombine.measure.behaviour import Autoencodes, Reconstruction
from recombine.measure.fidelity import psnr
from recombine.measure.renders import fresh, single_object_world
from recombine.measure.subject import Findings, Subject, inapplicable
from recombine.measurement import Measurement
from recombine.split import Split
from recombine.worlds.shapes2d import BINARY

BEST = 100.0
"""The decibels of an image that is reconstructed without any error."""
FEWEST = 0.1
"""A codebook has collapsed if its perplexity is a smaller share of its codes than this."""
EXPLAINED = 0.5
"""A channel is in use if images explain this share of its variance; the rest is noise."""


@dataclass(frozen=True)
class Tokenizing:
    """Reconstruct so many fresh renders of every composition, level by level.

    A tokenizer learns from seen compositions; what it makes of the others bounds every model that
    samples in its latents.
    """

    split: Split = BINARY
    samples: int = 64

    name: ClassVar[str] = "tokenizing"

    def __call__(self, subject: Subject, generator: torch.Generator) -> Findings:
        """Render, reconstruct and compare."""
        del generator
        view, network = subject.training.view, subject.training.network
        if not isinstance(network, Autoencodes):
            raise inapplicable(self.name, "tokenizers", network)
        world = single_object_world(self.name, subject.training, self.split)
        measured: dict[str, Measurement] = {}
        alarms: list[str] = []
        images = {}
        for level in self.split.levels:
            every = self.split.at(level)
            image = torch.cat([fresh(world, each, self.samples, subject.device) for each in every])
            coded = reconstructed(subject, view(image))
            again = view.back(coded.image).float().clamp(0, 1)
            found = reconstruction(again, image)
            measured |= {f"{name}@level{level}": each for name, each in found.items()}
            images[f"level{level}"] = torch.cat([image[:: self.samples], again[:: self.samples]])
            if level == 0:
                used, alarm = in_use(coded, network.codes)
                measured |= {**found, **used}
                alarms += [alarm] if alarm else []
        return Findings(measured, images=images, alarms=tuple(alarms))

    def tiny(self) -> "Tokenizing":
        """Return the same measurement with few samples."""
        return replace(self, samples=2)


def reconstructed(subject: Subject, seen: Tensor) -> Reconstruction:
    """Return what a tokenizer makes of images, which is all that it is called with."""
    tokenizer: Any = subject.denoiser
    return tokenizer(seen)


def in_use(coded: Reconstruction, codes: int | None) -> tuple[dict[str, Measurement], str | None]:
    """Return how much of the latents is used and how far they spread, and an alarm if collapsed."""
    if coded.ids is None or coded.vectors is None or codes is None:
        if coded.logvar is None:
            raise ValueError("continuous latents have a variance; got none")
        latent, logvar = coded.latent.float(), coded.logvar.float()
        return latent_use(latent, logvar), latent_alarm(latent, logvar)
    vectors = coded.vectors.double()
    spread = vectors.var(dim=(0, 2, 3), correction=0).mean().sqrt()
    used = {
        **codebook_use(coded.ids, codes),
        "latent_spread": Measurement(float(spread), None, None, n=len(vectors)),
    }
    return used, codebook_alarm(coded.ids, codes)


def reconstruction(
    again: Float[Tensor, "batch channel height width"],
    image: Float[Tensor, "batch channel height width"],
) -> dict[str, Measurement]:
    """Return how far reconstructions are from the images, in [0, 1]: mean over images."""
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
    return {
        "codes_used": Measurement(int((share > 0).sum()) / codes, None, None, n=len(ids)),
        "perplexity": Measurement.mean(surprise.tolist()).mapped(math.exp),
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


def latent_use(
    mean: Float[Tensor, "batch latent row column"], logvar: Float[Tensor, "batch latent row column"]
) -> dict[str, Measurement]:
    """Return the share of channels in use by KL latents, and the spread of their means.

    The spread is over images and places, about the mean of each channel: a model of latents has to
    know it, as nothing fixes their scale.
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
    """Return what to do about KL latents of which most channels are noise, or None."""
    used, channels = _used(mean, logvar), mean.shape[1]
    if 2 * used >= channels:
        return None
    return (
        f"latent collapsed: {used} of {channels} channels differ between images; "
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
        raise ValueError(f"how much images differ needs 2 images or more; got {len(mean)}")
    between = mean.double().var(dim=0).mean(dim=(1, 2))
    noise = logvar.double().exp().mean(dim=(0, 2, 3))
    return int((between >= EXPLAINED * (between + noise)).sum())
