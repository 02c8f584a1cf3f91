"""Poses of flat shapes, fitted to images by damped Gauss-Newton steps."""

from collections.abc import Iterator
from functools import cache
from math import log
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.render.raster import FLAT, TRIANGLE, coverage, flat_scenes
from recombine.scene import SHAPES
from recombine.worlds.shapes2d import EXTENT

Images: TypeAlias = Float[Tensor, "batch 3 height width"]
Numbers: TypeAlias = Float[Tensor, " batch"]
Poses: TypeAlias = Float[Tensor, "batch 4"]
"""Place right and down in pixels from the middle, log of the size in pixels, and how far each pixel
mixes with its neighbours: the weight q of a Gaussian's first neighbour, q^4 of its second."""

KINDS = tuple(SHAPES.index(name) for name in FLAT)
MOST_MIXED = 0.95
"""A blur of 3.1 pixels."""
STEPS = 10


def fits(missing: Images) -> Iterator[tuple[Poses, Numbers]]:
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
    line = torch.arange(-1.0, 1.5, 1.0, dtype=torch.float64, device=device)
    size = torch.arange(log(side / 16), log(side / 2.5), 0.1, dtype=torch.float64, device=device)
    mixed = line.new_tensor([0.0, 0.5, 0.8, 0.92])
    poses = torch.cartesian_prod(line, line, size, mixed)
    if kind == TRIANGLE:  # its centre of area lies a third of its size below its place
        poses[:, 1] -= poses[:, 2].exp() / 3
    templates = torch.cat([drawn(kind, part, side) for part in poses.split(500)]).flatten(1)
    return poses, templates / templates.norm(dim=1, keepdim=True)


def _refined(missing: Images, kind: int, pose: Poses) -> tuple[Poses, Numbers]:
    """Refine poses by damped Gauss-Newton steps on what colour cannot explain."""
    damping = torch.full_like(pose[:, 0], 1e-3)
    at = _drawn_with_slopes(kind, pose, missing.shape[-1])
    amplitude, energy = amplitudes(missing, at[:, 0])
    for _ in range(STEPS):
        trial = _stepped(missing, pose, at, amplitude, damping)
        there = _drawn_with_slopes(kind, trial, missing.shape[-1])
        colour, less = amplitudes(missing, there[:, 0])
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


def amplitudes(
    missing: Images, share: Float[Tensor, "batch height width"]
) -> tuple[Float[Tensor, "batch 3"], Numbers]:
    """Return each channel's missing light in the shape, by least squares, and what remains."""
    strength = share.square().sum(dim=(1, 2)).clamp(min=1e-9)[:, None]
    amplitude = ((missing * share[:, None]).sum(dim=(2, 3)) / strength).clamp(0, 1)
    rest = missing - amplitude[..., None, None] * share[:, None]
    return amplitude, rest.square().sum(dim=(1, 2, 3))


def drawn(kind: int, pose: Poses, side: int) -> Float[Tensor, "batch {side} {side}"]:
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
    mixing, more = _mixing(pose[:, 3], side), _mixing(pose[:, 3] + near, side)
    # One product for all four: the columns of one shape stand beside those of the next.
    beside = share.transpose(1, 2).flatten(2)
    across = (mixing @ beside).unflatten(2, (4, side)).transpose(1, 2).flatten(1, 2)
    blurred = (across @ mixing.mT).unflatten(1, (4, side))
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


def width(mixed: Numbers) -> Numbers:
    """Return the width in pixels of the Gaussian whose first neighbour has this weight."""
    return torch.where(mixed > 1e-9, (-0.5 / mixed.clamp(1e-9, 0.999).log()).sqrt(), 0.0)
