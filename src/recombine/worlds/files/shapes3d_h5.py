"""3dshapes.h5 as published: 480,000 images of one object in a room (Burgess and Kim 2018).

In h5py's default layout each compressed chunk holds a few pixels of 15,000 images, so that one
image costs 176 MiB of unpacking. Such a file is unpacked once, when the first image is read:
12 KiB of memory per image kept. A file with small chunks is read image by image.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from recombine.scene import Concepts, Factor, Scenes, composition_number, concept_rows
from recombine.worlds.files.folder import unit
from recombine.worlds.shapes3d import Shapes3D, rooms

# The columns of `labels`: name, number of values, first and last of them, evenly spaced.
COLUMNS = (
    ("floor_hue", 10, 0.0, 0.9),
    ("wall_hue", 10, 0.0, 0.9),
    ("object_hue", 10, 0.0, 0.9),
    ("scale", 8, 0.75, 1.25),
    ("shape", 4, 0.0, 3.0),
    ("orientation", 15, -30.0, 30.0),
)
# Where hue, shape and scale stand among them.
CONTROLLED = (2, 4, 3)
SIDE, MOST = 64, 480_000
# A chunk of more images than this is unpacked once; of more bytes than this, never.
MANY, HUGE = 64, 1 << 26


@dataclass(frozen=True)
class Shapes3DFile:
    """The images whose composition is from `among`; an empty `among` means all."""

    path: Path = field(repr=False)
    among: tuple[Concepts, ...] = ()

    name: ClassVar[str] = "shapes3d_h5"
    factors: ClassVar[tuple[Factor, ...]] = Shapes3D.factors
    size: ClassVar[int] = SIDE

    def __len__(self) -> int:
        """Return how many images have a composition from `among`."""
        return len(self._kept[0])

    def scenes_of(self, number: Int[Tensor, " batch"]) -> Scenes:
        """Return the scenes that Shapes3D makes of the same labels."""
        places = self._kept[1][number.cpu()].to(number.device)
        return rooms(places[:, CONTROLLED], places[:, :2], places[:, 5])

    def image_of(self, number: Int[Tensor, " batch"]) -> Float[Tensor, "batch 3 height width"]:
        """Return these images."""
        if self._packed:
            return unit(self._unpacked[number.cpu()].to(number.device))
        with self._opened() as file:
            pixels = [file["images"][row] for row in self._kept[0][number.cpu()].tolist()]
        return unit(torch.from_numpy(np.stack(pixels)).to(number.device))

    @cached_property
    def _kept(self) -> tuple[Int[Tensor, " kept"], Int[Tensor, "kept 6"]]:
        """Return the rows with a wanted composition, and which value of each column they have."""
        with self._opened() as file:
            places = self._places(file["labels"][:])
        concepts = places[:, CONTROLLED]
        row = torch.arange(len(places))
        if self.among:
            rows = concept_rows(Shapes3D.factors, self.among)
            wanted = composition_number(rows, Shapes3D.factors)
            row = row[torch.isin(composition_number(concepts, Shapes3D.factors), wanted)]
        if not len(row):
            raise ValueError(f"{self.path}: no image is of a wanted composition")
        return row, places[row]

    def _places(self, labels: np.ndarray) -> Int[Tensor, "image 6"]:
        values = torch.from_numpy(labels.astype(np.float64))
        count, first, last = torch.tensor([column[1:] for column in COLUMNS]).double().T
        steps = (values - first) / (last - first) * (count - 1)
        places = steps.round()
        good = ((steps - places).abs() < 1e-3) & (places >= 0) & (places < count)
        if not good.all():
            row, column = (~good).nonzero()[0].tolist()
            name, several, least, most = COLUMNS[column]
            raise ValueError(
                f"{self.path}: {name} of image {row} is {values[row, column]:g}; "
                f"expected one of {several} values from {least:g} to {most:g}"
            )
        return places.long()

    @cached_property
    def _packed(self) -> bool:
        with self._opened() as file:
            return (file["images"].chunks or (1,))[0] > MANY

    @cached_property
    def _unpacked(self) -> UInt8[Tensor, "kept 64 64 3"]:
        rows = self._kept[0]
        pixels = torch.empty(len(rows), SIDE, SIDE, 3, dtype=torch.uint8)
        with self._opened() as file:
            images = file["images"]
            for start in range(0, len(images), images.chunks[0]):
                stop = min(start + images.chunks[0], len(images))
                here = (rows >= start) & (rows < stop)
                if here.any():
                    block = torch.from_numpy(images[start:stop])
                    pixels[here] = block[rows[here] - start]
        return pixels

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """Open the file for one read; what it holds is checked each time, for it may change."""
        if not self.path.is_file():
            raise ValueError(f"{self.path} is missing; expected 3dshapes.h5")
        try:
            import h5py
        except ImportError:
            words = "3dshapes.h5 is read with h5py: pip install 'recombine[h5]'"
            raise ValueError(words) from None
        try:
            with h5py.File(self.path, "r") as file:
                _check(file, h5py, self.path)
                yield file
        except (OSError, RuntimeError, KeyError) as error:
            raise ValueError(f"{self.path} is not a whole HDF5 file: {error}") from None


def _check(file: Any, h5py: Any, path: Path) -> None:
    """Accept images and labels that lie in this very file, in their published shapes."""
    for key in ("images", "labels"):
        if not isinstance(file.get(key, getlink=True), h5py.HardLink):
            raise ValueError(f"{path} has no data {key!r} of its own; found {sorted(file)[:9]}")
        data = file[key]
        if not isinstance(data, h5py.Dataset) or data.external or data.is_virtual:
            raise ValueError(f"{path}: {key!r} is not an array that lies in this file")
    images, labels = file["images"], file["labels"]
    count = images.shape[0] if images.shape else 0
    if images.shape != (count, SIDE, SIDE, 3) or images.dtype != np.uint8:
        raise ValueError(
            f"{path}: images are {images.dtype} {images.shape}; expected uint8 (n, 64, 64, 3)"
        )
    if labels.shape != (count, len(COLUMNS)) or labels.dtype.kind != "f":
        raise ValueError(
            f"{path}: labels are {labels.dtype} {labels.shape}; expected floats ({count}, 6)"
        )
    if not 0 < count <= MOST:
        raise ValueError(f"{path} has {count} images; expected 1 to {MOST}")
    for data in (images, labels):
        if prod(data.chunks or (0,)) * data.dtype.itemsize > HUGE:
            raise ValueError(f"{path}: {data.name} has chunks {data.chunks}; at most {HUGE} bytes")
