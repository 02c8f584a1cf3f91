"""What a model sees of an image: pixels, or what a shipped tokenizer makes of them.

A view leads both ways: called with images it returns what the model learns from, and `back` turns
what a model drew into images in [0, 1]. What was drawn can be kept in 8 bits a number: `stored`,
then `restored`; `decoder` is the digest of the weights behind `back`, if there are some.
"""

from dataclasses import dataclass
from functools import cache
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from recombine import zoo
from recombine.models.tokenizer import Autoencoder, AutoencoderModule
from recombine.spelling import spelled

CEILING = 0.98
"""The least share of reconstructions of any composition that are read right."""
REACH = 6.0
"""Latents are kept from -REACH to REACH; they are spread by about 1."""


@runtime_checkable
class View(Protocol):
    """From images in [0, 1] to what a model sees, and back. A view is a value."""

    def __call__(self, image: Tensor, /) -> Tensor: ...

    def __hash__(self) -> int: ...

    def back(self, x: Tensor, /) -> Tensor: ...


def _in_bytes(x: Tensor, low: float, high: float) -> Tensor:
    """Return numbers from low to high as the nearest of 256 steps; others as the first or last."""
    return (((x - low) / (high - low)).clamp(0, 1) * 255).round().to(torch.uint8)


def _of_bytes(stored: Tensor, low: float, high: float) -> Tensor:
    return low + (high - low) * stored.float() / 255


@dataclass(frozen=True)
class Unchanged:
    """Images as they are, in [0, 1]."""

    def __call__(self, image: Float[Tensor, " batch *image"]) -> Float[Tensor, " batch *image"]:
        return image

    def back(self, x: Float[Tensor, " batch *image"]) -> Float[Tensor, " batch *image"]:
        """Return the image itself."""
        return x

    def stored(self, x: Float[Tensor, " batch *image"]) -> UInt8[Tensor, " batch *image"]:
        """Return what was drawn in 8 bits a number."""
        return _in_bytes(x, 0.0, 1.0)

    def restored(self, stored: UInt8[Tensor, " batch *image"]) -> Float[Tensor, " batch *image"]:
        """Return what was stored, as it was drawn."""
        return _of_bytes(stored, 0.0, 1.0)

    @property
    def decoder(self) -> str:
        """No weights stand behind these images."""
        return ""


@dataclass(frozen=True)
class Centred:
    """Images in [-1, 1]."""

    def __call__(self, image: Float[Tensor, " batch *image"]) -> Float[Tensor, " batch *image"]:
        return 2 * image - 1

    def back(self, x: Float[Tensor, " batch *image"]) -> Float[Tensor, " batch *image"]:
        """Return the image in [0, 1], if nothing overshoots."""
        return (x + 1) / 2

    def stored(self, x: Float[Tensor, " batch *image"]) -> UInt8[Tensor, " batch *image"]:
        """Return what was drawn in 8 bits a number."""
        return _in_bytes(x, -1.0, 1.0)

    def restored(self, stored: UInt8[Tensor, " batch *image"]) -> Float[Tensor, " batch *image"]:
        """Return what was stored, as it was drawn."""
        return _of_bytes(stored, -1.0, 1.0)

    @property
    def decoder(self) -> str:
        """No weights stand behind these images."""
        return ""


@dataclass(frozen=True)
class Latents:
    """The latents of a shipped tokenizer, or the vectors of its codes, spread by about 1.

    By how much they spread of themselves is in the tokenizer's record. Drawn latents go straight
    to the decoder: they need not be vectors of codes.
    """

    name: str
    of: Autoencoder

    @torch.no_grad()
    def __call__(
        self, image: Float[Tensor, "batch 3 height width"]
    ) -> Float[Tensor, "batch latent row column"]:
        network = tokenizer(self.name, self.of, image.device)
        latent = network.encode(2 * image - 1)
        if self.of.codes is not None:
            latent = network.quantized(latent)[1]
        return latent / self.spread

    @torch.no_grad()
    def back(
        self, x: Float[Tensor, "batch latent row column"]
    ) -> Float[Tensor, "batch 3 height width"]:
        """Return the images of latents."""
        return (tokenizer(self.name, self.of, x.device).decode(x * self.spread) + 1) / 2

    @property
    def fingerprint(self) -> str:
        """What a training depends on: the weights of the tokenizer and not its name."""
        return fingerprint(self)

    def stored(
        self, x: Float[Tensor, "batch latent row column"]
    ) -> UInt8[Tensor, "batch latent row column"]:
        """Return latents in 8 bits a number, from -REACH to REACH."""
        return _in_bytes(x, -REACH, REACH)

    def restored(
        self, stored: UInt8[Tensor, "batch latent row column"]
    ) -> Float[Tensor, "batch latent row column"]:
        """Return stored latents."""
        return _of_bytes(stored, -REACH, REACH)

    @property
    def decoder(self) -> str:
        """The digest of the tokenizer's weights."""
        return zoo.digest(self.name)

    @property
    def spread(self) -> float:
        """The standard deviation of the latents of the images the tokenizer has learned from."""
        return _spread(self.name)

    def vectors(self) -> Float[Tensor, "code latent"]:
        """Return the vectors of all codes as a model sees them; on the CPU."""
        return codebook(self.name, self.of) / self.spread


@dataclass(frozen=True)
class Codes:
    """The numbers of a shipped tokenizer's codes."""

    name: str
    of: Autoencoder

    @property
    def fingerprint(self) -> str:
        """What a training depends on: the weights of the tokenizer and not its name."""
        return fingerprint(self)

    @torch.no_grad()
    def __call__(
        self, image: Float[Tensor, "batch 3 height width"]
    ) -> Int[Tensor, "batch row column"]:
        return tokenizer(self.name, self.of, image.device).ids(2 * image - 1)

    @torch.no_grad()
    def back(self, x: Int[Tensor, "batch row column"]) -> Float[Tensor, "batch 3 height width"]:
        """Return the images of codes."""
        network = tokenizer(self.name, self.of, x.device)
        return (network.decode(network.vectors(x)) + 1) / 2

    def stored(self, x: Int[Tensor, "batch row column"]) -> UInt8[Tensor, "batch row column"]:
        """Return codes as bytes."""
        if self.of.codes is None or self.of.codes > 256:
            raise ValueError(f"a byte holds up to 256 codes; got {self.of.codes}")
        return x.to(torch.uint8)

    def restored(
        self, stored: UInt8[Tensor, "batch row column"]
    ) -> Int[Tensor, "batch row column"]:
        """Return the codes."""
        return stored.long()

    @property
    def decoder(self) -> str:
        """The digest of the tokenizer's weights."""
        return zoo.digest(self.name)

    def vectors(self) -> Float[Tensor, "code latent"]:
        """Return the vectors of all codes, about their mean and spread by 1; on the CPU."""
        book = codebook(self.name, self.of)
        away = book - book.mean(dim=0)
        return away / away.square().mean().sqrt()


def fingerprint(view: Latents | Codes) -> str:
    """Return the kind of a view, its tokenizer as declared, and the digest of its weights."""
    return f"{type(view).__name__}({spelled(view.of)}, weights={zoo.digest(view.name)})"


def codebook(name: str, of: Autoencoder) -> Float[Tensor, "code latent"]:
    """Return the vectors of all codes of a shipped tokenizer; on the CPU."""
    if of.codes is None:
        raise ValueError(f"codes are of a tokenizer that has some; {name} has latents")
    # The caller may be counting parameters on the meta device.
    with torch.device("cpu"):
        return tokenizer(name, of, torch.device("cpu")).codebook.detach()


def check(view: View, fixed: bool = False) -> None:
    """Refuse a view whose tokenizer is not shipped or loses compositions, before any training.

    With `fixed` it is for images whose shapes stand in the middle.
    """
    if not isinstance(view, Latents | Codes):
        return
    known = zoo.load(view.name).facts["measured"]
    if (least := known.get("read_least" + "_fixed" * fixed, (1.0,))[0]) < CEILING:
        raise ValueError(
            f"{view.name} keeps only {least:.3f} of the images of one composition; a tokenizer "
            f"keeps at least {CEILING} of each"
        )


@cache
def _spread(name: str) -> float:
    """Read how far a tokenizer's latents spread; once, as every training step needs it."""
    return float(zoo.measured(name, "latent_spread").value)


# What is kept must do for gradients, also when inference needs it first.
@cache
@torch.inference_mode(False)
def tokenizer(name: str, of: Autoencoder, device: torch.device) -> AutoencoderModule:
    """Return a shipped tokenizer on a device; it is read from disk once."""
    # A network that is built around it must draw the same fresh weights each time.
    with torch.random.fork_rng(devices=[]):
        network = of.build()
    return zoo.filled(network, zoo.path(name)).to(device).requires_grad_(False)
