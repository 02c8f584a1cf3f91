"""How far each pixel of a denoised image moves for what goes in: other pixels, or the condition.

This is about the denoised image, not the score: the score has -x / sigma^2 in it, which makes every
model look local at low noise. A pixel is (row, column), a distance the larger of the two steps, so
that the pixels within a radius are a square, as those of Niedoba et al. (PSPC) are.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from recombine.denoiser import Denoiser, check_answer, check_call

AT_ONCE = 64
"""Images that go through a denoiser at a time by default; memory grows with it."""


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
    squares = x.new_zeros(len(x), where.shape[1], *x.shape[2:])
    call = _Call(denoiser, x, sigma, condition)
    for image, query, square in call.pulled_back(where, at_once):
        squares[image, query] += square
    return squares.sqrt_()


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


def radius_holding(rings: Float[Tensor, "*batch distance"], share: float) -> Int[Tensor, "*batch"]:
    """Return the smallest radius within which this share of a profile lies."""
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

    def pulled_back(self, pixels: Tensor, at_once: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield images, which of their pixels, and the squared gradient of each channel of these.

        Every image goes through the denoiser in as many copies as there is room for. Each copy
        serves another pixel, and the same graph is walked back for all of them, so that the
        forward pass, and what it keeps, are paid for once.
        """
        queries = pixels.shape[1]
        for images in _parts(len(self.x), at_once, self.x.device):
            copies = max(1, min(queries, at_once // len(images)))
            image = images.repeat_interleave(copies)
            turn = torch.arange(copies, device=image.device).repeat(len(images))
            with torch.inference_mode(False), torch.enable_grad():
                x = self.x[image].requires_grad_()
                answer = self.denoised(image, x)
            for first in range(0, queries, copies):
                query = (first + turn).clamp(max=queries - 1)
                # The last round may have fewer pixels than copies.
                valid = first + turn < queries
                row, column = pixels[image, query].unbind(dim=1)
                for channel in range(x.shape[1]):
                    one_hot = torch.zeros_like(x)
                    one_hot[torch.arange(len(image), device=x.device), channel, row, column] = 1
                    square = _gradient(answer, x, one_hot).square().sum(dim=1)
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
