"""Which of the paper's figures hold once U is integrated and the rates are those of the theory?

    recombine run swing_by_figures            # half a minute on one core

Figures 5 (17 and 18 show the same run), 8, 9 and 10 of Yang et al. (2024), each from the authors'
own start: as their code makes it (W iterated, rates squared), with U integrated, and with the
theory's rates too. The runs themselves are cells of the study swing_by.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from recombine.measure.subject import Findings
from recombine.measurement import Measurement
from recombine.studies import swing_by
from recombine.studies.swing_by import SwingBy
from recombine.study import Watched, study

TURNS: Mapping[str, tuple[float, ...]] = {
    "figure5-code": (0.181, 0.255),
    "figure5-squared": (0.182, 0.253),
    "figure8-code": (1.247, 1.379, 0.358, 0.430),
    "figure8-squared": (1.254, 1.372, 0.348, 0.412),
    "figure8": (0.146, 0.169),
    "figure8_caption-code": (1.156, 1.386, 0.421, 0.480),
    "figure8_caption-squared": (1.161, 1.378, 0.415, 0.475),
    "figure8_caption": (0.833, 0.858, 0.279, 0.322),
    "figure9-code": (1.323, 1.491, 1.243, 1.336, 0.367, 0.469),
    "figure9-squared": (1.343, 1.474, 1.216, 1.314, 0.371, 0.453),
    "figure9": (0.508, 0.636, 0.219, 0.253),
    "figure10-code": (1.227, 1.612, 0.226),
    "figure10-squared": (1.248, 1.587, 0.214, 0.244),
    "figure10": (1.010, 1.165, 0.189, 0.234),
}
"""Losses at which the authors' start turns, from running their published settings again."""


@dataclass(frozen=True)
class AsPublished:
    """Count the known turning points that come out, and the figures whose descents stay."""

    within: float = 0.02
    """How far a loss may be from the known one to agree, as a share of it."""
    longest: float = 100.0
    """Follow no run longer than this, in the paper's time."""

    def __call__(self, generator: torch.Generator, watch: Watched) -> Findings:
        """Follow the authors' start of every figure, each way; nothing is random."""
        del generator
        runs = {
            key: run
            for key, run in swing_by.STUDY.cells.items()
            if isinstance(run, SwingBy) and run.authors_seed is not None
        }
        agree: list[bool] = []
        descents: dict[str, int] = {}
        for done, (key, run) in enumerate(runs.items(), start=1):
            run = replace(run, time=min(run.time, self.longest))
            turned = run.turned(run.closely(run.authors()))
            descents[key] = int(turned["authors_descents"].value)
            for number, known in enumerate(TURNS.get(key, ()), start=1):
                found = turned.get(f"loss@turn{number}")
                agree.append(found is not None and abs(found.value - known) <= self.within * known)
            watch(done, len(runs))
        holds = {f"holds@{way}": _held(descents, way) for way in ("squared", "theory")}
        return Findings({"agreeing_share": Measurement.rate(sum(agree), len(agree)), **holds})

    def tiny(self) -> "AsPublished":
        """Return short runs, in which nothing turns yet."""
        return replace(self, longest=0.5)


def _held(descents: Mapping[str, int], way: str) -> Measurement:
    """Return the share of figures with as many descents one way as by the authors' code."""
    ending = "" if way == "theory" else f"-{way}"
    same = [descents[f"{name}{ending}"] == descents[f"{name}-code"] for name in swing_by.FIGURES]
    return Measurement.rate(sum(same), len(same))


STUDY = study(
    "Which figures of the paper hold with U integrated and the theory's rates?",
    AsPublished(),
    {},
    headline=("agreeing_share", "holds@theory"),
    cost="half a minute on one core",
)
