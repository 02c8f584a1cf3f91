"""`recombine detect`: the objects that the shipped detector finds in CLEVR-like images."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import tyro
from jaxtyping import Float
from PIL import Image, ImageDraw, UnidentifiedImageError
from torch import Tensor

from recombine import zoo
from recombine.commands import choice
from recombine.commands.console import image_progress, print_json, say, tell_time_of
from recombine.commands.grammar import UNSET, Device, Json
from recombine.reader import Found, Reader
from recombine.report.files import new_folder, refuse_occupied
from recombine.report.picture import png
from recombine.scoring.reading import NOTHING
from recombine.worlds.clevr import Clevr

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".ppm", ".tif", ".tiff")
MARKED = 480
"""Smaller images are enlarged to about this side before they are marked."""
_COLUMNS = ("x", "y", "shape", "colour", "size", "material", "confidence")


@dataclass(frozen=True)
class DetectOptions:
    """Find the objects in CLEVR-like images of any size: place, shape, colour, size, material.

    Places are centres from 0 to 1, x right and y down; the most certain object comes first. Of an
    image that is not like CLEVR's it says "nothing I know" (in JSON, "known" is false).

    Example: recombine detect pictures/clevr_000000.png --json
    """

    images: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="IMAGES", help_behavior_hint="(required)"),
    ]
    """Images, or folders of images."""
    threshold: Annotated[float | None, UNSET] = None
    """Leave out objects of a lower confidence, from 0 to 1 (default: the detector's own)."""
    out: Annotated[Path | None, UNSET] = None
    """New folder for the images with every found centre marked."""
    device: Device = None
    json: Json = False


def run(options: DetectOptions) -> None:
    """Read every image and print the objects in it."""
    paths = chosen_images(options.images)
    device = choice.chosen_device(options.device)
    if options.out is not None:
        refuse_occupied(options.out)
        refuse_twins(paths)
    reader: Reader = chosen_reader(options.threshold)
    read: list[dict[str, Any]] = []
    first = pixels(opened(paths[0])).to(device)
    tell_time_of(len(paths), lambda few: [reader(first) for _ in range(few)], "reading")
    folder = nullcontext() if options.out is None else new_folder(options.out)
    with folder as partial, image_progress("reading") as watch:
        for number, path in enumerate(paths, 1):
            picture = opened(path)
            found = reader(pixels(picture).to(device))
            known = found.known is None or bool(found.known)
            objects = described(found)[0] if known else []
            if partial is not None:
                (partial / f"{path.stem}.png").write_bytes(png(marked(picture, objects)))
            read.append({"image": str(path), "known": known, "objects": objects})
            watch(number, len(paths))
    if options.json:
        print_json(f"{zoo.PREFIX}detector", {}, images=read)
    else:
        print("\n\n".join(table(*each.values()) for each in read))
    if options.out is not None:
        say(f"the marked images are in {options.out}")


def chosen_reader(threshold: float | None) -> Reader:
    """Return the shipped detector, with the user's threshold if there is one."""
    if threshold is not None and not 0 <= threshold <= 1:
        raise ValueError(f"--threshold lies in [0, 1]; got {threshold}")
    reader = zoo.detector()
    return reader if threshold is None else replace(reader, threshold=threshold)


def chosen_images(given: Sequence[Path]) -> list[Path]:
    """Return the given files; a folder stands for the images in it."""
    if not given:
        raise ValueError("name an image or a folder of images to read")
    found: list[Path] = []
    for path in given:
        if path.is_dir():
            inside = sorted(each for each in path.iterdir() if each.suffix.lower() in SUFFIXES)
            if not inside:
                raise ValueError(f"{path} holds no images; expected {', '.join(SUFFIXES)} files")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            raise ValueError(f"{path} is not there; expected an image or a folder of images")
    return found


def refuse_twins(paths: Sequence[Path]) -> None:
    """Refuse images that would be written over each other."""
    seen: dict[str, Path] = {}
    for path in paths:
        other = seen.setdefault(path.stem.casefold(), path)
        if other is not path:
            raise ValueError(f"{other} and {path} would both be written as {path.stem}.png")


def opened(path: Path) -> Image.Image:
    """Read an image in RGB, or say in one line why that cannot be."""
    try:
        with Image.open(path) as file:
            return file.convert("RGB")
    except UnidentifiedImageError as error:
        raise ValueError(f"{path} is not an image; expected PNG, JPEG or the like") from error
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path} is not a whole image: {error}") from error


def pixels(picture: Image.Image) -> Float[Tensor, "1 3 height width"]:
    """Return a picture as an image in [0, 1]."""
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1)[None] / 255


def described(found: Found) -> list[list[dict[str, Any]]]:
    """Return the objects of each image, in words."""
    numbers = (found.place, found.concepts, found.confidence, found.count)
    rows = zip(*(each.tolist() for each in numbers), strict=True)
    return [
        [_object(*each) for each in list(zip(*row, strict=True))[:count]] for *row, count in rows
    ]


def _object(place: list[float], concepts: list[int], confidence: float) -> dict[str, Any]:
    known: dict[str, Any] = dict(zip(("x", "y"), (round(end, 4) for end in place), strict=True))
    for factor, concept in zip(Clevr.factors, concepts, strict=True):
        known[factor.name] = factor.concepts[concept]
    known["confidence"] = round(confidence, 4)
    return {name: known[name] for name in _COLUMNS}


def table(name: str, known: bool, objects: Sequence[dict[str, Any]]) -> str:
    """Return the objects of an image as lines of text; of an image of another world, that it is."""
    if not known:
        return f"{name}: {NOTHING}"
    count = f"{len(objects)} object{'' if len(objects) == 1 else 's'}"
    rows = [
        [f"{v:.3f}" if isinstance(v, float) else str(v) for v in one.values()] for one in objects
    ]
    rows = [list(_COLUMNS), *rows] if rows else []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([f"{name}: {count}", *(f"  {line}" for line in lines)])


def marked(picture: Image.Image, objects: Sequence[dict[str, Any]]) -> Image.Image:
    """Return a picture, enlarged if it is small, with a dot at every centre."""
    factor = max(1, round(MARKED / max(picture.size)))
    picture = picture.resize((factor * picture.width, factor * picture.height))
    draw = ImageDraw.Draw(picture)
    radius = max(picture.size) / 100
    for each in objects:
        x, y = each["x"] * picture.width, each["y"] * picture.height
        box = (x - radius, y - radius, x + radius, y + radius)
        draw.ellipse(box, fill="magenta", outline="white")
    return picture
