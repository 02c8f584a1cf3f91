"""Does a pixel depend only on its neighbourhood, and on the object that is requested there?

Declared before any run. Pixel locality is the share of influence from within 1/8 of the image
side, at the requested places and 16 further pixels. Conditional locality (Bradley 2025) is, at a
requested place, the influence of its object over the summed influence of all: 1 is local, 1 / the
number of objects is not. An object is left out of the condition, which also changes how many there
are, or moved. The leak is the share of an object's influence on the whole image that lands farther
than 1/8 of the side from its place. High noise is sigma from 5 to 20; where nothing as high is
measured, from a quarter of the highest sigma to it. All are shares of sums over samples, and
undefined where the sum is below 1e-3 of its maximum over noise levels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from recombine.denoiser import Denoiser, check_levels
from recombine.measure.influence import (
    AT_ONCE,
    denoised_images,
    distances,
    object_influence,
    pixel_influence,
    pixels_at,
    profile,
    radius_holding,
)
from recombine.measure.subject import Findings
from recombine.measurement import Measurement, student_t

HIGH = (5.0, 20.0)
"""High noise, where that is measured."""
RADIUS = 1 / 8
"""How far, in image sides, is near."""
OWN = 1 / 32
"""How far from a requested place, in image sides, the pixels are its own."""
FAINT = 1e-3
"""A share of less than this part of the largest sum over noise levels is not defined."""
HELD = (0.5, 0.75, 0.95)
"""The shares of influence whose radii are reported."""


@dataclass(frozen=True)
class Ablations:
    """The requested places, and the condition without each object, or with each moved elsewhere.

    A place is (x, y) from 0 to 1, x right and y down.
    """

    place: Float[Tensor, "batch object 2"]
    without: Shaped[Tensor, " left_out *without"]
    moved: Shaped[Tensor, " shifted *moved"] | None = None

    def __post_init__(self) -> None:
        expected = (self.place.shape[1], self.place.shape[0])
        for name in ("without", "moved"):
            if (changed := getattr(self, name)) is not None and changed.shape[:2] != expected:
                raise ValueError(
                    f"{expected[0]} objects are requested in {expected[1]} images, so `{name}` has "
                    f"the shape ({expected[0]}, {expected[1]}, ...); got {tuple(changed.shape)}"
                )

    def __getitem__(self, images: Tensor) -> "Ablations":
        """Return those of some of the images."""
        moved = None if self.moved is None else self.moved[:, images]
        return Ablations(self.place[images], self.without[:, images], moved)


@dataclass(frozen=True)
class Gauge:
    """How influence is measured: at `lattice` squared further pixels, so many images `at_once`."""

    lattice: int = 4
    at_once: int = AT_ONCE

    def __post_init__(self) -> None:
        if self.lattice < 0:
            raise ValueError(f"a lattice has 0 pixels to a side, or more; got {self.lattice}")

    def pixels(
        self, images: int, height: int, width: int, device: torch.device
    ) -> Int[Tensor, "batch pixel 2"]:
        """Return the further pixels, the same in every image."""
        share = (torch.arange(self.lattice, device=device) + 0.5) / max(self.lattice, 1)
        row, column = (share * height).long(), (share * width).long()
        return torch.cartesian_prod(row, column).expand(images, -1, 2)


USUAL = Gauge()


Sums: TypeAlias = tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]
"""Of each image: the part that is near or own, and the whole."""


@dataclass(frozen=True)
class LevelInfluence:
    """The influences at one noise level.

    `scale` is how large the denoised images are: rounding moves them by its last digit.
    """

    sums: Mapping[str, Sums]
    radii: Mapping[str, Int[Tensor, " batch"]]
    scale: float

    @property
    def packed(self) -> dict[str, Tensor]:
        """The same as tensors by name, to be kept in a file."""
        sums = {f"sums/{name}": torch.stack(each) for name, each in self.sums.items()}
        radii = {f"radii/{name}": each for name, each in self.radii.items()}
        return {**sums, **radii, "scale": torch.tensor(self.scale, dtype=torch.float64)}

    @classmethod
    def unpacked(cls, made: Mapping[str, Tensor]) -> "LevelInfluence":
        """Return what was packed."""
        parts = [(*name.partition("/")[::2], each) for name, each in made.items()]
        sums = {name: (each[0], each[1]) for kind, name, each in parts if kind == "sums"}
        radii = {name: each for kind, name, each in parts if kind == "radii"}
        return cls(sums, radii, made["scale"].item())


def locality(
    denoiser: Denoiser,
    x: Float[Tensor, "batch channel height width"],
    sigma: Float[Tensor, " levels"] | Float[Tensor, ""] | float,
    condition: Shaped[Tensor, " rows *condition"] | None = None,
    ablations: Ablations | None = None,
    gauge: Gauge = USUAL,
) -> Findings:
    """Measure how local a denoiser is at every noise level among sigma.

    The x are noisy images (image plus sigma times noise), as many of each level; a number is the
    level of all. The condition has a row for each image; without one a network is given zeros.
    Without `ablations` only pixel locality is measured.
    """
    sigma = torch.as_tensor(sigma, dtype=x.dtype, device=x.device)
    sigma = sigma.expand(len(x)) if sigma.dim() == 0 else sigma
    condition = x.new_zeros(len(x), 1) if condition is None else condition
    if not len(x) == len(sigma) == len(condition):
        raise ValueError(
            "x, sigma and condition are of as many images; "
            f"got {len(x)}, {len(sigma)} and {len(condition)}"
        )
    if ablations is not None and len(ablations.place) != len(x):
        raise ValueError(f"x holds {len(x)} images; places are of {len(ablations.place)}")
    found: dict[float, LevelInfluence] = {}
    for level, images in _levels(sigma).items():
        call = (x[images], sigma[images], condition[images])
        here = None if ablations is None else ablations[images]
        found[level] = level_influence(denoiser, *call, here, gauge)
    return gathered(found)


def _levels(sigma: Tensor) -> dict[float, Tensor]:
    """Return which images have which noise level, from the lowest."""
    if not len(sigma):
        raise ValueError("locality is measured on 1 image or more; got none")
    check_levels(sigma)
    found = {level: (sigma == level).nonzero()[:, 0] for level in sigma.unique().tolist()}
    counts = {level: len(images) for level, images in found.items()}
    if len(set(counts.values())) > 1:
        raise ValueError(f"every noise level has as many images; got {counts}")
    return found


def level_influence(
    denoiser: Denoiser,
    x: Float[Tensor, "batch channel height width"],
    sigma: Float[Tensor, " batch"],
    condition: Shaped[Tensor, " batch *condition"],
    ablations: Ablations | None = None,
    gauge: Gauge = USUAL,
) -> LevelInfluence:
    """Return the influences on images of one noise level."""
    height, width = x.shape[2:]
    near = round(RADIUS * min(height, width))
    pixels = gauge.pixels(len(x), height, width, x.device)
    sums: dict[str, Sums] = {}
    scale = 0.0
    if ablations is not None:
        places = pixels_at(ablations.place, height, width)
        pixels = torch.cat([places, pixels], dim=1)
        clean = denoised_images(denoiser, x, sigma, condition, gauge.at_once)
        scale = clean.norm(dim=1).mean().item()
        for name, changed in (("", ablations.without), ("_moved", ablations.moved)):
            if changed is not None:
                moves = object_influence(denoiser, x, sigma, condition, changed, gauge.at_once)
                away = distances(places, height, width)
                own = away <= round(OWN * min(height, width))
                # A single object has no other that it could be mistaken for.
                if len(changed) > 1:
                    sums[f"conditional_locality{name}"] = own_and_all(at_places(moves, own))
                if not name:
                    sums["leak"] = _leak(moves, away > near)
    if not pixels.shape[1]:
        return LevelInfluence(sums, {}, scale)
    influence = pixel_influence(denoiser, x, sigma, condition, pixels, gauge.at_once)
    rings = profile(influence, pixels).sum(dim=1)
    sums["pixel_locality"] = rings[:, : near + 1].sum(dim=1), rings.sum(dim=1)
    radii = {f"pixel_radius_{100 * share:.0f}": radius_holding(rings, share) for share in HELD}
    return LevelInfluence(sums, radii, scale)


def at_places(
    moves: Float[Tensor, "object batch height width"], own: Bool[Tensor, "batch place height width"]
) -> Float[Tensor, "batch place object"]:
    """Return the mean influence of every object on the pixels of every place."""
    total = torch.einsum("obhw,bphw->bpo", moves, own.to(moves))
    return total / own.sum(dim=(2, 3))[..., None]


def own_and_all(influence: Float[Tensor, "batch place object"]) -> Sums:
    """Return the influence of objects on their own places, and of all of them on all places."""
    return influence.diagonal(dim1=1, dim2=2).sum(dim=1), influence.sum(dim=(1, 2))


def _leak(moves: Tensor, far: Tensor) -> Sums:
    """Return the influence of objects on what is far from their places, and on everything."""
    # Means over pixels, so that rounding at each of them does not add up to an influence.
    pixels = far[0].numel()
    landed = torch.einsum("obhw,bohw->b", moves, far.to(moves))
    return landed / pixels, moves.sum(dim=(0, 2, 3)) / pixels


def shared(sums: Sequence[Sums]) -> Measurement:
    """Return the mean over levels of a part's share of the whole, both summed over images.

    The interval is Student's for the share made linear (delta method), clipped to [0, 1]; a
    single image has none.
    """
    shares, errors = [], []
    for part, whole in sums:
        part, whole = part.double(), whole.double()
        share = part.sum() / whole.sum()
        shares.append(share.item())
        errors.append((part - share * whole) / whole.mean())
    # Sums in another order may round to more than the whole.
    value = min(sum(shares) / len(shares), 1.0)
    offsets = torch.stack(errors).mean(dim=0).tolist()
    if len(offsets) < 2:
        return Measurement(value, None, None, n=1)
    low, high = (value + end for end in student_t(offsets))
    return Measurement(value, max(low, 0.0), min(high, 1.0), n=len(offsets))


def high_noise(levels: Sequence[float]) -> tuple[float, float]:
    """Return the ends of the noise levels over which a locality without a level is a mean."""
    highest = min(max(levels), HIGH[1])
    return highest * HIGH[0] / HIGH[1], highest


def gathered(found: Mapping[float, LevelInfluence]) -> Findings:
    """Return every number by its name, high noise first, and what is undefined."""
    high: dict[str, Measurement] = {}
    each: dict[str, Measurement] = {}
    undefined: dict[str, str] = {}
    least, most = high_noise([*found])
    for name in next(iter(found.values())).sums:
        defined, faint = _defined(name, found)
        undefined |= faint
        each |= {f"{name}@{level:.3g}": shared([sums]) for level, sums in defined.items()}
        if highest := [sums for level, sums in defined.items() if least <= level <= most]:
            high[name] = shared(highest)
        elif name not in undefined:
            undefined[name] = f"at no sigma from {least:g} to {most:g} is there a defined one"
        if name == "pixel_locality":
            each |= {
                f"{radius}@{level:.3g}": Measurement.mean(values.double().tolist()).clipped()
                for level in defined
                for radius, values in found[level].radii.items()
            }
    return Findings(high | each, undefined=undefined)


def _defined(
    name: str, found: Mapping[float, LevelInfluence]
) -> tuple[dict[float, Sums], dict[str, str]]:
    """Return the levels at which there is enough influence to share, and why not at the others."""
    sums = {level: each.sums[name] for level, each in found.items()}
    totals = {level: whole.mean().item() for level, (_, whole) in sums.items()}
    largest = max(totals, key=lambda level: totals[level])
    ignored = "x" if name == "pixel_locality" else "its condition"
    # Differences of images may be rounding, gradients are not.
    last_digit = torch.finfo(sums[largest][1].dtype).eps * found[largest].scale
    if totals[largest] <= (0 if ignored == "x" else 100 * last_digit):
        return {}, {name: f"the denoised image does not depend on {ignored} at any noise level"}
    faint = {
        f"{name}@{level:.3g}": f"the influence is {total / totals[largest]:.2g} of its maximum, at "
        f"sigma {largest:.3g}; a share is defined from {FAINT:g}"
        for level, total in totals.items()
        if total < FAINT * totals[largest]
    }
    return {
        level: each for level, each in sums.items() if f"{name}@{level:.3g}" not in faint
    }, faint
