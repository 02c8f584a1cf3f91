"""Finding objects: a map of centres, places within cells and concepts, from augmented images.

The detector has to read what models draw, so it never sees a render as it is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.denoiser import Objective, per_image, unit_noise
from recombine.models.detector import at, parts, resized
from recombine.render.camera import places
from recombine.scene import Factor, Scenes
from recombine.worlds.clevr import Clevr


@dataclass(frozen=True)
class Targets:
    """Write place, concepts and a 1 for each object that is seen in the image; zeros follow."""

    most: int = 12

    def __post_init__(self) -> None:
        if self.most < 1:
            raise ValueError(f"targets are for at least 1 object; got {self.most}")

    def __call__(self, scenes: Scenes) -> Float[Tensor, "batch object value"]:
        objects = scenes.present.shape[1]
        if objects > self.most:
            raise ValueError(f"targets of {self.most} objects cannot hold {objects} objects")
        place, _ = places(scenes)
        inside = scenes.present & (place >= 0).all(dim=-1) & (place < 1).all(dim=-1)
        flag = inside[..., None]
        known = torch.cat([place, scenes.concepts.to(place), flag.to(place)], dim=-1)
        # Not a product: an absent object may hold values that are not numbers.
        known = torch.where(flag, known, 0)
        return F.pad(known, (0, 0, 0, self.most - objects))


@dataclass(frozen=True)
class Augmentation:
    """What is done to an image before it is read; every image draws its own.

    `sides` are the sides it may be shrunk to, and the share of the images for each; `blur` is the
    widest blur in pixels, `noise` the strongest noise, `gain` and `shift` the largest changes of
    colour. In half of the images `patches` cover something, of at most `patch` pixels to a side:
    smaller than any object.
    """

    sides: tuple[tuple[int, float], ...] = ((64, 0.5), (48, 0.1), (96, 0.15))
    blur: float = 1.2
    noise: float = 0.12
    gain: float = 0.2
    shift: float = 0.1
    patches: int = 4
    patch: int = 5

    def __call__(
        self, image: Float[Tensor, "batch 3 height width"], generator: torch.Generator
    ) -> Float[Tensor, "batch 3 height width"]:
        """Return images of the same size, in [0, 1]."""
        image = self._patched(self._recoloured(image, generator), generator)
        # Squares, so that most blur and noise is weak.
        width = self.blur * _draw(image, (), generator).square()
        image = blurred(image, width.clamp(min=1e-3))
        strength = self.noise * _draw(image, (), generator).square()
        image = image + per_image(strength, image) * unit_noise(image, generator)
        # Last: a small image is flawed in its own, larger pixels.
        return self._shrunk(image.clamp(0, 1), generator)

    def _recoloured(self, image: Tensor, generator: torch.Generator) -> Tensor:
        draw = 2 * _draw(image, (4, 1, 1), generator) - 1
        common, own = draw[:, :1], draw[:, 1:]
        change = 2 * _draw(image, (1, 1, 1), generator) - 1
        gain = 1 + self.gain * (common + own) / 2
        return (image * gain + self.shift * change).clamp(0, 1)

    def _patched(self, image: Tensor, generator: torch.Generator) -> Tensor:
        height, width = image.shape[2:]
        row, column = (torch.arange(side, device=image.device) for side in (height, width))
        some = _draw(image, (1, 1), generator) < 0.5
        for _ in range(self.patches):
            draw = _draw(image, (4, 1), generator)
            top, left = draw[:, 0] * height, draw[:, 1] * width
            tall, wide = (2 + draw[:, index] * (self.patch - 2) for index in (2, 3))
            rows = (row >= top) & (row < top + tall) & some[:, 0]
            columns = (column >= left) & (column < left + wide)
            colour = _draw(image, (3, 1, 1), generator)
            covered = (rows[:, :, None] & columns[:, None])[:, None]
            image = torch.where(covered, colour, image)
        return image

    def _shrunk(self, image: Tensor, generator: torch.Generator) -> Tensor:
        draw = _draw(image, (1, 1, 1), generator)
        shrunk, below = image, 0.0
        for side, share in self.sides:
            # Means over an area are close to the pixels of a small render.
            small = F.interpolate(image, (side, side), mode="area")
            again = resized(small, *image.shape[2:])
            shrunk = torch.where((draw >= below) & (draw < below + share), again, shrunk)
            below += share
        return shrunk


def blurred(
    image: Float[Tensor, "batch 3 height width"], width: Float[Tensor, " batch"], reach: int = 3
) -> Float[Tensor, "batch 3 height width"]:
    """Blur each image by a Gaussian of its own width in pixels, cut off at `reach` pixels."""
    offset = torch.arange(-reach, reach + 1, device=image.device)
    bell = (-(offset**2) / (2 * width[:, None] ** 2)).exp()
    bell = (bell / bell.sum(dim=1, keepdim=True)).to(image.dtype)
    shares = [per_image(share, image) for share in bell.unbind(1)]
    for axis, beyond in ((2, (0, 0, reach, reach)), (3, (reach, reach, 0, 0))):
        padded, side = F.pad(image, beyond, mode="replicate"), image.shape[axis]
        shifted = (padded.narrow(axis, start, side) for start in range(2 * reach + 1))
        image = torch.stack([s * part for s, part in zip(shares, shifted, strict=True)]).sum(dim=0)
    return image


@dataclass(frozen=True)
class Detection(Objective):
    """Loss per object: focal for the map of centres, distance within a cell, cross entropy.

    At the start a missed centre costs 4, a place 1/2 and all concepts of an object 1/2 (weighted),
    so that counting is learned first. A centre's bump is `bump` cells wide: the closest two
    centres (2.5 cells) have a dip between them.
    """

    generates: ClassVar[bool] = False

    augmentation: Augmentation | None = Augmentation()
    bump: float = 1.0
    within_weight: float = 1.0
    concept_weight: float = 0.1
    factors: tuple[Factor, ...] = Clevr.factors

    def __post_init__(self) -> None:
        if not 0 < self.bump < float("inf"):
            raise ValueError(f"a bump has a positive width; got {self.bump}")

    def __call__(
        self,
        denoiser: Callable[..., Tensor],
        image: Float[Tensor, "batch 3 height width"],
        condition: Float[Tensor, "batch object value"],
        *,
        generator: torch.Generator,
    ) -> Float[Tensor, ""]:
        """Return the loss of one batch; the "denoiser" is a detector, the condition its targets."""
        seen = image if self.augmentation is None else self.augmentation(image, generator)
        return self.loss(denoiser(seen).float(), condition)

    def loss(
        self,
        output: Float[Tensor, "batch channel row column"],
        targets: Float[Tensor, "batch object value"],
    ) -> Float[Tensor, ""]:
        """Return the loss of an output map, per object."""
        centre, within, concepts = parts(output, self.factors)
        side = centre.shape[-1]
        place, true, present = targets[..., :2], targets[..., 2:-1].long(), targets[..., -1] > 0
        cell, offset = cells(place, side)
        objects = present.sum().clamp(min=1)

        def over_objects(value: Tensor) -> Tensor:
            return torch.where(present, value, 0).sum() / objects

        focal = centre_loss(centre, bumps(cell, present, side, self.bump), cell, present) / objects
        distance = over_objects((at(within, cell) - offset).abs().sum(dim=-1))
        wrong = sum(
            F.cross_entropy(at(each, cell).transpose(1, 2), true[..., number], reduction="none")
            for number, each in enumerate(concepts)
        )
        concept = over_objects(torch.as_tensor(wrong))
        return focal + self.within_weight * distance + self.concept_weight * concept


def cells(
    place: Float[Tensor, "batch object 2"], side: int
) -> tuple[Int[Tensor, "batch object"], Float[Tensor, "batch object 2"]]:
    """Return the cell of each place, counted row by row, and the way there from its middle."""
    corner = (place * side).floor().clamp(0, side - 1)
    column, row = corner.long().unbind(-1)
    return row * side + column, place * side - corner - 0.5


def bumps(
    cell: Int[Tensor, "batch object"],
    present: Bool[Tensor, "batch object"],
    side: int,
    width: float,
) -> Float[Tensor, "batch row column"]:
    """Return a map that is 1 in the cell of each centre and falls off around it."""
    line = torch.arange(side, device=cell.device)
    row, column = (
        (-((line - middle[..., None]) ** 2) / (2 * width**2)).exp()
        for middle in (cell // side, cell % side)
    )
    row = torch.where(present[..., None], row, 0)
    return (row[..., None] * column[..., None, :]).amax(dim=1)


def centre_loss(
    centre: Float[Tensor, "batch row column"],
    bump: Float[Tensor, "batch row column"],
    cell: Int[Tensor, "batch object"],
    present: Bool[Tensor, "batch object"],
) -> Float[Tensor, ""]:
    """Return the focal loss that goes easy on cells near a centre (Law and Deng 2018), summed."""
    chance = centre.sigmoid()
    false_alarm = (1 - bump) ** 4 * chance**2 * -F.logsigmoid(-centre)
    logit = at(centre[:, None], cell)[..., 0]
    missed = (1 - logit.sigmoid()) ** 2 * -F.logsigmoid(logit)
    return false_alarm.sum() + torch.where(present, missed, 0).sum()


def _draw(image: Tensor, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Draw numbers in [0, 1) for each image, of this shape each."""
    rows = (len(image), *shape)
    return torch.rand(rows, generator=generator, device=generator.device).to(image)
