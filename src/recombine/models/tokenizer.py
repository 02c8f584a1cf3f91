"""Autoencoders for images: 4 x 4 pixels become a latent, a real vector (KL) or one of some codes.

The quantizer is our own: it is captured in a CUDA graph and kept in our checkpoints, while
vector-quantize-pytorch reads numbers back during a step.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from recombine.models.blocks import closeness, rms
from recombine.models.detector import ConvolutionBlock
from recombine.models.entry import check_counts, check_image

DOWNSAMPLING = 4
"""Pixels to a side of what becomes one latent."""
LOGVAR = (-30.0, 20.0)
"""The least and the largest logarithm of a latent's variance, so that none overflows."""
DEAD = 2**30
"""Steps for which a fresh code counts as unused."""


@dataclass(frozen=True)
class Autoencoder:
    """A convolutional autoencoder of square images, with so many `codes` or a KL latent (None)."""

    size: int = 28
    channels: int = 3
    latent: int = 8
    width: int = 64
    codes: int | None = 256

    def __post_init__(self) -> None:
        check_counts(self)
        if self.size % DOWNSAMPLING:
            raise ValueError(
                f"a side of {self.size} is not divisible by {DOWNSAMPLING}, the downsampling"
            )

    @property
    def side(self) -> int:
        """The side of the grid of latents."""
        return self.size // DOWNSAMPLING

    def build(self) -> "AutoencoderModule":
        """Return the network with fresh weights."""
        return AutoencoderModule(self)


class Coded(NamedTuple):
    """A reconstruction, and what it was made of; the parts of the other kind are None.

    `latent` is the mean of a KL latent, or what codes are chosen for.
    """

    image: Float[Tensor, "batch channel height width"]
    latent: Float[Tensor, "batch latent row column"]
    logvar: Float[Tensor, "batch latent row column"] | None = None
    ids: Int[Tensor, "batch row column"] | None = None
    vectors: Float[Tensor, "batch latent row column"] | None = None


class AutoencoderModule(nn.Module):
    """The weights of an `Autoencoder`; images are in [-1, 1], but an output may overshoot.

    The codes are a parameter, as a run averages parameters and nothing else. `idle` counts the
    steps since each code was used: training changes it, and that of an average stays fresh.
    """

    def __init__(self, of: Autoencoder) -> None:
        super().__init__()
        self.of = of
        width, wide = of.width, 2 * of.width
        self.encoder = nn.Sequential(
            nn.PixelUnshuffle(2),
            nn.Conv2d(4 * of.channels, width, 3, padding=1),
            ConvolutionBlock(width),
            nn.Conv2d(width, wide, 2, stride=2),
            ConvolutionBlock(wide),
        )
        self.summary = of_unit_gain(nn.Conv2d(wide, of.latent * (2 if of.codes is None else 1), 1))
        self.decoder = nn.Sequential(
            of_unit_gain(nn.Conv2d(of.latent, wide, 3, padding=1)),
            ConvolutionBlock(wide),
            nn.ConvTranspose2d(wide, width, 2, stride=2),
            ConvolutionBlock(width),
        )
        self.outlet = nn.Conv2d(width, 4 * of.channels, 3, padding=1)
        self.idle: Tensor
        if of.codes is not None:
            self.codebook = nn.Parameter(torch.randn(of.codes, of.latent))
            # Dead from the start: the first batch fills the codebook.
            self.register_buffer("idle", torch.full((of.codes,), DEAD))

    def forward(
        self,
        image: Float[Tensor, "batch channel height width"],
        noise: Float[Tensor, "batch latent row column"] | None = None,
    ) -> Coded:
        """Return reconstructions; KL latents are drawn with unit `noise`, if given."""
        latent, logvar = self._encoded(image)
        if logvar is not None:
            drawn = latent if noise is None else latent + (logvar / 2).exp() * noise
            return Coded(self.decode(drawn), latent, logvar)
        ids, vectors = self.quantized(latent)
        # The vectors to the bit; their gradient goes to the latents as it is.
        straight_through = vectors.detach() + (latent - latent.detach())
        return Coded(self.decode(straight_through), latent, ids=ids, vectors=vectors)

    def encode(
        self, image: Float[Tensor, "batch channel height width"]
    ) -> Float[Tensor, "batch latent row column"]:
        """Return the mean of a KL latent, or the latent before it becomes a code."""
        return self._encoded(image)[0]

    def quantized(
        self, latent: Float[Tensor, "batch latent row column"]
    ) -> tuple[Int[Tensor, "batch row column"], Float[Tensor, "batch latent row column"]]:
        """Return the nearest code of each latent: its number, and its vector."""
        # Not in bf16: neighbouring codes would tie.
        with torch.no_grad(), torch.autocast(latent.device.type, enabled=False):
            places = latent.movedim(1, -1).to(self.codebook.dtype)
            ids = closeness(places, self.codebook).argmax(dim=-1)
        return ids, self.vectors(ids).to(latent.dtype)

    def ids(
        self, image: Float[Tensor, "batch channel height width"]
    ) -> Int[Tensor, "batch row column"]:
        """Return images as numbers of codes."""
        return self.quantized(self.encode(image))[0]

    def vectors(
        self, ids: Int[Tensor, "batch row column"]
    ) -> Float[Tensor, "batch latent row column"]:
        """Return the vectors of these codes."""
        return F.embedding(ids, self.codebook).movedim(-1, 1)

    def decode(
        self, latent: Float[Tensor, "batch latent row column"]
    ) -> Float[Tensor, "batch channel height width"]:
        """Return the images that latents, or the vectors of codes, stand for."""
        hidden = self.decoder(latent)
        return F.pixel_shuffle(self.outlet(F.silu(rms(hidden, 1))), 2).to(latent.dtype)

    @torch.no_grad()
    def revive(
        self,
        latent: Float[Tensor, "batch latent row column"],
        ids: Int[Tensor, "batch row column"],
        picks: Int[Tensor, " code"],
        after: int,
    ) -> None:
        """Count unused codes, and put the dead ones where the latents of this batch are.

        A code is dead once it was not used for more than `after` steps, and until it is used
        again. A dead code takes the latent of the batch that `picks` gives it.
        """
        idle = (self.idle + 1).index_fill(0, ids.flatten(), 0)
        places = latent.movedim(1, -1).flatten(0, 2).to(self.codebook.dtype)
        dead = (idle > after)[:, None]
        self.codebook.copy_(torch.where(dead, places[picks], self.codebook))
        self.idle.copy_(idle)

    def _encoded(self, image: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return latents, and the logarithm of their variances if these are KL latents."""
        check_image(image, self.of.channels, self.of.size)
        hidden = F.silu(rms(self.encoder(image), 1))
        # Not in bf16: it does not resolve codes that are close.
        with torch.autocast(image.device.type, enabled=False):
            summary = self.summary(hidden.to(self.summary.weight.dtype)).to(image.dtype)
        if self.of.codes is not None:
            return summary, None
        latent, logvar = summary.chunk(2, dim=1)
        return latent, logvar.clamp(*LOGVAR)


def of_unit_gain(layer: nn.Conv2d) -> nn.Conv2d:
    """Start a layer so that it keeps the scale of its input and adds nothing to it.

    Small latents are drowned by biases and noise, and two colours stay one for hundreds of steps.
    """
    for name, parameter in layer.named_parameters():
        if name == "bias":
            nn.init.zeros_(parameter)
        else:
            nn.init.normal_(parameter, std=parameter[0].numel() ** -0.5)
    return layer
