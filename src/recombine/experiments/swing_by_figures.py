"""Which of the paper's figures hold once U is integrated and the rates are those of the theory?

    recombine run swing_by_figures            # less than a minute on one core

Figures 5 (17 and 18 show the same run), 8, 9 and 10 of Yang et al. (2024), each from the authors'
own start: as their code makes it (W iterated, rates squared), with U integrated, and with the
theory's rates too. Numbers of the fact sheet stand beside ours, graded as derived.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from recombine.experiment import Findings, Watched
from recombine.experiments import swing_by
from recombine.experiments.swing_by import SwingBy
from recombine.measurement import Measurement

RUNS: dict[str, SwingBy] = {
    name: each
    for name, each in vars(swing_by).items()
    if name.startswith("fig") and isinstance(each, SwingBy)
}
KEPT = ("bump_share", "descents", "lost_share", "blown_up_share", "weak_unlearned_share")


@dataclass(frozen=True)
class AsPublished:
    """Every published run of the symmetric model, three ways."""

    question: str
    seeds: int = 200
    """Random starts beside the authors' own."""
    longest: float = 100.0
    """Follow no run longer than this, in the paper's time."""

    headline: ClassVar[tuple[str, ...]] = ("agreeing_share", "holds@theory")

    def __call__(self, generator: torch.Generator, watch: Watched) -> Findings:
        """Run each figure each way, and count the numbers of the sheet that come out."""
        found: dict[str, Measurement] = {}
        descents: dict[str, int] = {}
        for done, (name, run) in enumerate(RUNS.items(), start=1):
            run = replace(run, seeds=self.seeds, time=min(run.time, self.longest))
            answer = run(generator, lambda *parts: None)
            told = {key: each for key, each in answer.measurements.items() if _told(key)}
            found |= {f"{key}@{name}": each for key, each in told.items()}
            turns = sum(key.startswith("loss@turn") for key in told)
            descents[name] = 1 + turns // 2
            found[f"authors_descents@{name}"] = Measurement(descents[name], None, None, 1)
            watch(done, len(RUNS))
        stated = [each for each in found.values() if each.paper is not None]
        agreeing = sum(each.verdict == "agrees within 2 %" for each in stated)
        first = {"agreeing_share": Measurement.rate(agreeing, len(stated))} if stated else {}
        for way in ("squared", "theory"):
            same = [
                descents[name] == descents[name.replace(way, "code")]
                for name in RUNS
                if name.endswith(way)
            ]
            first[f"holds@{way}"] = Measurement.rate(sum(same), len(same))
        return Findings({**first, **found})

    def tiny(self) -> "AsPublished":
        """Return short runs of few starts."""
        return replace(self, seeds=2, longest=0.5)


def _told(key: str) -> bool:
    return key in KEPT or key.startswith("loss@turn") or key == "weak_major_at_end"


base = AsPublished("Which figures of the paper hold with U integrated and the theory's rates?")
