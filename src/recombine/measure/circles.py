"""Images of one circle: its colour and size, and where it is in concept space.

A circle is read off an image without a network. What reading alone gets wrong on true renders
stands beside every error as `ceiling`, what a model that ignores its condition would get wrong as
`chance`.
"""

from dataclasses import dataclass, replace
from math import pi
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from recombine.measure.subject import Findings, Subject, inapplicable
from recombine.measure.trajectory import corner_distance
from recombine.measurement import Measurement
from recombine.render.raster import blurred
from recombine.scene import Concepts, Scenes, compositions
from recombine.worlds.circles import BLUR, Circles

SEED = 10_007
"""The seed of the requested scenes; no training has it."""
ROUND = 0.6
"""The least overlap of a spot with the circle of its area and centre that makes it a circle."""
CLEAR = 48.0
"""The least contrast of a spot, squared and summed over its area, in units of the pixel noise: all
true renders have it, white noise never."""
LEFT = 1 - 1 / pi + 1 / (4 * pi)
"""The share of white noise that is left when an image blurred by a pixel is taken off it."""
AXES = ("blue", "small")


@dataclass(frozen=True)
class CircleError:
    """Mean error of colour (root mean square of the channels) and size against the condition.

    Each composition is requested by its class mean, so many `samples` of it.
    """

    samples: int = 64

    name: ClassVar[str] = "circle_error"

    def __call__(self, subject: Subject, generator: torch.Generator) -> Findings:
        """Sample, read and compare; true renders and shuffled conditions are read the same way."""
        training = subject.training
        if not isinstance(training.world, Circles):
            raise inapplicable(self.name, "worlds of circles", training.world)
        measurements: dict[str, Measurement] = {}
        drawn, conditions, ceiling = [], [], []
        for composition in compositions(training.world.factors):
            scenes = mean_scenes(training.world, composition, self.samples, subject.device, seed=1)
            conditions.append(training.conditioner(scenes, generator))
            drawn.append(subject.images(conditions[-1], generator))
            ceiling.append(training.world.image(scenes))
            measurements |= errors(drawn[-1], conditions[-1], f"@{' '.join(composition)}")
        images, condition = torch.cat(drawn), torch.cat(conditions)
        order = torch.randperm(len(condition), generator=generator, device=generator.device)
        measurements |= errors(images, condition, "")
        measurements |= errors(torch.cat(ceiling), condition, "_ceiling")
        measurements |= errors(images, condition[order], "_chance")
        return Findings(measurements, images={"samples": torch.cat([each[:8] for each in drawn])})

    def tiny(self) -> "CircleError":
        """Return the same measurement with fewer samples."""
        return replace(self, samples=4)


def errors(
    image: Float[Tensor, "batch 3 height width"], condition: Float[Tensor, "batch 4"], suffix: str
) -> dict[str, Measurement]:
    """Return the mean error of colour and of size over images."""
    colour, radius = read_circle(image)
    wrong = (colour - condition[:, :3]).square().mean(dim=1).sqrt()
    return {
        f"colour_error{suffix}": Measurement.mean(wrong.tolist()),
        f"size_error{suffix}": Measurement.mean((radius - condition[:, 3]).abs().tolist()),
    }


def read_circle(
    image: Float[Tensor, "batch 3 height width"],
) -> tuple[Float[Tensor, "batch 3"], Float[Tensor, " batch"]]:
    """Return colour and radius of the circle in each image, in the units of the world.

    A circle covers one corner at most, so the middle of the four is the backdrop. A radius comes
    out too small where the border cuts the circle.
    """
    corners = image[..., [0, 0, -1, -1], [0, -1, 0, -1]]
    backdrop = corners.sort(dim=-1).values[..., 1:3].mean(dim=-1)[..., None, None]
    offset = image - backdrop
    far = offset.square().sum(dim=1, keepdim=True).sqrt()
    inside = (far >= 0.85 * far.amax(dim=(2, 3), keepdim=True)).to(image)
    colour = (image * inside).sum(dim=(2, 3)) / inside.sum(dim=(2, 3))
    # The share of the circle in each pixel: how far its colour went from backdrop to circle.
    way = colour[..., None, None] - backdrop
    share = (offset * way).sum(dim=1) / way.square().sum(dim=1).clamp(min=1e-6)
    pitch = 2 / (image.shape[-1] - 1)
    return colour, pitch * (share.clamp(0, 1).sum(dim=(1, 2)) / pi).sqrt()


class CircleReading(NamedTuple):
    """Which images are circles, and how far they are on each axis.

    A way is 0 at the mean of red (big) and 1 at that of blue (small); beyond half of it, the
    nearer class is blue (small). Classes do not overlap, so no softer posterior is needed.
    """

    circle: Bool[Tensor, " batch"]
    way: Float[Tensor, "batch axis"]

    @property
    def counts(self) -> tuple[int, ...]:
        """How many circles are blue, and how many are small."""
        return tuple((self.way[self.circle] > 0.5).sum(dim=0).tolist())


class Spot(NamedTuple):
    """What stands out from the backdrop of each image: a 1 in `mask` where it is.

    The colour is a mean over so many `pixels`; the contrast is the square of its distance from the
    backdrop, the noise the variance of a pixel, both summed over channels.
    """

    mask: Float[Tensor, "batch height width"]
    colour: Float[Tensor, "batch 3"]
    pixels: Float[Tensor, " batch"]
    contrast: Float[Tensor, " batch"]
    noise: Float[Tensor, " batch"]


def read(image: Float[Tensor, "batch 3 height width"], world: Circles) -> CircleReading:
    """Measure colour and radius off each image; nothing is learned here.

    An image in which noise would hide a spot, or which of two colours it has, shows no circle.
    """
    spot = spotted(image)
    area = spot.mask.sum(dim=(1, 2))
    radius = 2 / (image.shape[-1] - 1) * (area / pi).sqrt()
    blue = 0.5 + (spot.colour[:, 2] - spot.colour[:, 0]) / (2 * world.colour_separation)
    small = 0.5 + (0.45 - radius) / world.size_separation
    # Two standard errors of a difference of two channels.
    doubt = 2 * (2 / 3 * spot.noise / spot.pixels).sqrt()
    clear = (spot.contrast * area >= CLEAR * spot.noise) & (doubt <= world.colour_separation)
    circle = clear & (roundness(spot.mask, radius) >= ROUND)
    return CircleReading(circle, torch.stack([blue, small], dim=1))


def spotted(image: Float[Tensor, "batch 3 height width"]) -> Spot:
    """Return the one spot of each image.

    Early samples are noisy, so what lies where is read off a blurred image; colours are not.
    """
    sides = (image[..., 0, :], image[..., -1, :], image[..., 0], image[..., -1])
    # A circle covers less than half of the border.
    backdrop = torch.cat(sides, dim=-1).median(dim=-1).values[..., None, None]
    soft = blurred(image, BLUR)
    far = (soft - backdrop).square().sum(dim=1, keepdim=True)
    inside = (far >= 0.7 * far.amax(dim=(2, 3), keepdim=True)).to(image)
    pixels = inside.sum(dim=(1, 2, 3))
    colour = (image * inside).sum(dim=(2, 3)) / pixels[:, None]
    way = colour[..., None, None] - backdrop
    contrast = way.square().sum(dim=(1, 2, 3))
    halfway = ((soft - backdrop) * way).sum(dim=1) >= 0.5 * contrast[:, None, None]
    mask = (halfway & (contrast > 0)[:, None, None]).to(image)
    rough = (image - soft).square().sum(dim=1).mean(dim=(1, 2))
    return Spot(mask, colour, pixels, contrast, rough / LEFT)


def roundness(
    spot: Float[Tensor, "batch height width"], radius: Float[Tensor, " batch"]
) -> Float[Tensor, " batch"]:
    """Return the intersection of a spot with the circle at its centre, over their union."""
    line = torch.linspace(-1, 1, spot.shape[-1]).to(spot)
    area = spot.sum(dim=(1, 2)).clamp(min=1)
    x, y = (((spot * axis).sum(dim=(1, 2)) / area)[:, None, None] for axis in (line, line[:, None]))
    far = (line - x).square() + (line[:, None] - y).square()
    disc = (far <= radius.square()[:, None, None]).to(spot)
    union = torch.maximum(spot, disc).sum(dim=(1, 2)).clamp(min=1)
    return torch.minimum(spot, disc).sum(dim=(1, 2)) / union


def coordinates(reading: CircleReading, name: str) -> dict[str, Measurement]:
    """Return the share of circles among samples, and of blue and of small among the circles.

    Where no sample is a circle a coordinate is 0.5 and may be anything.
    """
    samples, circles = len(reading.circle), int(reading.circle.sum())
    found = {f"circles{name}": Measurement.rate(circles, samples)}
    for axis, count, way in zip(AXES, reading.counts, reading.way.unbind(1), strict=True):
        known = Measurement.rate(count, circles) if circles else Measurement(0.5, 0, 1, n=samples)
        found[f"{axis}{name}"] = known
        if circles > 1:
            found[f"{axis}_way{name}"] = Measurement.mean(way[reading.circle].tolist())
    return found


def concept_mse(reading: CircleReading) -> Measurement:
    """Return the mean of (P(blue) - 1)^2 and (P(small) - 1)^2 over the circles."""
    circles = int(reading.circle.sum())
    if not circles:
        return Measurement(0.25, 0, 1, n=len(reading.circle))
    return corner_distance(reading.counts, circles)


def accuracy(reading: CircleReading, which: Concepts) -> Measurement:
    """Return the share of samples that are circles of this composition."""
    wanted = torch.tensor([which[0] == "blue", which[1] == "small"], device=reading.way.device)
    right = reading.circle & ((reading.way > 0.5) == wanted).all(dim=1)
    return Measurement.rate(int(right.sum()), len(right))


def mean_scenes(
    world: Circles, which: Concepts, count: int, device: torch.device, seed: int = SEED
) -> Scenes:
    """Return scenes of one composition that are all its class mean, each at a place of its own."""
    mean = replace(world, among=(which,), spread=0.0)
    return mean.scenes(torch.arange(count, device=device), seed)


def probe_errors(world: Circles, count: int, device: torch.device) -> dict[str, Measurement]:
    """Return how often the probe is right on fresh renders of all compositions, by factor."""
    whole = replace(world, among=())
    scenes = whole.scenes(torch.arange(4 * count, device=device), SEED + 1)
    reading = read(whole.image(scenes), world)
    right = (reading.way > 0.5) == (scenes.concepts[:, 0] == 1)
    found = {"probe_circles": Measurement.rate(int(reading.circle.sum()), len(right))}
    for factor, each in zip(world.factors, right.unbind(1), strict=True):
        found[f"probe_{factor.name}_accuracy"] = Measurement.rate(int(each.sum()), len(each))
    return found
