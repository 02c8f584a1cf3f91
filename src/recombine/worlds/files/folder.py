"""Reading a data set's folder without trusting what lies in it.

A downloaded archive may hold anything. Names must stay inside the folder, a picture's header is
checked before its pixels are unpacked, and every complaint is one line that names the file.
"""

import json
import os
import struct
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from PIL import Image
from torch import Tensor

from recombine.render.raster import flat_scenes
from recombine.scene import Scenes

MOST_BYTES = 1 << 30
"""A list of images larger than this is refused; 70,000 scenes of CLEVR are well below."""

# What Pillow raises on broken or hostile pictures: seen in 12,000 damaged ones, or documented.
_BROKEN = (
    OSError,
    ValueError,
    SyntaxError,
    TypeError,
    struct.error,
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,
)


@runtime_checkable
class Form(Protocol):
    """Which pictures are opened, and how one becomes a square."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The formats that are opened, as Pillow calls them."""

    def fault(self, image: Image.Image) -> str:
        """Return by its header what is wrong with a picture, or nothing."""

    def square(self, image: Image.Image) -> Image.Image:
        """Return a picture in RGB, cut square."""


@dataclass(frozen=True)
class Format:
    """How the pictures of a data set are published, and what is cut off at the left and right."""

    kind: str
    width: int
    height: int
    modes: tuple[str, ...] = ("RGB",)
    cut: int = 0

    @property
    def kinds(self) -> tuple[str, ...]:
        """The one format."""
        return (self.kind,)

    def fault(self, image: Image.Image) -> str:
        """Return what differs from the pictures as they are published."""
        if image.size == (self.width, self.height) and image.mode in self.modes:
            return ""
        found = f"{image.width}x{image.height} pixels in mode {image.mode}"
        return f"has {found}; expected {self.width}x{self.height} in {' or '.join(self.modes)}"

    def square(self, image: Image.Image) -> Image.Image:
        """Return the picture in RGB without what is cut off."""
        return image.convert("RGB").crop((self.cut, 0, self.width - self.cut, self.height))


def directory(folder: Path, *names: str) -> Path:
    """Return a folder of the data set; raise if it is missing."""
    path = folder.joinpath(*names)
    if not path.is_dir():
        raise ValueError(f"{path} is not a folder; {'/'.join(names) or 'the data set'} is missing")
    return path


def inside(folder: Path, root: Path, name: str) -> Path:
    """Return the regular file `name` of a folder; one that leaves the data set is refused."""
    if name in ("", ".", "..") or any(sign in name for sign in "/\\:\0"):
        raise ValueError(f"{name!r} is not the plain name of a file in {folder}")
    path = folder / name
    if not path.exists():
        raise ValueError(f"{path} is missing")
    if not path.resolve().is_relative_to(root.resolve()):
        raise ValueError(f"{path} is a link that leaves the data set in {root}")
    if not path.is_file():
        raise ValueError(f"{path} is not a regular file")
    return path


def all_there(folder: Path, names: Sequence[object]) -> None:
    """Raise if a listed picture is missing from a folder, or listed twice."""
    there = {entry.name for entry in os.scandir(folder)}
    seen = set[str]()
    for name in names:
        if not isinstance(name, str) or name not in there:
            raise ValueError(f"{folder} has no image {name}, which is listed")
        if name in seen:
            raise ValueError(f"{name} is listed twice among the images of {folder}")
        seen.add(name)


def text(path: Path) -> str:
    """Return a whole text file of bounded size."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise ValueError(f"{path} has {size} bytes; at most {MOST_BYTES} are read")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file in UTF-8: {error}") from None


def parsed(path: Path) -> object:
    """Return the content of a JSON file."""
    try:
        return json.loads(text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not whole, valid JSON: {error}") from None


def pictures(
    folder: Path, root: Path, names: Iterable[str], form: Form, side: int
) -> Float[Tensor, "batch 3 side side"]:
    """Return the pictures of these names, square and in [0, 1]."""
    return unit(squares([inside(folder, root, name) for name in names], form, side))


def squares(paths: Sequence[Path], form: Form, side: int) -> UInt8[Tensor, "batch side side 3"]:
    """Return pictures of one size as bytes; they are decoded side by side."""

    def resized(path: Path) -> np.ndarray:
        return np.asarray(picture(path, form).resize((side, side), Image.Resampling.BICUBIC))

    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        return torch.from_numpy(np.stack(list(pool.map(resized, paths))))


def picture(path: Path, form: Form) -> Image.Image:
    """Return a square picture in RGB; its header must fit before a pixel is unpacked."""
    try:
        with Image.open(path, formats=form.kinds) as image:
            fault = form.fault(image)
            decoded = None if fault else form.square(image)
    except _BROKEN as error:
        kinds = " or ".join(form.kinds)
        raise ValueError(f"{path} is not a whole {kinds} image: {error}") from None
    if decoded is None:
        raise ValueError(f"{path} {fault}")
    return decoded


def unit(pixels: Tensor) -> Float[Tensor, "batch 3 height width"]:
    """Return bytes of rows, columns and channels as images in [0, 1]."""
    return pixels.permute(0, 3, 1, 2).to(torch.float32) / 255


def labelled(concepts: Int[Tensor, "batch factor"], number: Tensor | None = None) -> Scenes:
    """Return scenes of one object each of which the concepts are known and nothing else.

    What a picture on disk shows has no shape that we could name: its number stands there, or 0.
    """
    nothing = torch.zeros(len(concepts), 3, device=concepts.device)
    shape = torch.zeros_like(concepts[:, 0]) if number is None else number
    return flat_scenes(nothing[:, :2], nothing[:, 0], nothing, shape, concepts, nothing)
