"""The reader of CLEVR-like images: it finds the centre and the concepts of every object.

A map of cells describes the image: how surely a centre is in the cell, where in the cell, and
which concept of each factor the object there has (objects as points, Zhou et al. 2019).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from recombine.models.blocks import Residual, rms, zeroed
from recombine.models.entry import check_counts, check_image
from recombine.models.known import knows
from recombine.reader import Found
from recombine.scene import Factor
from recombine.worlds.clevr import Clevr

AT_ONCE = 64
"""Images that are read together."""
UNSURE = -4.0
"""The logit of a centre before training: nearly every cell has none."""


@dataclass(frozen=True)
class Detector:
    """A network for images of `size` pixels whose output is a map of half that side.

    Each further level halves the side; `blocks` and `widths` are from the finest to the coarsest.
    """

    size: int = 128
    widths: tuple[int, ...] = (48, 64, 96, 80)
    blocks: tuple[int, ...] = (1, 2, 1, 1)
    factors: tuple[Factor, ...] = Clevr.factors

    def __post_init__(self) -> None:
        check_counts(self)
        if len(self.widths) != len(self.blocks) or min(*self.widths, *self.blocks, 1) < 1:
            raise ValueError(
                f"each level has a width and blocks; got {self.widths} and {self.blocks}"
            )
        if self.size % (shrunk := 2 ** len(self.widths)):
            raise ValueError(f"a side of {self.size} pixels cannot be shrunk {shrunk}-fold")

    @property
    def side(self) -> int:
        """The side of the output map."""
        return self.size // 2

    @property
    def channels(self) -> int:
        """The outputs of each cell: a centre, where in the cell, and every concept."""
        return 3 + sum(len(factor.concepts) for factor in self.factors)

    def build(self) -> "DetectorModule":
        """Return the network with fresh weights."""
        return DetectorModule(self)

    def object_reader(
        self, network: Callable[..., Tensor], threshold: float | None = None
    ) -> "DetectorReader":
        """Return the reader that these weights make; without a threshold, with its default."""
        reader = DetectorReader(network, self)
        return reader if threshold is None else replace(reader, threshold=threshold)


class DetectionMap(NamedTuple):
    """An output map in its parts; `within` is the way from the middle of a cell, in cells."""

    centre: Float[Tensor, "batch row column"]
    within: Float[Tensor, "batch 2 row column"]
    concepts: tuple[Float[Tensor, "batch concept row column"], ...]


def parts(
    output: Float[Tensor, "batch channel row column"], factors: tuple[Factor, ...]
) -> DetectionMap:
    """Split an output map into its parts; everything but `within` is a logit."""
    counts = [len(factor.concepts) for factor in factors]
    centre, within, *concepts = output.split([1, 2, *counts], dim=1)
    return DetectionMap(centre[:, 0], within, tuple(concepts))


class DetectorModule(nn.Module):
    """The weights of a `Detector`."""

    def __init__(self, of: Detector) -> None:
        super().__init__()
        self.of = of
        widths = of.widths
        self.inlet = nn.Conv2d(12, widths[0], 3, padding=1)
        self.down = nn.ModuleList(map(level, widths, of.blocks))
        self.shrink = nn.ModuleList(nn.Conv2d(a, b, 2, stride=2) for a, b in pairwise(widths))
        self.up = nn.ModuleList(map(level, widths[:-1], of.blocks[:-1]))
        self.grow = nn.ModuleList(
            nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in pairwise(widths)
        )
        self.skip = nn.ModuleList(nn.Conv2d(width, width, 1, bias=False) for width in widths[:-1])
        self.summary = nn.Conv2d(widths[0], 64, 3, padding=1)
        self.outlet = zeroed(nn.Conv2d(64, of.channels, 1))
        nn.init.constant_(self.outlet.get_parameter("bias")[:1], UNSURE)

    def forward(
        self, image: Float[Tensor, "batch 3 height width"]
    ) -> Float[Tensor, "batch channel row column"]:
        """Return the output map of images in [0, 1]."""
        check_image(image, 3, self.of.size)
        hidden = self.inlet(F.pixel_unshuffle(2 * image - 1, 2))
        skips = []
        for index, blocks in enumerate(self.down):
            hidden = blocks(self.shrink[index - 1](hidden) if index else hidden)
            skips.append(hidden)
        for index in reversed(range(len(self.up))):
            hidden = self.grow[index](hidden) + self.skip[index](skips[index])
            hidden = self.up[index](hidden)
        summary = F.silu(rms(self.summary(F.silu(rms(hidden, 1))), 1))
        # Not in bf16: neighbouring cells would tie.
        with torch.autocast(image.device.type, enabled=False):
            return self.outlet(summary.to(self.outlet.weight.dtype))


def level(width: int, blocks: int) -> nn.Sequential:
    """Return the blocks of one level."""
    return nn.Sequential(*(ConvolutionBlock(width) for _ in range(blocks)))


class ConvolutionBlock(nn.Module):
    """A residual block with a shift and a scale of its own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.residual = Residual(width)
        self.modulation = nn.Parameter(torch.zeros(1, 2 * width, 1, 1))

    def forward(
        self, x: Float[Tensor, "batch width height width_"]
    ) -> Float[Tensor, "batch width height width_"]:
        return self.residual(x, self.modulation.to(x.dtype).expand(len(x), -1, -1, -1))


class Frame(NamedTuple):
    """Where an image lies in the square it was put into, in pixels of the square."""

    side: int
    left: int
    top: int
    width: int
    height: int

    def back(self, place: Float[Tensor, "*any 2"]) -> Float[Tensor, "*any 2"]:
        """Return places in the square, from 0 to 1, as places in the image."""
        corner = place.new_tensor([self.left, self.top])
        return (place * self.side - corner) / place.new_tensor([self.width, self.height])


def prepared(
    images: Float[Tensor, "batch 3 height width"], size: int
) -> tuple[Float[Tensor, "batch 3 size size"], Frame]:
    """Return images of any size as squares of this side, and where in them the images lie.

    The larger side of an image sets CLEVR's field of view, so it fills the square; beyond the
    other one the border is repeated.
    """
    height, width = images.shape[2:]
    longer = max(height, width)
    if min(height, width) < 1:
        raise ValueError(f"an image has at least 1 pixel; got {width} x {height}")
    shown = [max(1, round(size * side / longer)) for side in (height, width)]
    top, left = ((size - side) // 2 for side in shown)
    frame = Frame(size, left, top, shown[1], shown[0])
    scaled = resized(images.clamp(0, 1), *shown)
    beyond = (left, size - left - shown[1], top, size - top - shown[0])
    return F.pad(scaled, beyond, mode="replicate"), frame


def resized(
    images: Float[Tensor, "batch 3 height width"], height: int, width: int
) -> Float[Tensor, "batch 3 new_height new_width"]:
    """Return images at another size; no detail turns into a pattern when they shrink."""
    if images.shape[2:] == (height, width):
        return images
    return F.interpolate(images, (height, width), mode="bilinear", antialias=True)


@dataclass(frozen=True)
class DetectorReader:
    """Finds objects in images of any size; those below `threshold` in confidence are left out.

    At most `most` objects are found in an image, the surest first.
    """

    network: Callable[..., Tensor]
    of: Detector = Detector()
    threshold: float = 0.4
    most: int = 24

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"a threshold lies in [0, 1]; got {self.threshold}")
        if not 1 <= self.most <= self.of.side**2:
            raise ValueError(f"at least 1 object is found, at most one a cell; got {self.most}")

    @torch.no_grad()
    def __call__(self, images: Float[Tensor, "batch 3 height width"]) -> Found:
        """Return what is in the images, on their device."""
        if not len(images):
            raise ValueError("a reader reads at least 1 image; got none")
        found = [self._read(some) for some in images.split(AT_ONCE)]
        return Found(*(torch.cat(each) for each in zip(*found, strict=True)))

    def _read(self, images: Float[Tensor, "batch 3 height width"]) -> tuple[Tensor, ...]:
        square, frame = prepared(images, self.of.size)
        square = square.contiguous(memory_format=torch.channels_last)
        found = decoded(self.network(square), self.of.factors, self.most)
        place = frame.back(found.place)
        inside = (place >= 0).all(dim=-1) & (place < 1).all(dim=-1)
        sure = found.present & inside & (found.confidence >= self.threshold)
        # What is left out may stand between what is not: the present come first.
        order = (~sure).byte().argsort(dim=1, stable=True)
        return (
            place.take_along_dim(order[..., None], 1),
            found.concepts.take_along_dim(order[..., None], 1),
            found.confidence.gather(1, order),
            sure.gather(1, order),
            knows(square, found.confidence, sure),
        )


def decoded(
    output: Float[Tensor, "batch channel row column"], factors: tuple[Factor, ...], most: int
) -> Found:
    """Return the peaks of the map, the surest first; places are from 0 to 1 in the map."""
    centre, within, concepts = parts(output.float(), factors)
    side = centre.shape[-1]
    confidence, cell = _peaks(centre).flatten(1).topk(most, dim=1)
    corner = torch.stack([cell % side, cell // side], dim=-1)
    place = (corner + 0.5 + at(within, cell)) / side
    chosen = [at(each, cell).argmax(dim=-1) for each in concepts]
    return Found(place, torch.stack(chosen, dim=-1), confidence.clamp(min=0), confidence >= 0)


def at(
    maps: Float[Tensor, "batch channel row column"], cell: Int[Tensor, "batch object"]
) -> Float[Tensor, "batch object channel"]:
    """Return the values of maps at some cells, which are counted row by row."""
    index = cell[:, None].expand(-1, maps.shape[1], -1)
    return maps.flatten(2).gather(2, index).transpose(1, 2)


def _peaks(centre: Float[Tensor, "batch row column"]) -> Float[Tensor, "batch row column"]:
    """Return the probability of a centre where none of the eight cells around is surer, else -1."""
    # Of cells that tie the pooling returns the first, so a plateau has one peak.
    _, surest = F.max_pool2d(centre[:, None], 3, stride=1, padding=1, return_indices=True)
    own = torch.arange(centre[0].numel(), device=centre.device).reshape(centre[0].shape)
    return torch.where(surest[:, 0] == own, centre.sigmoid(), -1)
