"""The curves that Farid et al. 2025 published, read from the vector figures of their project page.

Accuracy over training steps for each composition of Shapes2D; digits are (shape, size, colour), 1
for triangle, small and blue. Grade: figure.
"""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

from recombine.measure.composition import LATE

FILE = Path(__file__).with_name("reference_curves.csv")
LEVELS = {0: ("000", "001", "010", "100"), 1: ("011", "101", "110"), 2: ("111",)}
NAMED = {
    "dit_kl": "diffusion_vae",
    "dit_vq": "diffusion_token",
    "maskgit": "maskgit",
    "mar": "mar_token_final",
    "givt": "givt",
    "full": "DiT_cont_label_sec_run",
    "full_dropout": "diff_cont_dropout",
    "labels": "discrete_DiT_XAI3",
    "labels_dropout": "diffusion_real_dropout_avg_3seeds",
}
"""Which published curve a variant of ours stands beside."""

Points: TypeAlias = list[tuple[float, float]]


@dataclass(frozen=True)
class Published:
    """What a figure shows: points of each composition, by its digits."""

    curves: dict[str, Points]

    def level(self, level: int) -> Points:
        """Return the mean over the compositions of a level, step by step."""
        mine = [dict(self.curves[digits]) for digits in LEVELS[level]]
        return [(step, fmean(each[step] for each in mine)) for step in mine[0]]

    def late(self, digits: str) -> float:
        """Return the mean of the last points of a composition."""
        return fmean(value for _, value in self.curves[digits][-LATE:])


@cache
def published(variant: str) -> Published | None:
    """Return the paper's curves of a variant, or None where it has none."""
    if variant not in NAMED:
        return None
    curves: dict[str, Points] = {}
    with FILE.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["figure"] == NAMED[variant]:
                point = float(row["step"]), float(row["accuracy"])
                curves.setdefault(row["composition"], []).append(point)
    return Published({digits: sorted(points) for digits, points in curves.items()})
