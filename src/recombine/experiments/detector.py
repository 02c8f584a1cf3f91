"""How well does a small network read CLEVR-like images: which objects are where?

    recombine run detector --tiny         # does it run at all? seconds on a CPU
    recombine run detector --seed 0       # the shipped reader; meant for a GPU, a few minutes

Measured on renders it never saw, where every object shows at least 12 pixels at 64 px: per number
of objects at 64 px with the camera at its place, and at 128 px with camera and lamps jittered. The
numbers without @ are over 0 to 9 objects at 64 px, which is what the length study asks it to read.
"""

from dataclasses import dataclass, replace

import torch

from recombine.condition import Conditioner, all_objects
from recombine.experiment import Budget, Experiment, Findings, Trained
from recombine.measure.detection import Truth, joined_found, joined_truth, reading_errors
from recombine.measurement import Measurement
from recombine.models.detector import Detector, DetectorReader
from recombine.objectives.detection import Detection, Targets
from recombine.reader import Reader
from recombine.render.camera import places
from recombine.scene import Scenes, concatenate
from recombine.train import cosine
from recombine.views import Unchanged
from recombine.worlds.clevr import Clevr, shows

FRESH = 10_007
"""The seed of the scenes it is measured on; no training has it."""
SHOWN = (64, 12)
"""A side in pixels, and how many of them every object of a scene shows at least."""
HEADLINE = ("exact_count", "precision", "recall")


@dataclass(frozen=True)
class Panel:
    """Fresh scenes to read: so many `samples` for each number of `objects`.

    Rates over all are over scenes of at most `pooled` objects; `name` ends every name.
    """

    world: Clevr
    samples: int
    objects: tuple[int, ...]
    pooled: int
    name: str = ""

    def __post_init__(self) -> None:
        if self.samples < 1 or not any(count <= self.pooled for count in self.objects):
            raise ValueError(f"a panel has samples, and objects up to {self.pooled}; got {self}")

    def __call__(self, reader: Reader, device: torch.device) -> dict[str, Measurement]:
        """Render, read and compare."""
        measured: dict[str, Measurement] = {}
        pooled = []
        for count in self.objects:
            scenes = fresh(replace(self.world, objects=(count, count)), self.samples, device)
            found, truth = reader(self.world.image(scenes)), truth_of(scenes)
            errors = reading_errors(found, truth, Clevr.factors, f"{self.name}@{count}")
            measured |= {name: each for name, each in errors.items() if name.startswith(HEADLINE)}
            if count <= self.pooled:
                pooled.append((found, truth))
        founds, truths = zip(*pooled, strict=True)
        joined = joined_found(founds), joined_truth(truths)
        # A reader that finds nothing at all has this number too, as the headline names it.
        unknown = {f"precision{self.name}": Measurement(0.0, 0.0, 1.0, n=1)}
        return unknown | reading_errors(*joined, Clevr.factors, self.name) | measured


@dataclass(frozen=True)
class DetectorError:
    """Rates of a reader on fresh renders, for each number of objects."""

    panels: tuple[Panel, ...] = (
        Panel(Clevr(size=64, margin=False), 256, tuple(range(13)), pooled=9),
        Panel(Clevr(size=128, margin=False, jitter=True), 128, tuple(range(1, 11)), 10, "@128px"),
    )
    threshold: float = DetectorReader.threshold

    def __call__(self, trained: Trained, generator: torch.Generator) -> Findings:
        """Put every panel before the detector."""
        del generator
        network = trained.experiment.network
        assert isinstance(network, Detector)
        reader = DetectorReader(trained.denoiser, network, self.threshold)
        measurements: dict[str, Measurement] = {}
        for panel in self.panels:
            measurements |= panel(reader, trained.device)
        return Findings(measurements)

    def tiny(self) -> "DetectorError":
        """Return the same question with few scenes."""
        panels = (replace(each, samples=4, objects=each.objects[:2]) for each in self.panels)
        return replace(self, panels=tuple(panels))


def truth_of(scenes: Scenes) -> Truth:
    """Return what a reader should find in pictures of these scenes."""
    return Truth(places(scenes)[0], scenes.concepts, scenes.present)


def fresh(world: Clevr, samples: int, device: torch.device | str = "cpu") -> Scenes:
    """Return the first scenes of a seed of their own in which every object shows enough."""
    kept: list[Scenes] = []
    first = 0
    while sum(map(len, kept)) < samples:
        index = torch.arange(first, first + samples, device=device)
        scenes = world.scenes(index, FRESH)
        kept.append(scenes[shows(scenes, *SHOWN)])
        first += samples
    return concatenate(kept)[:samples]


base = Experiment(
    question="Which objects does a small network see in a CLEVR-like image, and where?",
    world=Clevr(size=128, objects=(0, 12), jitter=True, margin=False),
    network=Detector(),
    budget=Budget(
        steps=4_000, batch=256, learning_rate=1.5e-3, warm_up=300, decay=cosine, ema=0.999
    ),
    asks=(DetectorError(),),
    headline=HEADLINE,
    conditioner=Conditioner(all_objects, Targets()),
    objective=Detection(),
    view=Unchanged(),
    seeds=(0,),
)
