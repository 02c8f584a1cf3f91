"""What a tokenizer keeps of images, and whether it uses all that it has for it."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recombine.measure.renders import SingleObjectWorld, fresh, single_object_world
from recombine.measure.subject import Findings, Subject, inapplicable
from recombine.measurement import Measurement
from recombine.scene import concept_rows
from recombine.spelling import LATER
from recombine.split import Split
from recombine.worlds.shapes2d import BINARY, Shapes2D

LEAST = "read_least"
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
    samples in its latents. With `read`, the reader by rendering reads so many reconstructions of
    every composition: `read` is how many are right and valid, `read_least` those of the worst one
    (`_fixed`: with every shape in the middle).
    """

    split: Split = BINARY
    samples: int = 64
    read: int = field(default=0, metadata={LATER: True})

    name: ClassVar[str] = "tokenizing"

    def __call__(self, subject: Subject, generator: torch.Generator) -> Findings:
        """Render, reconstruct and compare."""
        del generator
        view, network = subject.training.view, subject.training.network
        if not (hasattr(network, "codes") and hasattr(network, "latent")):
            raise inapplicable(self.name, "tokenizers", network)
        world = single_object_world(self.name, subject.training, self.split)
        tokenizer: Any = subject.denoiser
        measured: dict[str, Measurement] = {}
        alarms: list[str] = []
        images = {}
        for level in self.split.levels:
            every = self.split.at(level)
            image = torch.cat([fresh(world, each, self.samples, subject.device) for each in every])
            coded = tokenizer(view(image))
            again = view.back(coded.image).float().clamp(0, 1)
            found = reconstruction(again, image)
            measured |= {f"{name}@level{level}": each for name, each in found.items()}
            images[f"level{level}"] = torch.cat([image[:: self.samples], again[:: self.samples]])
            if level == 0:
                if network.codes is None:
                    used, alarm = latent_use(coded.latent, coded.logvar)
                else:
                    used, alarm = codebook_use(coded.ids, network.codes)
                    used |= latent_spread(coded.vectors)
                measured |= {**found, **used}
                alarms += [alarm] if alarm else []
        if self.read:
            measured |= self._readings(subject, world, "")
            if isinstance(world, Shapes2D) and world.shift:
                measured |= self._readings(subject, replace(world, shift=0.0), "_fixed")
        return Findings(measured, images=images, alarms=tuple(alarms))

    def _readings(
        self, subject: Subject, world: SingleObjectWorld, whose: str
    ) -> dict[str, Measurement]:
        """Return how often reconstructions are read as what they are, and of which the least."""
        view, reader = subject.training.view, subject.reader("fit")
        tokenizer: Any = subject.denoiser
        rates: dict[str, list[int]] = {}
        for level in self.split.levels:
            for which in self.split.at(level):
                image = fresh(world, which, self.read, subject.device)
                again = tokenizer(view(image)).image
                read = reader(view.back(again).float().clamp(0, 1))
                true = concept_rows(self.split.factors, (which,)).to(read.rows.device)
                right = int((read.rows == true).all(dim=1).sum())
                rates.setdefault(f"read{whose}@level{level}", []).append(right)
        every = [each for mine in rates.values() for each in mine]
        found = {
            name: Measurement.rate(sum(mine), self.read * len(mine)) for name, mine in rates.items()
        }
        every_one = Measurement.rate(sum(every), self.read * len(every))
        least = Measurement.rate(min(every), self.read)
        return {**found, f"read{whose}": every_one, f"{LEAST}{whose}": least}

    def tiny(self) -> "Tokenizing":
        """Return the same measurement with few samples."""
        return replace(self, samples=2, read=min(self.read, 1))


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


def psnr(
    image: Float[Tensor, "batch channel height width"],
    reference: Float[Tensor, "batch channel height width"],
) -> Float[Tensor, " batch"]:
    """Return the peak signal to noise ratio in decibel, for values in [0, 1]."""
    return -10 * (image - reference).square().mean(dim=(1, 2, 3)).log10()


def codebook_use(
    ids: Int[Tensor, "batch row column"], codes: int
) -> tuple[dict[str, Measurement], str | None]:
    """Return the share of codes that these images use, the perplexity of the codes, and an alarm.

    The share is a fact about these images, so it has no interval. The entropy is the mean of
    -log share over tokens; its interval is from image to image, and that of perplexity is its exp.
    The alarm says what to do about a codebook that has collapsed.
    """
    share = torch.bincount(ids.flatten(), minlength=codes).double() / ids.numel()
    surprise = -share.log()[ids].flatten(1).mean(dim=1)
    used = int((share > 0).sum())
    found = {
        "codes_used": Measurement(used / codes, None, None, n=len(ids)),
        "perplexity": Measurement.mean(surprise.tolist()).mapped(math.exp),
    }
    perplexity = math.exp(torch.special.entr(share).sum())
    # A few tokens cannot show more codes than there are tokens.
    if perplexity >= FEWEST * min(codes, ids.numel()):
        return found, None
    return found, (
        f"codebook collapsed: {used} of {codes} codes in use, perplexity {perplexity:.1f}; "
        "train longer, use fewer codes or revive sooner"
    )


def latent_use(
    mean: Float[Tensor, "batch latent row column"], logvar: Float[Tensor, "batch latent row column"]
) -> tuple[dict[str, Measurement], str | None]:
    """Return the share of channels in use by KL latents, how far these spread, and an alarm.

    A channel is in use if images differ more, place by place, than by noise. The alarm says what to
    do about latents of which most channels are noise.
    """
    between = mean.double().var(dim=0).mean(dim=(1, 2))
    noise = logvar.double().exp().mean(dim=(0, 2, 3))
    used, channels = int((between >= EXPLAINED * (between + noise)).sum()), mean.shape[1]
    found = {"channels_used": Measurement(used / channels, None, None, n=len(mean))}
    found |= latent_spread(mean)
    if 2 * used >= channels:
        return found, None
    return found, (
        f"latent collapsed: {used} of {channels} channels differ between images; "
        "train longer or lower the weight of KL"
    )


def latent_spread(latent: Float[Tensor, "batch latent row column"]) -> dict[str, Measurement]:
    """Return the spread of latents over images and places, about the mean of each channel.

    A model of latents has to know it, as nothing fixes their scale.
    """
    spread = latent.double().var(dim=(0, 2, 3), correction=0).mean().sqrt()
    return {"latent_spread": Measurement(float(spread), None, None, n=len(latent))}
