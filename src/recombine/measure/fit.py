"""A reader of Shapes2D by rendering: which shape, drawn by the world's rasteriser, is this image?

Every flat shape is fitted: place, size and blur start on a grid and are refined by Gauss-Newton
steps, colour is least squares of the missing light in closed form. An image is read only within
limits that true renders set; everything else is "nothing valid". So a reader needs no training,
and what it abstains from is distinct from what it misreads.
"""

from dataclasses import dataclass, fields
from math import log

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from recombine.measure.pose import KINDS, Images, Numbers, Poses, amplitudes, drawn, fits, width
from recombine.render.raster import AREA, FLAT
from recombine.worlds.shapes2d import COLOURS, EXTENT, Shapes2D

CHUNK = {"cpu": 128, "cuda": 4096}
"""So many images are fitted at once, so that memory is bounded."""
BLUR = 1.5
"""A blur of so many pixels is no fault of an image."""


@dataclass(frozen=True)
class Limits:
    """How far an image may be from a render; each limit bears the name of a field of `Fitted`."""

    misfit: float = 0.1
    second_colour: float = 0.12
    size_off: float = 0.04
    colour_off: float = 0.06
    opacity_off: float = 0.1
    blur_off: float = 0.4
    cut: float = 0.3
    ink_off: float = 0.15
    pieces_off: float = 0.5
    margin: float = 2.5

    def scaled(self, factor: float) -> "Limits":
        """Return every limit times a factor: with 0.5, only half as far off is allowed."""
        if not factor > 0:
            raise ValueError(f"limits are multiplied by a factor above 0; got {factor}")
        far = {each.name: getattr(self, each.name) * factor for each in fields(self)}
        return Limits(**far | {"margin": self.margin / factor})


LIMITS = Limits()


@dataclass(frozen=True)
class Fitted:
    """What was fitted to each image; what ends in `_off` is the distance from what is allowed.

    `place` is from the middle and `size` half the side of the square that the shape fills, both in
    pixels, and `blur` is the width of a Gaussian in pixels. `unexplained` is the share of the
    missing light's energy that the fit leaves, `rms` the same per pixel and channel. `misfit` is
    the largest difference in coverage, `second_colour` the largest in colour, over 3 x 3 pixels.
    `margin` is how much more the second-best shape leaves unexplained, in what the best one leaves
    near the shape beyond the noise elsewhere; it is negative if the best is no shape of the world.
    `ink` is in the area of the composition, `pieces` are what is connected, and `cut` is how many
    pixels the shape reaches beyond the border.
    """

    concepts: Int[Tensor, "batch factor"]
    place: Float[Tensor, "batch 2"]
    size: Numbers
    blur: Numbers
    colour: Float[Tensor, "batch 3"]
    unexplained: Numbers
    rms: Numbers
    misfit: Numbers
    second_colour: Numbers
    margin: Numbers
    ink: Numbers
    pieces: Int[Tensor, " batch"]
    size_off: Numbers
    colour_off: Numbers
    opacity_off: Numbers
    blur_off: Numbers
    ink_off: Numbers
    pieces_off: Numbers
    cut: Numbers
    limits: Limits

    @property
    def rows(self) -> Int[Tensor, "batch factor"]:
        """The concepts where the image is valid, and -1 where it is not."""
        return torch.where(self.valid[:, None], self.concepts, -1)

    @property
    def valid(self) -> Bool[Tensor, " batch"]:
        """Whether an image is within every limit."""
        return self.within(1.0)

    def within(self, factor: float) -> Bool[Tensor, " batch"]:
        """Return whether an image is valid when every limit is multiplied by this factor."""
        return torch.stack([*self.kept(self.limits.scaled(factor)).values()]).all(dim=0)

    def __getitem__(self, which: Int[Tensor, " some"]) -> "Fitted":
        """Return some of the images."""
        parts = {each.name: getattr(self, each.name) for each in fields(self)}
        return Fitted(**{k: v if k == "limits" else v[which] for k, v in parts.items()})

    def kept(self, limits: Limits) -> dict[str, Bool[Tensor, " batch"]]:
        """Return whether each limit is kept."""
        far = {each.name: getattr(limits, each.name) for each in fields(limits)}
        least = far.pop("margin")
        within = {name: getattr(self, name) <= most for name, most in far.items()}
        return within | {"margin": self.margin >= least}


@dataclass(frozen=True)
class Fit:
    """The reader of images of a world by rendering."""

    world: Shapes2D
    limits: Limits = LIMITS

    def __call__(self, images: Shaped[Tensor, " batch *image"]) -> Fitted:
        """Return all that is fitted, in the precision of 64 bits, rounded.

        Rounding makes the answer independent of batch size and order: sums differ by 1e-15.
        """
        side = self.world.size
        if images.shape[1:] != (3, side, side):
            shape = " x ".join(map(str, images.shape[1:]))
            raise ValueError(f"this reader sees images of 3 x {side} x {side}; got {shape}")
        if not images.is_floating_point():
            raise ValueError(f"the values of an image are floats from 0 to 1; got {images.dtype}")
        if not images.isfinite().all():
            wrong = int((~images.flatten(1).isfinite().all(dim=1)).nonzero()[0])
            raise ValueError(f"an image holds finite numbers; image {wrong} does not")
        if not len(images):
            raise ValueError("a reader reads at least 1 image; got none")
        parts = [self._chunk(part) for part in images.split(CHUNK.get(images.device.type, 128))]
        joined = {
            each.name: torch.cat([getattr(part, each.name) for part in parts])
            for each in fields(Fitted)
            if each.name != "limits"
        }
        return Fitted(**joined, limits=self.limits)

    def _chunk(self, images: Images) -> Fitted:
        missing = 1 - images.double().clamp(0, 1)
        poses, energies = zip(*fits(missing), strict=True)
        energy = torch.stack(energies, dim=1)
        mine = [FLAT.index(name) for name in self.world.shapes]
        shape = energy[:, mine].argmin(dim=1)
        every = torch.tensor(mine, device=images.device)[shape]
        pose = torch.stack(poses, dim=1)[torch.arange(len(images)), every]
        return _described(self, missing, shape, every, pose, energy)


def _described(
    reader: Fit,
    missing: Images,
    shape: Int[Tensor, " batch"],
    every: Int[Tensor, " batch"],
    pose: Poses,
    energy: Float[Tensor, "batch shape"],
) -> Fitted:
    """Describe the fit of each image, and how far it is from what is allowed."""
    world, side = reader.world, reader.world.size
    share = missing.new_zeros(len(missing), side, side)
    for number, kind in enumerate(KINDS):
        share[every == number] = drawn(kind, pose[every == number], side)
    amplitude, mine = amplitudes(missing, share)
    rest = missing - amplitude[..., None, None] * share[:, None]
    others = energy.scatter(1, every[:, None], torch.inf).amin(dim=1)
    place, blur = pose[:, :2], width(pose[:, 3])
    size = pose[:, 2].exp()

    radii = world.radii.to(pose) * (side / 2 / EXTENT)
    ratio = pose[:, 2, None] - radii.log()[shape]
    which = ratio.abs().argmin(dim=1)
    exact = ratio.gather(1, which[:, None])[:, 0]
    colour, colour_off, opacity_off = _named_colour(world, amplitude)
    area = pose.new_tensor([AREA[kind] for kind in KINDS])[every]
    ink = _ink(missing, amplitude, share) / (area * radii[shape, which] ** 2)
    jitter = 1 + world.size_jitter
    pieces = _pieces(missing)
    along, across = _peaks(rest, amplitude)
    total = missing.square().sum(dim=(1, 2, 3))
    numbers = {
        "place": place,
        "size": size,
        "blur": blur,
        "colour": 1 - amplitude,
        "unexplained": mine / total.clamp(min=1e-9),
        "rms": (mine / missing[0].numel()).sqrt(),
        "misfit": along,
        "second_colour": across,
        "margin": (others - mine) / _structured(rest, share),
        "ink": ink,
        "size_off": exact.abs() - log(jitter),
        "colour_off": colour_off,
        "opacity_off": opacity_off,
        "blur_off": blur - BLUR,
        "ink_off": (ink.clamp(min=1e-9).log().abs() - 2 * log(jitter)),
        "pieces_off": (pieces - 1).abs().to(pose),
        "cut": (place.abs().amax(dim=1) + size - side / 2),
    }
    rounded = {name: (value * 2**16).round() / 2**16 for name, value in numbers.items()}
    concepts = torch.stack([shape, which, colour], dim=1)
    return Fitted(concepts=concepts, pieces=pieces, limits=reader.limits, **rounded)


def _named_colour(
    world: Shapes2D, amplitude: Float[Tensor, "batch 3"]
) -> tuple[Int[Tensor, " batch"], Numbers, Numbers]:
    """Name colours by the direction of missing light; say how far direction and strength are off.

    So a paler shape has the same colour, and is valid as long as its opacity is near 1. Both are
    distances beyond what the world's jitter makes.
    """
    known = 1 - amplitude.new_tensor([COLOURS[name] for name in world.colours])
    length = known.norm(dim=1)
    direction = known / length[:, None]
    along = amplitude @ direction.T
    strength = amplitude.norm(dim=1).clamp(min=1e-9)
    which = along.argmax(dim=1)
    opacity = along.gather(1, which[:, None])[:, 0] / length[which]
    off = (amplitude - opacity[:, None] * known[which]).norm(dim=1) / strength
    jitter = world.colour_jitter / length
    # The farthest corner of the cube of jitter, along the colour and across it.
    most_along = (jitter * direction.sum(dim=1))[which]
    most_across = (jitter * 3**0.5)[which]
    return which, off - most_across, (opacity - 1).abs() - most_along


def _ink(missing: Images, amplitude: Float[Tensor, "batch 3"], share: Tensor) -> Numbers:
    """Return the missing light of the fitted colour where the shape is, in pixels."""
    near = (share > 0.02) / amplitude.square().sum(dim=1).clamp(min=1e-9)[:, None, None]
    return (torch.einsum("bchw,bc->bhw", missing, amplitude) * near).sum(dim=(1, 2))


def _structured(rest: Images, share: Tensor) -> Numbers:
    """Return the energy of what remains near the shape beyond that of the noise elsewhere."""
    near = (F.max_pool2d(share[:, None], 3, stride=1, padding=1) > 0.02).to(rest)
    count = 3 * near.sum(dim=(1, 2, 3))
    here, elsewhere = ((rest.square() * part).sum(dim=(1, 2, 3)) for part in (near, 1 - near))
    noise = elsewhere / (rest[0].numel() - count).clamp(min=1)
    # Eight bits per channel are an error of this variance at the least.
    return (here - count * noise).clamp(min=0) + count / (12 * 255**2)


def _peaks(rest: Images, amplitude: Float[Tensor, "batch 3"]) -> tuple[Numbers, Numbers]:
    """Return the largest mean over 3 x 3 pixels of what remains: along the colour and across it."""
    strength = amplitude.norm(dim=1).clamp(min=1e-9)
    direction = amplitude / strength[:, None]
    smooth = F.avg_pool2d(rest, 3, stride=1, padding=1)
    along = torch.einsum("bchw,bc->bhw", smooth, direction)
    across = smooth - along[:, None] * direction[..., None, None]
    coverage_off = along.abs().amax(dim=(1, 2)) / strength
    return coverage_off, across.norm(dim=1).amax(dim=(1, 2))


def _pieces(missing: Images) -> Int[Tensor, " batch"]:
    """Count the connected pieces of what is darker than half as dark as the darkest pixels."""
    dark = missing.norm(dim=1)
    smooth = F.avg_pool2d(dark[:, None], 3, stride=1, padding=1)[:, 0]
    inside = (smooth > smooth.amax(dim=(1, 2), keepdim=True) / 3) & (smooth > 0.1)
    side = dark.shape[1]
    number = torch.arange(1, side**2 + 1, device=dark.device).reshape(side, side).to(dark)
    label = inside * number
    while True:
        grown = F.max_pool2d(label[:, None], 3, stride=1, padding=1)[:, 0] * inside
        if torch.equal(grown, label):
            break
        label = grown
    # A piece is counted where its highest number stands.
    return ((label == number) & inside).sum(dim=(1, 2))
