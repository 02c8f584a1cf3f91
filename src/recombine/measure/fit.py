"""A reader of Shapes2D by rendering: which shape, drawn by the world's rasteriser, is this image?

Every flat shape is fitted: place, size and blur start on a grid and are refined by Gauss-Newton
steps, colour is least squares of the missing light in closed form. An image is read only within
limits that true renders set; everything else is "nothing valid". So a reader needs no training,
and what it abstains from can be told apart from what it misreads.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from math import log
from typing import TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from recombine.render.raster import AREA, FLAT, TRIANGLE, coverage, flat_scenes
from recombine.scene import SHAPES
from recombine.worlds.shapes2d import COLOURS, EXTENT, Shapes2D

Images: TypeAlias = Float[Tensor, "batch 3 height width"]
Numbers: TypeAlias = Float[Tensor, " batch"]
Poses: TypeAlias = Float[Tensor, "batch 4"]
"""Place right and down in pixels from the middle, log of the size in pixels, and how far each pixel
mixes with its neighbours: the weight q of a Gaussian's first neighbour, q^4 of its second."""

KINDS = tuple(SHAPES.index(name) for name in FLAT)
MOST_MIXED = 0.95
"""A blur of 3.1 pixels."""
CHUNK = {"cpu": 128, "cuda": 4096}
"""So many images are fitted at once, so that memory is bounded."""
STEPS = 10
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
    near the shape beyond the noise elsewhere; it is negative if the best is no shape of the world. `ink` is in the area of
    the composition, `cut` is how many pixels the shape reaches beyond the border.
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
        poses, energies = zip(*_fits(missing), strict=True)
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
        share[every == number] = _drawn(kind, pose[every == number], side)
    amplitude, mine = _amplitude(missing, share)
    rest = missing - amplitude[..., None, None] * share[:, None]
    others = energy.scatter(1, every[:, None], torch.inf).amin(dim=1)
    place, blur = pose[:, :2], _width(pose[:, 3])
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


def _fits(missing: Images) -> Iterator[tuple[Poses, Numbers]]:
    """Yield the best pose of each flat shape, and the energy that it leaves."""
    side = missing.shape[-1]
    middle, window = _centred(missing)
    for kind in KINDS:
        poses, templates = _grid(kind, side, missing.device)
        found = (window.flatten(2) @ templates.T).clamp(min=0).square().sum(dim=1)
        start = poses[found.argmax(dim=1)].clone()
        start[:, :2] += middle
        yield _refined(missing, kind, start)


def _centred(missing: Images) -> tuple[Float[Tensor, "batch 2"], Images]:
    """Return where the energy lies, to whole pixels from the middle, and the images moved there."""
    side = missing.shape[-1]
    energy = (missing - 0.1).clamp(min=0).square().sum(dim=1)  # little of it is noise
    place = torch.arange(side, device=missing.device).to(missing) + 0.5 - side / 2
    total = energy.sum(dim=(1, 2)).clamp(min=1e-9)
    middle = torch.stack([(energy.sum(dim=1) @ place), (energy.sum(dim=2) @ place)], dim=1)
    middle = (middle / total[:, None]).round()
    line = torch.arange(side, device=missing.device)
    right, down = (line + each.long()[:, None] for each in middle.unbind(dim=1))
    inside = [(each >= 0) & (each < side) for each in (right, down)]
    batch = torch.arange(len(missing), device=missing.device)[:, None, None]
    down, right = down.clamp(0, side - 1)[:, :, None], right.clamp(0, side - 1)[:, None]
    moved = missing.permute(0, 2, 3, 1)[batch, down, right].permute(0, 3, 1, 2)
    return middle, moved * (inside[1][:, None, :, None] & inside[0][:, None, None])


@cache
def _grid(kind: int, side: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return poses near the middle, and their templates of norm 1, flat."""
    line = torch.arange(-1, 1.01, 0.5, dtype=torch.float64, device=device)
    size = torch.arange(log(side / 16), log(side / 2.5), 0.1, dtype=torch.float64, device=device)
    mixed = line.new_tensor([0.0, 0.5, 0.8, 0.92])
    poses = torch.cartesian_prod(line, line, size, mixed)
    if kind == TRIANGLE:  # its centre of area lies a third of its size below its place
        poses[:, 1] -= poses[:, 2].exp() / 3
    templates = torch.cat([_drawn(kind, part, side) for part in poses.split(500)]).flatten(1)
    return poses, templates / templates.norm(dim=1, keepdim=True)


def _refined(missing: Images, kind: int, pose: Poses) -> tuple[Poses, Numbers]:
    """Refine poses by damped Gauss-Newton steps on what colour cannot explain."""
    damping = torch.full_like(pose[:, 0], 1e-3)
    at = _drawn_with_slopes(kind, pose, missing.shape[-1])
    amplitude, energy = _amplitude(missing, at[:, 0])
    for _ in range(STEPS):
        trial = _stepped(missing, pose, at, amplitude, damping)
        there = _drawn_with_slopes(kind, trial, missing.shape[-1])
        colour, less = _amplitude(missing, there[:, 0])
        better = less < energy
        pose = torch.where(better[:, None], trial, pose)
        at = torch.where(better[:, None, None, None], there, at)
        amplitude = torch.where(better[:, None], colour, amplitude)
        energy = torch.where(better, less, energy)
        damping = torch.where(better, damping / 10, damping * 10).clamp(1e-9, 1e3)
    return pose, energy


def _stepped(
    missing: Images,
    pose: Poses,
    at: Float[Tensor, "batch 5 height width"],
    amplitude: Float[Tensor, "batch 3"],
    damping: Numbers,
) -> Poses:
    """Return the poses one step on; the part of each slope that colour explains is taken out."""
    share, slopes = at[:, 0].flatten(1), at[:, 1:].flatten(2)
    power = amplitude.square().sum(dim=1).clamp(min=1e-9)
    overlap = (slopes * share[:, None]).sum(dim=2) / share.square().sum(dim=1)[:, None]
    slopes = slopes - overlap[..., None] * share[:, None]
    rest = torch.einsum("bcp,bc->bp", missing.flatten(2), amplitude) / power[:, None] - share
    down = (slopes * rest[:, None]).sum(dim=2)
    normal = torch.einsum("bip,bjp->bij", slopes, slopes)
    # A blur at its bound stays there if it would leave.
    mixed = pose[:, 3]
    held = ((mixed <= 0) & (down[:, 3] < 0)) | ((mixed >= MOST_MIXED) & (down[:, 3] > 0))
    free = torch.ones_like(pose)
    free[:, 3] = torch.where(held, 0.0, 1.0)
    scale = normal.diagonal(dim1=1, dim2=2).clamp(min=1e-9)
    normal = normal * free[:, :, None] * free[:, None] + torch.diag_embed(
        damping[:, None] * scale + 1e-9 + (1 - free)
    )
    step = torch.linalg.solve(normal, down * free)
    side = missing.shape[-1]
    least = pose.new_tensor([-side / 2, -side / 2, log(side / 28), 0.0])
    most = pose.new_tensor([side / 2, side / 2, log(side / 2), MOST_MIXED])
    return torch.maximum(torch.minimum(pose + step.clamp(-1, 1), most), least)


def _amplitude(
    missing: Images, share: Float[Tensor, "batch height width"]
) -> tuple[Float[Tensor, "batch 3"], Numbers]:
    """Return each channel's missing light in the shape, by least squares, and what remains."""
    strength = share.square().sum(dim=(1, 2)).clamp(min=1e-9)[:, None]
    amplitude = ((missing * share[:, None]).sum(dim=(2, 3)) / strength).clamp(0, 1)
    rest = missing - amplitude[..., None, None] * share[:, None]
    return amplitude, rest.square().sum(dim=(1, 2, 3))


def _drawn(kind: int, pose: Poses, side: int) -> Float[Tensor, "batch {side} {side}"]:
    """Return the blurred coverage of a shape at these poses."""
    mixing = _mixing(pose[:, 3], side)
    return mixing @ _sharp(kind, pose, side) @ mixing.mT


def _drawn_with_slopes(kind: int, pose: Poses, side: int) -> Float[Tensor, "batch 5 {side} {side}"]:
    """Return the blurred coverage, and its slope along each number of the pose."""
    near = 1e-4
    moved = pose[:, None].repeat(1, 4, 1)
    for number in range(3):
        moved[:, number + 1, number] += near
    share = _sharp(kind, moved.flatten(0, 1), side).unflatten(0, (-1, 4))
    mixing, more = _mixing(pose[:, 3], side)[:, None], _mixing(pose[:, 3] + near, side)
    blurred = mixing @ share @ mixing.mT
    wider = more @ share[:, 0] @ more.mT
    values = torch.cat([blurred[:, 1:], wider[:, None]], dim=1)
    return torch.cat([blurred[:, :1], (values - blurred[:, :1]) / near], dim=1)


def _sharp(kind: int, pose: Poses, side: int) -> Float[Tensor, "batch {side} {side}"]:
    """Return the coverage of a shape as the world's rasteriser draws it."""
    unit = EXTENT / (side / 2)
    scenes = flat_scenes(
        position=pose[:, :2] * unit,
        size=pose[:, 2].exp() * unit,
        colour=pose.new_zeros(len(pose), 3),
        shape=torch.full((len(pose),), kind, device=pose.device),
        concepts=torch.zeros(len(pose), 3, dtype=torch.int64, device=pose.device),
        backdrop=pose.new_ones(len(pose), 3),
    )
    return coverage(scenes, side, EXTENT)[:, 0]


def _mixing(mixed: Numbers, side: int) -> Float[Tensor, "batch {side} {side}"]:
    """Return the matrix of a Gaussian blur along one axis; at the border the image mirrors."""
    line = torch.arange(side, device=mixed.device)
    apart = (line[:, None] - line).abs()
    around = line[:, None] + line + 1
    kernel = mixed[:, None] ** torch.arange(2 * side, device=mixed.device).square()
    weight = kernel[:, apart] + kernel[:, around] + kernel[:, 2 * side - around]
    return weight / weight.sum(dim=2, keepdim=True)


def _width(mixed: Numbers) -> Numbers:
    """Return the width in pixels of the Gaussian whose first neighbour has this weight."""
    return torch.where(mixed > 1e-9, (-0.5 / mixed.clamp(1e-9, 0.999).log()).sqrt(), 0.0)
