"""Does a discrete objective hurt composition? Same data, same probe, one thing varied.

Farid et al. 2025 (arXiv 2510.03075), RQ2: a DiT, MAR and GIVT model continuous latents, MaskGIT
codes. All see four of eight compositions of Shapes2D, told as labels, and are asked for all.

    recombine run objective:maskgit          # 10 minutes on one core
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from recombine import zoo
from recombine.condition import Conditioner, Labels, all_objects
from recombine.experiment import Budget, Experiment, Findings, Trained, joined
from recombine.experiments.autoencoder import KL, VQ
from recombine.experiments.probe import Single, fresh, tested
from recombine.measure.composition import (
    Expectation,
    accuracies,
    agreed,
    check_levels,
    over_training,
)
from recombine.measure.distance import distances
from recombine.measure.nearest import nearest
from recombine.measurement import Measurement, averaged
from recombine.models.dit import DiT
from recombine.models.entry import Vector
from recombine.models.heads import DiffusionHead, LogitHead, MixtureHead
from recombine.models.masked import Masked
from recombine.models.probe import Probe
from recombine.objectives.diffusion import Diffusion
from recombine.objectives.jepa import DiffusionJepa, Jepa, MaskedJepa
from recombine.objectives.masked import MaskedCrossEntropy, MaskedDiffusion, MaskedMixture
from recombine.sample.heun import Sampler
from recombine.sample.unmask import Unmask
from recombine.scene import Scenes, concept_rows
from recombine.spelling import LATER
from recombine.split import Split
from recombine.train import cosine
from recombine.views import Codes, Latents, View
from recombine.worlds.files.celeba import CelebA
from recombine.worlds.shapes2d import BINARY, Shapes2D

ASKED = 10_039
"""The seed of the scenes that are asked for; no training has it."""
AGAIN = 100_000
"""The number of the first true render that others are compared with."""
COMPOSITIONS, OF_EACH = 16, 16
"""Whether JEPA's targets have collapsed is asked of so many seen compositions, images of each;
no more than are asked for."""
OTHERS = ("_linear", "_nearest", "_agreed")
"""Readers beside the probe; the last is right where all are."""


@dataclass(frozen=True)
class Composition:
    """Ask for so many `samples` of every composition, and let a shipped probe read them.

    Asked for is the mean of a composition: its values without jitter. Beside the model stand true
    renders (`ceiling`) and other true renders seen through its view and back (`view`): what a
    tokenizer loses of them. Distances are from true renders of the same composition, which vary as
    the world does: a model that is told labels should vary as much.

    Beside the probe read a `linear` one, as in the paper, and the nearest of many true `renders` of
    each composition (measure/nearest.py), where there are some; `agreed` is what all of them say.
    Of a level so many compositions are asked for at `most`.
    """

    split: Split = BINARY
    expected: Expectation = Expectation()
    samples: int = 64
    probe: str = "probe"
    reader: Probe = Probe()
    linear: str | None = "probe_linear"
    renders: int = 2_048
    most: int | None = field(default=None, metadata={LATER: True})

    what: ClassVar[str] = "composition"

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise ValueError(f"composition is asked for 2 samples or more; got {self.samples}")
        check_levels(self.split)

    @property
    def asked(self) -> tuple[tuple[str, ...], ...]:
        """The compositions that are asked for, in the order of the grid."""
        chosen = {which for level in self.split.levels for which in self._at(level)}
        return tuple(which for which in self.split.compositions if which in chosen)

    def _at(self, level: int) -> tuple[tuple[str, ...], ...]:
        return self.split.at(level)[: self.most]

    def __call__(self, trained: Trained, generator: torch.Generator) -> Findings:
        """Draw, read and compare."""
        experiment, device = trained.experiment, trained.device
        world, conditioner = experiment.world, experiment.conditioner
        assert isinstance(world, Single)
        read = zoo.probe(self.probe, self.reader, device)
        which = self.asked
        told = torch.cat(
            [conditioner.encode(means(world, each, self.samples, device)) for each in which]
        )
        drawn = trained.images(conditioner.for_sampling(told, generator), generator).clamp(0, 1)
        found = self.read(drawn, world, "")
        beside, true = renders_read(self, world, experiment.view, device)
        found |= {**beside, **self.apart(read.features(drawn), true, "")}
        sheet = {"-".join(each): drawn[at * self.samples :][:8] for at, each in enumerate(which)}
        shown = Findings(found, images=sheet if len(which) <= 8 else {})
        return joined([shown, targets_spread(self, trained)])

    def read(self, images: Tensor, world: Single, whose: str) -> dict[str, Measurement]:
        """Return what all readers say, and how far from true renders the images are."""
        which = self.asked
        read = {"": zoo.probe(self.probe, self.reader, images.device)(images)}
        found: dict[str, Measurement] = {}
        if self.linear is not None:
            reader = replace(self.reader, linear=True)
            read["_linear"] = zoo.probe(self.linear, reader, images.device)(images)
        if self.renders:
            far = nearest(images, drawn_again(world, which, self.renders, images.device))
            read["_nearest"] = concept_rows(self.split.factors, which).to(far.device)[far.argmin(1)]
            # Of each composition, to its own renders.
            own = far.unflatten(0, (len(which), -1)).diagonal(dim1=0, dim2=2).T
            for level in self.split.levels:
                # Their jitter is the same in all compositions: the mean over these, as in apart.
                mine = [own[which.index(each)].tolist() for each in self._at(level)]
                apart = averaged([Measurement.mean(each) for each in mine])
                found[f"render_distance{whose}@level{level}"] = apart
        if len(read) > 1:
            read["_agreed"] = agreed([*read.values()])
        for who, rows in read.items():
            by = dict(zip(which, rows.split(self.samples), strict=True))
            found |= accuracies(self.split, by, f"{who}{whose}")
        return found

    def apart(self, images: Tensor, true: Tensor, whose: str) -> dict[str, Measurement]:
        """Return how far images are from true renders in the probe's features, by level.

        The mean over compositions: pooled, they would not be drawn independently.
        """
        pairs = zip(images.split(self.samples), true.split(self.samples), strict=True)
        each = dict(zip(self.asked, (distances(*pair) for pair in pairs), strict=True))
        found = {}
        for level in self.split.levels:
            here = [each[which] for which in self._at(level)]
            for name in here[0]:
                found[f"{name}{whose}@level{level}"] = averaged([far[name] for far in here])
        return found

    def looked_back(self, experiment: Experiment, curves: Mapping[str, list[Any]]) -> Findings:
        """Sum up the curves; the verdict is on the late mean at the last level."""
        del experiment
        found = over_training(curves, self.split.levels, OTHERS)
        last, seen = (f"accuracy_late@level{level}" for level in (self.split.levels[-1], 0))
        if last in found:
            found[last] = self.expected.judged(found[last], found[seen].value)
        return Findings(found)

    def tiny(self) -> "Composition":
        """Return the same question with few samples of few compositions."""
        return replace(self, samples=2, renders=min(self.renders, 8), most=4)


def targets_spread(ask: Composition, trained: Trained) -> Findings:
    """Return how far JEPA's targets spread over some seen images, and an alarm if they do not."""
    experiment, device = trained.experiment, trained.device
    if not isinstance(experiment.objective, MaskedJepa | DiffusionJepa):
        return Findings({})
    world, which = experiment.world, ask.split.at(0)[:COMPOSITIONS]
    assert isinstance(world, Single)
    count = min(OF_EACH, ask.samples)
    told = [experiment.conditioner.encode(means(world, each, count, device)) for each in which]
    image = torch.cat([fresh(world, each, count, device) for each in which])
    seen, condition = experiment.view(image), torch.cat(told).to(device)
    spreads = experiment.objective.target_spreads(trained.precise, seen, condition)
    least = {
        "target_variance": min(each.variance for each in spreads.values()),
        "target_rank": min(each.rank for each in spreads.values()),
    }
    alarms = [
        [f"layer {at}", f"layer {at}: {each.alarm}"] for at, each in spreads.items() if each.alarm
    ]
    found = {name: Measurement(value, None, None, n=len(image)) for name, value in least.items()}
    return Findings(found, {"alarms": alarms} if alarms else {})


# What is kept must not hold a gradient's graph.
@cache
@torch.no_grad()
def renders_read(
    ask: Composition, world: Single, view: View, device: torch.device
) -> tuple[Mapping[str, Measurement], Tensor]:
    """Return what readers say of true renders and of the view, and the features of the former.

    The same at every look, so they are read once.
    """
    which, samples = ask.asked, ask.samples
    true = torch.cat([fresh(world, each, samples, device) for each in which])
    # Others than the true ones: distances are between sets that are drawn apart.
    others = [fresh(world, each, samples, device, first=samples) for each in which]
    through = view.back(view(torch.cat(others))).clamp(0, 1)
    probe = zoo.probe(ask.probe, ask.reader, device)
    features = probe.features(true)
    found = ask.read(true, world, "_ceiling") | ask.read(through, world, "_view")
    return found | ask.apart(probe.features(through), features, "_view"), features


@cache
def drawn_again(
    world: Single, which: tuple[tuple[str, ...], ...], renders: int, device: torch.device
) -> Tensor:
    """Return other true renders of each composition than those that are asked for."""
    return torch.stack([fresh(world, each, renders, device, first=AGAIN) for each in which])


def means(world: Single, which: tuple[str, ...], samples: int, device: torch.device) -> Scenes:
    """Return scenes of a composition whose told values are its means."""
    if isinstance(world, CelebA):
        return tested(world, which).scenes_of(torch.arange(samples, device=device))
    if isinstance(world, Shapes2D):
        world = replace(world, size_jitter=0.0, colour_jitter=0.0, place_jitter=0.0)
    return replace(world, among=(which,)).scenes(torch.arange(samples, device=device), ASKED)


LABELS = Labels((2, 2, 2))
NETWORK: dict[str, Any] = {"layers": 4, "width": 64, "heads": 4}
TRUNK = Masked(features=LABELS.features, **NETWORK)

dit_kl = Experiment(
    question="Does a DiT on the latents of a KL autoencoder compose?",
    world=Shapes2D(among=BINARY.seen),
    network=DiT(KL.latent, KL.side, entry=Vector(9), **NETWORK),
    budget=Budget(
        steps=5_000,
        batch=32,
        learning_rate=1e-3,
        warm_up=200,
        decay=cosine,
        ema=0.995,
        milestones=(1_000, 2_000, 3_000, 4_000, 5_000),
    ),
    asks=(Composition(linear=None, renders=0),),
    headline=("accuracy@level2", "accuracy@level0"),
    conditioner=Conditioner(all_objects, LABELS),
    objective=Diffusion(sigma_data=1.0),
    sampler=Sampler(steps=18),
    view=Latents("tokenizer_kl", KL),
    seeds=(1,),
)
dit_vq = replace(
    dit_kl,
    question="Does a DiT on the code vectors of a VQ compose?",
    view=Latents("tokenizer_vq", VQ),
)
maskgit = replace(
    dit_kl,
    question="Does MaskGIT, a discrete objective, compose?",
    network=replace(TRUNK, head=LogitHead(VQ.codes or 0)),
    objective=MaskedCrossEntropy(),
    sampler=Unmask(),
    view=Codes("tokenizer_vq", VQ),
)
maskgit_jepa = replace(
    maskgit,
    question="Does MaskGIT compose with JEPA beside it?",
    objective=Jepa(layers=(1, 2, 3), normalised=True)(MaskedCrossEntropy()),
)
mar = replace(
    dit_kl,
    question="Does MAR, masked but continuous, compose?",
    network=replace(TRUNK, head=DiffusionHead(KL.latent, sigma_data=1.0)),
    objective=MaskedDiffusion(diffusion=Diffusion(sigma_data=1.0)),
    sampler=Unmask(descent=Sampler(steps=18)),
)
givt = replace(
    mar,
    question="Does GIVT, masked with a Gaussian mixture, compose?",
    network=replace(TRUNK, head=MixtureHead(KL.latent)),
    objective=MaskedMixture(),
    sampler=Unmask(),
)
