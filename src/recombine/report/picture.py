"""Images as pictures: 8-bit pixels, PNG, contact sheets."""

import base64
import io
from pathlib import Path

import torch
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor


def pixels(
    images: Float[Tensor, "batch 3 height width"],
) -> UInt8[Tensor, "batch height width 3"]:
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
    height, width = images.shape[2:]
    columns = min(columns, len(images))
    rows = -(-len(images) // columns)
    size = (columns * (width + gap) - gap, rows * (height + gap) - gap)
    sheet = Image.new("RGB", size, "white")
    for number, picture in enumerate(pictures(images)):
        row, column = divmod(number, columns)
        sheet.paste(picture, (column * (width + gap), row * (height + gap)))
    return sheet


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
