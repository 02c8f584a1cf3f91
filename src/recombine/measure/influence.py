"""How far each pixel of a denoised image moves for what goes in: other pixels, or the condition.

This is about the denoised image, not the score: the score has -x / sigma^2 in it, which makes every
model look local at low noise. A pixel is (row, column), a distance the larger of the two steps, so
that the pixels within a radius are a square, as those of Niedoba et al. (PSPC) are.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from recombine.denoiser import Denoiser, check_answer, check_call

AT_ONCE = 64
"""Images that go through a denoiser at a time by default; memory grows with it."""

Cotangents: TypeAlias = Callable[[Tensor, Tensor], Iterator[Tensor]]
"""(image, query) of each row -> weights of the denoised pixels whose gradients are wanted."""


def pixel_influence(
    denoiser: Denoiser,
    x: Float[Tensor, "batch channel height width"],
    sigma: Float[Tensor, " batch"],
    condition: Shaped[Tensor, " batch *condition"],
    pixels: Int[Tensor, "batch pixel 2"] | Int[Tensor, "pixel 2"] | None = None,
    at_once: int = AT_ONCE,
) -> Float[Tensor, "batch pixel height width"]:
    """Return the norm over channels of d denoised[pixel] / d x, for every pixel of x.

    The pixels may differ from image to image; without any, all are used, row by row.
    """
    where = _checked_pixels(pixels, x)

    def one_hot(image: Tensor, query: Tensor) -> Iterator[Tensor]:
        row, column = where[image, query].unbind(dim=1)
        for channel in range(x.shape[1]):
            cotangent = x.new_zeros(len(image), *x.shape[1:])
            cotangent[torch.arange(len(image), device=x.device), channel, row, column] = 1
            yield cotangent

    squares = x.new_zeros(len(x), where.shape[1], *x.shape[2:])
    call = _Call(denoiser, x, sigma, condition)
    for image, query, square in call.pulled_back(where.shape[1], one_hot, at_once):
        squares[image, query] += square
    return squares.sqrt_()


@dataclass(frozen=True)
class Probes:
    """How many random probes each region has, and how many images go through at a time."""

    generator: torch.Generator
    count: int = 64
    at_once: int = AT_ONCE

    def __post_init__(self) -> None:
        if self.count < 2:
            raise ValueError(f"an estimate with its error needs 2 probes or more; got {self.count}")


@dataclass(frozen=True)
class Estimate:
    """The square of an influence, without bias, and its standard error."""

    square: Float[Tensor, "batch region height width"]
    error: Float[Tensor, "batch region height width"]


def estimated_influence(
    denoiser: Denoiser,
    x: Float[Tensor, "batch channel height width"],
    sigma: Float[Tensor, " batch"],
    condition: Shaped[Tensor, " batch *condition"],
    regions: Bool[Tensor, "region rows columns"],
    probes: Probes,
) -> Estimate:
    """Estimate the squared influence on whole regions: sums of squares over their pixels.

    A probe weighs every channel of a region's pixels by a random sign v, and takes one gradient
    J'v. Signs are independent, so the mean of |J'v|^2 at a pixel of x is the sum of the squared
    norms of J there: one backward pass for a region instead of one per pixel and channel of it.
    """
    if regions.shape[1:] != x.shape[2:]:
        raise ValueError(
            f"regions are masks of {tuple(x.shape[2:])} pixels; got {tuple(regions.shape[1:])}"
        )
    generator = probes.generator
    masks = regions.to(x)

    def signs(image: Tensor, query: Tensor) -> Iterator[Tensor]:
        shape = (len(image), *x.shape[1:])
        for _ in range(probes.count):
            sign = torch.randint(2, shape, generator=generator, device=generator.device)
            yield (2 * sign - 1).to(x) * masks[query][:, None]

    # Welford's running mean and sum of squared distances from it.
    mean = x.new_zeros(len(x), len(regions), *x.shape[2:])
    spread = torch.zeros_like(mean)
    seen = x.new_zeros(len(x), len(regions), 1, 1)
    call = _Call(denoiser, x, sigma, condition)
    for image, query, square in call.pulled_back(len(regions), signs, probes.at_once):
        seen[image, query] += 1
        away = square - mean[image, query]
        mean[image, query] += away / seen[image, query]
        spread[image, query] += away * (square - mean[image, query])
    return Estimate(mean, (spread / (probes.count - 1) / probes.count).sqrt())


def object_influence(
    denoiser: Denoiser,
    x: Float[Tensor, "batch channel height width"],
    sigma: Float[Tensor, " batch"],
    condition: Shaped[Tensor, " batch *condition"],
    changed: Shaped[Tensor, " object *changed"],
    at_once: int = AT_ONCE,
) -> Float[Tensor, "object batch height width"]:
    """Return how far each pixel moves, over channels, when the condition is changed.

    `changed` are conditions with one object left out, or moved, each object in turn.
    """
    if changed.shape[1:] != condition.shape:
        raise ValueError(
            f"the condition has the shape {tuple(condition.shape)}, changed ones have one axis "
            f"more, the object; got {tuple(changed.shape)}"
        )
    whole = denoised_images(denoiser, x, sigma, condition, at_once)
    moved = [denoised_images(denoiser, x, sigma, each, at_once) - whole for each in changed]
    return torch.stack([each.norm(dim=1) for each in moved])


def denoised_images(
    denoiser: Denoiser,
    x: Float[Tensor, "batch channel height width"],
    sigma: Float[Tensor, " batch"],
    condition: Shaped[Tensor, " batch *condition"],
    at_once: int = AT_ONCE,
) -> Float[Tensor, "batch channel height width"]:
    """Return the denoised images, as exactly as floating point allows."""
    call = _Call(denoiser, x, sigma, condition)
    with torch.no_grad(), _unshortened():
        return torch.cat([call.denoised(rows) for rows in _parts(len(x), at_once, x.device)])


def distances(
    pixels: Int[Tensor, "batch pixel 2"], height: int, width: int
) -> Int[Tensor, "batch pixel height width"]:
    """Return how far each pixel of an image is from these."""
    row, column = pixels[..., 0, None], pixels[..., 1, None]
    down = (torch.arange(height, device=pixels.device) - row).abs()
    right = (torch.arange(width, device=pixels.device) - column).abs()
    return torch.maximum(down[..., None], right[..., None, :])


def profile(
    influence: Float[Tensor, "batch pixel height width"], pixels: Int[Tensor, "batch pixel 2"]
) -> Float[Tensor, "batch pixel distance"]:
    """Return the influence from all pixels at each distance; only pixels that exist count."""
    height, width = influence.shape[2:]
    away = distances(pixels, height, width).flatten(2)
    rings = influence.new_zeros(*influence.shape[:2], max(height, width))
    return rings.scatter_add(2, away, influence.flatten(2))


def share_within(rings: Float[Tensor, "*batch distance"], radius: int) -> Float[Tensor, "*batch"]:
    """Return the share of a profile that comes from at most so far away (1: local)."""
    return rings[..., : radius + 1].sum(dim=-1) / rings.sum(dim=-1)


def radius_holding(rings: Float[Tensor, "*batch distance"], share: float) -> Int[Tensor, "*batch"]:
    """Return the smallest radius within which this share of a profile lies."""
    if not 0 < share < 1:
        raise ValueError(f"a share lies strictly between 0 and 1; got {share}")
    held = rings.cumsum(dim=-1)
    return (held < share * held[..., -1:]).sum(dim=-1)


def pixels_at(
    place: Float[Tensor, "batch object 2"], height: int, width: int
) -> Int[Tensor, "batch object 2"]:
    """Return the pixels that hold these places: (x, y) from 0 to 1, x right and y down."""
    outside = ~((place >= 0) & (place < 1)).all(dim=-1)
    if outside.any():
        image, number = outside.nonzero()[0].tolist()
        x, y = place[image, number].tolist()
        raise ValueError(
            f"requested object {number} of image {image} is at ({x:.3g}, {y:.3g}), outside the "
            "image: places are from 0 to 1"
        )
    size = torch.tensor([width, height], device=place.device)
    return (place * size).floor().long().minimum(size - 1).flip(-1)


@dataclass(frozen=True)
class _Call:
    """A denoiser and what it is called with; checked once."""

    denoiser: Denoiser
    x: Tensor
    sigma: Tensor
    condition: Tensor

    def __post_init__(self) -> None:
        if self.x.dim() != 4:
            shape = tuple(self.x.shape)
            raise ValueError(f"x has the shape (batch, channel, height, width); got {shape}")
        check_call(self.x, self.sigma, self.condition)

    def denoised(self, rows: Tensor, x: Tensor | None = None) -> Tensor:
        """Return some of the images denoised, or others in their place."""
        x = self.x[rows] if x is None else x
        answer = self.denoiser(x, self.sigma[rows], self.condition[rows])
        check_answer(answer, x)
        return answer

    def pulled_back(
        self, queries: int, cotangents: Cotangents, at_once: int
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield images, queries and the squared gradient for each cotangent, over channels.

        Every image goes through the denoiser in as many copies as there is room for. Each copy
        serves another query, and the same graph is walked back for all of them, so that the
        forward pass, and what it keeps, are paid for once.
        """
        for images in _parts(len(self.x), at_once, self.x.device):
            copies = max(1, min(queries, at_once // len(images)))
            image = images.repeat_interleave(copies)
            turn = torch.arange(copies, device=image.device).repeat(len(images))
            with torch.inference_mode(False), torch.enable_grad():
                x = self.x[image].requires_grad_()
                answer = self.denoised(image, x)
            for first in range(0, queries, copies):
                query = (first + turn).clamp(max=queries - 1)
                # The last round may have fewer queries than copies.
                valid = first + turn < queries
                for cotangent in cotangents(image, query):
                    square = _gradient(answer, x, cotangent).square().sum(dim=1)
                    yield image[valid], query[valid], square[valid]
            # Two graphs at a time would be twice the memory.
            del answer, x


def _gradient(answer: Tensor, x: Tensor, cotangent: Tensor) -> Tensor:
    """Return the gradient of the weighted answer, leaving none on the weights of a network."""
    found = None
    if answer.requires_grad:
        weights = cotangent.to(answer)
        (found,) = torch.autograd.grad(answer, x, weights, retain_graph=True, allow_unused=True)
    if found is None:
        raise ValueError(
            "no gradient of the denoised image reaches x: the denoiser works under "
            "torch.no_grad(), detaches, or does not look at x"
        )
    return found


def _checked_pixels(pixels: Tensor | None, x: Tensor) -> Tensor:
    """Return the pixels of each image, all of them by default."""
    height, width = x.shape[2:]
    if pixels is None:
        row, column = torch.arange(height, device=x.device), torch.arange(width, device=x.device)
        pixels = torch.cartesian_prod(row, column)
    pixels = pixels.to(x.device)
    outside = (pixels < 0) | (pixels >= torch.tensor([height, width], device=x.device))
    if outside.any():
        wrong = pixels[outside.any(dim=-1)][0].tolist()
        raise ValueError(f"pixel {wrong} is outside an image of {height} rows, {width} columns")
    return pixels.expand(len(x), *pixels.shape[-2:])


def _parts(images: int, at_once: int, device: torch.device) -> tuple[Tensor, ...]:
    """Return the numbers of the images, in parts of at most so many."""
    if at_once < 1:
        raise ValueError(f"at_once is at least 1 image; got {at_once}")
    return torch.arange(images, device=device).split(at_once)


@contextmanager
def _unshortened() -> Iterator[None]:
    """Let convolutions on a GPU keep all digits: differences of nearly equal images need them."""
    now = torch.backends.cudnn
    with now.flags(
        enabled=now.enabled,
        benchmark=now.benchmark,
        deterministic=now.deterministic,
        allow_tf32=False,
    ):
        yield
