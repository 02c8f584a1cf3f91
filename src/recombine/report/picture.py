"""Images as pictures: 8-bit pixels, PNG, contact sheets, rings around requested places."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import TypeAlias

import torch
from jaxtyping import Float, UInt8
from PIL import Image, ImageDraw
from torch import Tensor

Place: TypeAlias = tuple[float, float]
"""x right and y down, from 0 to 1."""
Crop: TypeAlias = tuple[float, float, float, float]
"""The left, upper, right and lower end of a part of an image, from 0 to 1."""
WHOLE: Crop = (0.0, 0.0, 1.0, 1.0)
RADIUS = 0.07
"""Of a ring, in image sides: larger than an object, so that the ring goes around it."""
FOUND, MISSED, _SHADE = "#63f0b4", "#ff7a59", (16, 18, 22, 150)
_FINER = 4
_DASHES = 9


@dataclass(frozen=True)
class Ring:
    """A requested place in an image, and whether an object was found there."""

    place: Place
    found: bool


def pixels(images: Float[Tensor, "batch 3 height width"]) -> UInt8[Tensor, "batch height width 3"]:
    """Return images in [0, 1] as 8-bit pixels on the CPU; what lies outside is cut off."""
    if not images.isfinite().all():
        raise ValueError("an image holds values that are not finite; expected sRGB in [0, 1]")
    levels = images.detach().float().clamp(0, 1).mul(255).round().to(torch.uint8)
    return levels.permute(0, 2, 3, 1).contiguous().cpu()


def pictures(images: Float[Tensor, "batch 3 height width"]) -> list[Image.Image]:
    """Return one picture per image."""
    return [Image.fromarray(picture) for picture in pixels(images).numpy()]


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


def enlarged(
    picture: Image.Image, scale: int, rings: Sequence[Ring] = (), part: Crop = WHOLE
) -> Image.Image:
    """Return a part of a picture with every pixel `scale` times as large, and rings around places.

    The part is widened to whole pixels.
    """
    size = (picture.width * scale, picture.height * scale)
    large = picture.convert("RGB").resize(size, Image.Resampling.NEAREST)
    for ring in rings:
        _draw(ring, large, RADIUS, max(2.0, 0.36 * scale))
    (width, height), (left, upper, right, lower) = picture.size, part
    start = (scale * floor(left * width), scale * floor(upper * height))
    return large.crop((*start, scale * ceil(right * width), scale * ceil(lower * height)))


def ring_alone(found: bool, side: int) -> Image.Image:
    """Return a ring on a plain floor, for the key that explains rings."""
    plain = Image.new("RGB", (side, side), "#77787a")
    _draw(Ring((0.5, 0.5), found), plain, 0.36, side / 16)
    return plain


def _draw(ring: Ring, large: Image.Image, radius: float, line: float) -> None:
    """Draw a closed green ring or a dashed red one; a dark rim makes it show on any colour."""
    reach = radius * max(large.size)
    margin = ceil(reach + 2 * line)
    x, y = ring.place[0] * large.width, ring.place[1] * large.height
    corner = (round(x) - margin, round(y) - margin)
    layer = Image.new("RGBA", (2 * margin * _FINER, 2 * margin * _FINER))
    pen = ImageDraw.Draw(layer)
    centre = (_FINER * (x - corner[0]), _FINER * (y - corner[1]))
    step = 360 / _DASHES
    arcs = [(0.0, 360.0)] if ring.found else [(k * step, (k + 0.6) * step) for k in range(_DASHES)]
    for colour, thick in ((_SHADE, line + 1.4), (FOUND if ring.found else MISSED, line)):
        outer = _FINER * (reach + thick / 2)
        box = (*(end - outer for end in centre), *(end + outer for end in centre))
        for start, end in arcs:
            pen.arc(box, start, end, fill=colour, width=round(_FINER * thick))
    layer = layer.resize((2 * margin, 2 * margin), Image.Resampling.BOX)
    large.paste(layer, corner, layer)


def png(picture: Image.Image) -> bytes:
    """Return a picture as the bytes of a PNG file."""
    buffer = io.BytesIO()
    picture.save(buffer, format="PNG")
    return buffer.getvalue()


def data_uri(picture: Image.Image) -> str:
    """Return a picture as an address that a page can hold without a file beside it."""
    return "data:image/png;base64," + base64.b64encode(png(picture)).decode()
