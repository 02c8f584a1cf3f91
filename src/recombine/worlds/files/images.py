"""A folder of your own images, with a table that says what each one shows.

    file,shape,colour
    0001.png,cup,red
    more/0002.jpg,plate,blue

Every column but `file` is a factor, its values are the concepts, a row is an image of one object.
"""

import csv
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from PIL import Image, ImageOps
from torch import Tensor

from recombine.draw import shuffled
from recombine.scene import Concepts, Factor, Scenes, concept_rows
from recombine.spelling import spelled
from recombine.worlds.files.folder import directory, inside, labelled, squares, text, unit

FILE = "file"
FITS = ("crop", "stretch")
PARTS = ("train", "test", "all")
MOST_PIXELS = 100_000_000
KEPT = 1 << 30
"""Bytes of decoded images that are kept in memory; of a larger folder none are."""


@dataclass(frozen=True)
class AnySize:
    """Pictures of any size with 8 bits a channel: "crop" keeps the middle square, "stretch" all.

    They are turned as their camera notes it; what is transparent is laid on white.
    """

    fit: str = "crop"

    kinds: ClassVar[tuple[str, ...]] = ("PNG", "JPEG", "TIFF", "WEBP")

    def fault(self, image: Image.Image) -> str:
        """Return what is wrong with a picture."""
        if image.width * image.height > MOST_PIXELS:
            return f"has {image.width}x{image.height} pixels; expected at most {MOST_PIXELS:,}"
        if image.mode not in ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"):
            return f"has pixels in mode {image.mode}; expected 8 bits a channel"
        if (frames := getattr(image, "n_frames", 1)) > 1:
            return f"has {frames} frames; expected 1"
        return ""

    def square(self, image: Image.Image) -> Image.Image:
        """Return the picture in RGB, upright and square."""
        upright = ImageOps.exif_transpose(image)
        if upright.has_transparency_data:
            over = upright.convert("RGBA")
            upright = Image.alpha_composite(Image.new("RGBA", over.size, "white"), over)
        whole, side = upright.convert("RGB"), min(upright.size)
        if self.fit == "stretch":
            return whole
        left, upper = (whole.width - side) // 2, (whole.height - side) // 2
        return whole.crop((left, upper, left + side, upper + side))


@dataclass(frozen=True)
class ImageFolder:
    """The images of a folder whose composition is from `among`; an empty `among` means all.

    `labels` is the name of a table in the folder, or the path of one elsewhere. Of each composition
    the share `tested` is for testing, chosen by the names of the files. `known` are the factors
    where concepts are to have an order, or where a value that is not among them is a mistake;
    otherwise they are the columns with their values in the order of the alphabet.
    """

    folder: Path | str = field(repr=False)
    labels: Path | str = "labels.csv"
    size: int = 64
    fit: str = "crop"
    part: str = "train"
    among: tuple[Concepts, ...] = ()
    tested: float = 0.2
    known: tuple[Factor, ...] = ()

    name: ClassVar[str] = "image_folder"

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"an image has a side of at least 1 pixel; got {self.size}")
        for name, value, among in (("fit", self.fit, FITS), ("part", self.part, PARTS)):
            if value not in among:
                raise ValueError(f"{name} is one of {', '.join(among)}; got {value!r}")
        if not 0 <= self.tested <= 1:
            raise ValueError(f"the share that is tested is from 0 to 1; got {self.tested}")

    @property
    def factors(self) -> tuple[Factor, ...]:
        return self._table.factors

    @property
    def fingerprint(self) -> str:
        """What a training depends on: the content of the table and not where it lies."""
        names = [each.name for each in fields(self) if each.name not in ("folder", "labels")]
        rest = "".join(f", {name}={spelled(getattr(self, name))}" for name in names)
        return f"ImageFolder(labels={self._table.digest}{rest})"

    def __len__(self) -> int:
        """Return how many images of these compositions are in this part."""
        return len(self._mine[1])

    def scenes_of(self, number: Int[Tensor, " batch"]) -> Scenes:
        """Return scenes of which the concepts are known, and the number of the image."""
        return labelled(self._mine[0][number.cpu()].to(number.device), number)

    def image_of(self, number: Int[Tensor, " batch"]) -> Float[Tensor, "batch 3 height width"]:
        """Return these images, square and of the declared size."""
        wanted, kept = number.tolist(), self._decoded
        new = [each for each in dict.fromkeys(wanted) if each not in kept]
        if new:
            paths = [located(Path(self.folder), self._mine[1][each]) for each in new]
            kept.update(zip(new, squares(paths, AnySize(self.fit), self.size), strict=True))
        pixels = torch.stack([kept[each] for each in wanted])
        if len(self) * 3 * self.size**2 > KEPT:
            kept.clear()
        return unit(pixels.to(number.device))

    def scenes(self, index: Int[Tensor, " batch"], seed: int) -> Scenes:
        """Return the scenes of these numbers: every image once, then all in a new order."""
        return self.scenes_of(shuffled(index, seed, len(self)))

    def image(self, scenes: Scenes) -> Float[Tensor, "batch 3 height width"]:
        """Return the images that scenes of this folder, part and `among` are of."""
        return self.image_of(scenes.shape[:, 0])

    @cached_property
    def _decoded(self) -> dict[int, Tensor]:
        return {}

    @property
    def _table(self) -> "LabelTable":
        root = directory(Path(self.folder))
        path = next((p for p in (root / self.labels, Path(self.labels)) if p.is_file()), None)
        if path is None:
            raise ValueError(f"{root / self.labels} is missing: a table of {FILE} and factors")
        return label_table(root, path, path.stat().st_mtime_ns, self.known)

    @cached_property
    def _mine(self) -> tuple[Int[Tensor, "image factor"], list[str]]:
        table = self._table
        wanted = set(map(tuple, concept_rows(table.factors, self.among).tolist()))
        rows = [
            (name, composition)
            for composition, names in table.images.items()
            if composition in wanted or not self.among
            for name in self._of_part(names)
        ]
        if not rows:
            raise ValueError(
                f"{self.folder} has no image of the {self.part} part that is of a wanted "
                f"composition; {len(table.images)} compositions have images"
            )
        return torch.tensor([each for _, each in rows]), [name for name, _ in rows]

    def _of_part(self, names: Sequence[str]) -> list[str]:
        """Return those names of a composition that are of this part, by a hash of each."""
        if self.part == "all":
            return list(names)
        order = sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())
        tested = int(self.tested * len(order) + 0.5)
        return order[:tested] if self.part == "test" else order[tested:]


@dataclass(frozen=True)
class LabelTable:
    """What a table of labels says: the factors, and the files by the numbers of their concepts."""

    factors: tuple[Factor, ...]
    images: Mapping[tuple[int, ...], Sequence[str]]
    digest: str


@lru_cache(maxsize=16)
def label_table(root: Path, path: Path, changed: int, known: tuple[Factor, ...]) -> LabelTable:
    """Read a table, once while it is not `changed`; what is wrong in it is named by its line."""
    del changed
    content = text(path).removeprefix("\ufeff")
    try:
        columns, rows = split_rows(content)
        check_files(root, rows)
        names = [column for column in columns if column != FILE]
        factors = known or tuple(
            Factor(name, tuple(sorted({row[name] for row in rows.values()}))) for name in names
        )
        if (expected := [factor.name for factor in factors]) != names:
            raise ValueError(f"the factors are {', '.join(names)}; expected {', '.join(expected)}")
        images: dict[tuple[int, ...], list[str]] = {}
        for line, row in rows.items():
            images.setdefault(numbered(line, factors, row), []).append(row[FILE])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return LabelTable(factors, images, hashlib.sha256(content.encode()).hexdigest())


def split_rows(content: str) -> tuple[list[str], dict[int, dict[str, str]]]:
    """Return the columns of a table and its rows by their line; empty lines are left out."""
    reader = csv.reader(content.splitlines(), strict=True)
    try:
        cells = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num} is not of a table: {error}") from None
    (head, columns), *lines = cells or [(1, [])]
    if columns.count(FILE) != 1 or len(columns) < 2 or len(set(columns)) < len(columns):
        raise ValueError(
            f"line {head} names the columns {', '.join(columns) or '(none)'}; expected one called "
            f"{FILE} and one for each factor"
        )
    if not lines:
        raise ValueError("there are no rows; expected one for each image")
    for line, row in lines:
        if len(row) != len(columns):
            raise ValueError(f"line {line} has {len(row)} entries; expected {len(columns)}")
        for column, cell in zip(columns, row, strict=True):
            if not cell or not cell.isprintable():
                raise ValueError(f"line {line} has no {column}; got {cell!r}")
    return columns, {line: dict(zip(columns, row, strict=True)) for line, row in lines}


def check_files(root: Path, rows: Mapping[int, Mapping[str, str]]) -> None:
    """Raise if an image is listed twice or is not in the folder."""
    seen: dict[str, int] = {}
    for line, row in rows.items():
        name = row[FILE]
        if name in seen:
            raise ValueError(f"line {line} names {name}, as line {seen[name]} does")
        seen[name] = line
        try:
            located(root, name)
        except ValueError as error:
            raise ValueError(f"line {line}: {error}") from None


def located(root: Path, name: str) -> Path:
    """Return the path of an image, which may lie in a folder below; it never leaves the root."""
    *above, last = name.split("/")
    if any(part in ("", ".", "..") for part in above):
        raise ValueError(f"{name!r} is not the name of a file below {root}")
    return inside(root.joinpath(*above), root, last)


def numbered(line: int, factors: Sequence[Factor], row: Mapping[str, str]) -> tuple[int, ...]:
    """Return the number of each factor's concept in a row."""
    try:
        return tuple(factor.index(row[factor.name]) for factor in factors)
    except ValueError as error:
        raise ValueError(f"line {line}: {error}") from None
