"""Images as pictures: 8-bit pixels, PNG, contact sheets."""

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import torch
from jaxtyping import Float, UInt8
from PIL import Image, ImageDraw
from torch import Tensor

DOT = 0.017
"""Radius of a dot at a told place, in image sides."""
_FINER = 4
_HIT, _MISSED, _RIM = "#ffffff", "#ff5a3c", "#15181c"

Place: TypeAlias = tuple[float, float]
"""x right and y down, from 0 to 1."""


def pixels(images: Float[Tensor, "batch 3 height width"]) -> UInt8[Tensor, "batch height width 3"]:
    """Return images in [0, 1] as 8-bit pixels on the CPU; what lies outside is cut off."""
    if not images.isfinite().all():
        raise ValueError("an image holds values that are not finite; expected sRGB in [0, 1]")
    levels = images.detach().float().clamp(0, 1).mul(255).round().to(torch.uint8)
    return levels.permute(0, 2, 3, 1).contiguous().cpu()


def pictures(images: Float[Tensor, "batch 3 height width"]) -> list[Image.Image]:
    """Return one picture per image."""
    return [Image.fromarray(picture) for picture in pixels(images).numpy()]


def contact_sheet(
    images: Float[Tensor, "batch 3 height width"], columns: int, gap: int = 2
) -> Image.Image:
    """Return the images side by side on white, row by row, `gap` pixels apart."""
    if len(images) == 0 or columns < 1 or gap < 0:
        raise ValueError(
            f"a contact sheet needs an image, a column and a gap of 0 or more; "
            f"got {len(images)} images, {columns} columns and a gap of {gap}"
        )
    return tiled(pictures(images), columns, gap)


def tiled(tiles: Sequence[Image.Image], columns: int, gap: int = 2) -> Image.Image:
    """Return pictures of one size side by side on white, row by row."""
    width, height = tiles[0].size
    columns = min(columns, len(tiles))
    rows = -(-len(tiles) // columns)
    size = (columns * (width + gap) - gap, rows * (height + gap) - gap)
    sheet = Image.new("RGB", size, "white")
    for number, tile in enumerate(tiles):
        row, column = divmod(number, columns)
        sheet.paste(tile, (column * (width + gap), row * (height + gap)))
    return sheet


def dotted(
    picture: Image.Image, places: Sequence[Place], hit: Sequence[bool], scale: int = 4
) -> Image.Image:
    """Return the picture enlarged, with a dot at each place ([0, 1]); a ring where none is hit."""
    size = (picture.width * scale, picture.height * scale)
    finer = _FINER
    layer = Image.new("RGBA", (size[0] * finer, size[1] * finer))
    pen = ImageDraw.Draw(layer)
    radius = finer * DOT * max(size)
    for (x, y), filled in zip(places, hit, strict=True):
        centre = (x * layer.width, y * layer.height)
        # A dark rim under a light dot shows on any colour.
        pen.circle(centre, radius * 1.35, fill=_RIM)
        pen.circle(centre, radius, fill=_HIT if filled else _MISSED)
        if not filled:
            pen.circle(centre, radius * 0.5, fill=_RIM)
    large = picture.convert("RGB").resize(size, Image.Resampling.BICUBIC).convert("RGBA")
    large.alpha_composite(layer.resize(size, Image.Resampling.BOX))
    return large.convert("RGB")


def png(picture: Image.Image) -> bytes:
    """Return a picture as the bytes of a PNG file."""
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG")
    return buffer.getvalue()


def data_uri(picture: Image.Image) -> str:
    """Return a picture as an address that a page can hold without a file beside it."""
    return "data:image/png;base64," + base64.b64encode(png(picture)).decode()


def write_png(picture: Image.Image, path: Path) -> None:
    """Write a picture as a PNG file."""
    path.write_bytes(png(picture))
