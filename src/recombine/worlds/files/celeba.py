"""CelebA's aligned faces: gender, smile and hair as three binary factors (Liu et al. 2015).

The split follows the working code of Farid et al. 2025 (papers/objectives.md 2.3): faces with
neither black nor blond hair, or with both, are left out; of each seen composition the first
10,000 faces of the list are for testing, of each other one the first 100.
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from recombine.scene import Concepts, Factor, Scenes, composition_number, compositions, concept_rows
from recombine.split import one_change
from recombine.worlds.files.folder import (
    Format,
    all_there,
    directory,
    inside,
    labelled,
    pictures,
    text,
)

PORTRAIT = Format("JPEG", width=178, height=218)
IMAGES, LISTING = "img_align_celeba", "list_attr_celeba.txt"
PARTS = ("train", "test")
COLUMNS = ("Male", "Smiling", "Black_Hair", "Blond_Hair")
FACTORS = (
    Factor("gender", ("female", "male")),
    Factor("smile", ("smiling", "not smiling")),
    Factor("hair", ("black", "blond")),
)
CELEBA = one_change("celeba", FACTORS)
"""Seen are black-haired smiling women and every single change of them: four of eight."""


@dataclass(frozen=True)
class CelebA:
    """One part of the faces whose composition is from `among`; an empty `among` means all.

    Faces are resized without a crop. `tested` is how many of each seen composition, and of each
    other one, are for testing.
    """

    folder: Path = field(repr=False)
    part: str = "train"
    size: int = 48
    among: tuple[Concepts, ...] = CELEBA.seen
    tested: tuple[int, int] = (10_000, 100)

    name: ClassVar[str] = "celeba"
    factors: ClassVar[tuple[Factor, ...]] = FACTORS

    def __post_init__(self) -> None:
        if self.part not in PARTS:
            raise ValueError(f"CelebA is read as {' or '.join(PARTS)}; got {self.part!r}")
        if self.size < 1:
            raise ValueError(f"an image has a side of at least 1 pixel; got {self.size}")
        if min(self.tested) < 0:
            raise ValueError(f"the faces kept for testing are counted from 0 up; got {self.tested}")

    def __len__(self) -> int:
        """Return how many faces of these compositions are in this part."""
        return len(self._known[1])

    def scenes_of(self, number: Int[Tensor, " batch"]) -> Scenes:
        """Return scenes of which the three concepts of a face are known, and nothing else."""
        return labelled(self._known[0][number.cpu()].to(number.device))

    def image_of(self, number: Int[Tensor, " batch"]) -> Float[Tensor, "batch 3 height width"]:
        """Return these faces, resized."""
        names = (self._known[1][each] for each in number.tolist())
        folder = self.folder / IMAGES
        return pictures(folder, self.folder, names, PORTRAIT, self.size).to(number.device)

    @cached_property
    def _known(self) -> tuple[Int[Tensor, "face factor"], list[str]]:
        folder = directory(self.folder, IMAGES)
        path = inside(directory(self.folder), self.folder, LISTING)
        try:
            names, marks = listed(text(path))
            concepts, haired = _concepts(marks)
            kept = self._mine(concepts, haired).nonzero().squeeze(1)
            if not len(kept):
                raise ValueError(f"no face of the {self.part} part is of a wanted composition")
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        chosen = [names[each] for each in kept.tolist()]
        all_there(folder, chosen)
        return concepts[kept], chosen

    def _mine(
        self, concepts: Int[Tensor, "face factor"], haired: Bool[Tensor, " face"]
    ) -> Bool[Tensor, " face"]:
        """Return which faces are of this part and of a wanted composition, class by class."""
        number = composition_number(concepts, FACTORS)
        wanted = self.among or tuple(compositions(FACTORS))
        mine = torch.zeros_like(haired)
        for each in composition_number(concept_rows(FACTORS, wanted), FACTORS).tolist():
            same = haired & (number == each)
            first = same.cumsum(0) <= self.tested[compositions(FACTORS)[each] not in CELEBA.seen]
            mine |= same & (first if self.part == "test" else ~first)
        return mine


def listed(content: str) -> tuple[list[str], Int[Tensor, "face 4"]]:
    """Return the faces of an attribute list, and the four columns we need as 1 and -1."""
    lines = content.splitlines()
    if len(lines) < 2 or not lines[0].strip().isdecimal():
        raise ValueError("expected the number of faces, then a line of column names")
    count, columns, rows = int(lines[0]), lines[1].split(), lines[2:]
    for column in COLUMNS:
        if columns.count(column) != 1:
            raise ValueError(f"expected one column {column}; found {columns.count(column)}")
    if len(rows) != count:
        raise ValueError(f"the first line promises {count} faces; found {len(rows)}")
    wanted = [1 + columns.index(column) for column in COLUMNS]
    names, marks = [], []
    for line, row in enumerate(rows, start=3):
        values = row.split()
        if len(values) != 1 + len(columns):
            raise ValueError(f"line {line} has {len(values)} entries; expected {1 + len(columns)}")
        if strange := set(values[1:]) - {"1", "-1"}:
            met = f"{values[0]} with {min(strange)!r}"
            raise ValueError(f"line {line} marks {met}; expected 1 or -1")
        names.append(values[0])
        marks.append([int(values[each]) for each in wanted])
    return names, torch.tensor(marks).reshape(len(rows), len(COLUMNS))


def _concepts(
    marks: Int[Tensor, "face 4"],
) -> tuple[Int[Tensor, "face factor"], Bool[Tensor, " face"]]:
    """Return the concepts of each face, and whether its hair is black or blond and not both."""
    male, smiling, black, blond = (marks == 1).unbind(1)
    return torch.stack([male, ~smiling, blond], dim=1).long(), black ^ blond
