"""Does a model put codes where it never saw them? Asked of what it draws where shapes stand still.

    recombine measure CHECKPOINT --what drawn_places     # a minute on one core

The same count on true renders is code_places.py; the models are those of still.py and points.py,
asked at the end of training (docs/decisions/019, 022).
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from recombine.experiment import Experiment, Findings, Trained
from recombine.experiments import points, still
from recombine.experiments.code_places import CodePlaces
from recombine.experiments.objective import means
from recombine.measure.tokenizing import unseen_share
from recombine.measurement import averaged
from recombine.split import BINARY, Split
from recombine.views import Codes, Latents, tokenizer
from recombine.worlds.shapes2d import Shapes2D

BATCH = 256
"""Renders that are made at once."""


@dataclass(frozen=True)
class DrawnPlaces:
    """Ask for so many `samples` of every composition: how many of their tokens are new there?

    New is a code that no one of so many `renders` of each seen composition has at that place. Of
    vectors that a DiT draws it is the nearest codes.
    """

    split: Split = BINARY
    samples: int = 64
    renders: int = 16_384

    what: ClassVar[str] = "drawn_places"

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise ValueError(f"places are asked for 2 samples or more; got {self.samples}")

    def __call__(self, trained: Trained, generator: torch.Generator) -> Findings:
        """Draw, and count."""
        experiment, device = trained.experiment, trained.device
        world, conditioner = experiment.world, experiment.conditioner
        assert isinstance(world, Shapes2D)
        view = codes_of(experiment)
        which = self.split.asked
        scenes = [means(world, each, self.samples, device) for each in which]
        told = torch.cat([conditioner.encode(each) for each in scenes])
        drawn = ids_of(experiment, trained.drawn(conditioner.asked(told, generator), generator))
        ids = dict(zip(which, drawn.split(self.samples), strict=True))
        many = CodePlaces("", world, view, self.split, self.renders, min(self.renders, BATCH))
        seen = many.seen(device, lambda *_: None)
        found = {}
        for level in self.split.levels:
            here = [unseen_share(ids[each], seen) for each in self.split.at(level)]
            found[f"drawn_unseen_place@level{level}"] = averaged(here)
        return Findings(found)

    def tiny(self) -> "DrawnPlaces":
        """Return the same question with few samples."""
        return replace(self, samples=2, renders=8)


def codes_of(experiment: Experiment) -> Codes:
    """Return the codes that a model draws, or whose vectors it draws; latents have none."""
    view = experiment.view
    if not isinstance(view, Codes | Latents) or view.of.codes is None:
        raise ValueError(f"places of codes are asked of models on codes; got {view}")
    return Codes(view.name, view.of)


def ids_of(experiment: Experiment, drawn: Tensor) -> Tensor:
    """Return the codes of what was drawn."""
    view = experiment.view
    if not isinstance(view, Latents):
        return drawn
    return tokenizer(view.name, view.of, drawn.device).quantized(drawn * view.spread)[0]


def asked(experiment: Experiment) -> Experiment:
    """Return the experiment with this question alone."""
    headline = ("drawn_unseen_place@level2", "drawn_unseen_place@level0")
    question = f"{experiment.question} And does it put codes where it never saw them?"
    return replace(experiment, question=question, asks=(DrawnPlaces(),), headline=headline)


vq = asked(still.vq)
maskgit = asked(still.maskgit)
with_jepa = asked(still.with_jepa)
vq_seen = asked(still.vq_seen)
maskgit_seen = asked(still.maskgit_seen)
steered_seen = asked(still.steered_seen)
of_points = asked(points.base)
of_points_with_jepa = asked(points.with_jepa)
of_points_steered = asked(points.steered)
of_points_jepa_steered = asked(points.jepa_steered)
