"""Reading a data set's folder without trusting what lies in it.

A downloaded archive may hold anything. Names must stay inside the folder, a picture's header is
checked before its pixels are unpacked, and every complaint is one line that names the file.
"""

import json
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

MOST_BYTES = 1 << 30
"""A list of images larger than this is refused; 70,000 scenes of CLEVR are well below."""

# What Pillow raises on broken or hostile pictures: seen in 12,000 damaged ones, or documented.
_BROKEN = (
    OSError,
    ValueError,
    SyntaxError,
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,
)


@dataclass(frozen=True)
class Format:
    """How the pictures of a data set are published, and what is cut off at the left and right."""

    kind: str
    width: int
    height: int
    modes: tuple[str, ...] = ("RGB",)
    cut: int = 0


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
    folder: Path, root: Path, names: Iterable[str], form: Format, side: int
) -> Float[Tensor, "batch 3 side side"]:
    """Return the pictures of these names, square and in [0, 1]; they are decoded side by side."""

    def square(path: Path) -> np.ndarray:
        cut = (form.cut, 0, form.width - form.cut, form.height)
        resized = picture(path, form).crop(cut).resize((side, side), Image.Resampling.BICUBIC)
        return np.asarray(resized)

    paths = [inside(folder, root, name) for name in names]
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        return unit(torch.from_numpy(np.stack(list(pool.map(square, paths)))))


def picture(path: Path, form: Format) -> Image.Image:
    """Return a decoded picture in RGB; its header must match before a pixel is unpacked."""
    try:
        with Image.open(path, formats=(form.kind,)) as image:
            size, mode = image.size, image.mode
            fits = size == (form.width, form.height) and mode in form.modes
            decoded = image.convert("RGB") if fits else None
    except _BROKEN as error:
        raise ValueError(f"{path} is not a whole {form.kind} image: {error}") from None
    if decoded is None:
        found = f"{size[0]}x{size[1]} pixels in mode {mode}"
        wanted = f"{form.width}x{form.height} in {' or '.join(form.modes)}"
        raise ValueError(f"{path} has {found}; expected {wanted}")
    return decoded


def unit(pixels: Tensor) -> Float[Tensor, "batch 3 height width"]:
    """Return bytes of rows, columns and channels as images in [0, 1]."""
    return pixels.permute(0, 3, 1, 2).to(torch.float32) / 255
