"""What the demo asks of shipped models, and what it shows of their answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import torch
from jaxtyping import Bool, Float
from PIL import Image
from torch import Tensor

from recombine.condition import EncodesPlaces
from recombine.experiment import Experiment, Trained
from recombine.measure.requests import requested
from recombine.measure.length import Outcome, Request, outcome
from recombine.measure.matching import RADIUS, matched
from recombine.measurement import Measurement
from recombine.reader import Found, Reader
from recombine.report.picture import dotted, pictures, tiled
from recombine.report.record import Record
from recombine.worlds.clevr import Clevr

SEEN = 3
"""The most objects in a scene that the shipped models learned from."""
NOT_TRAINED_ON = 1_000
"""Seeds from here on are not those of a run."""


@dataclass(frozen=True)
class Stop:
    """A shipped model on the tour: what sets it apart, and what it is called in the paper."""

    name: str
    paper: str
    words: str


TOUR = (
    Stop("grid_all", "Exp. 1", "While it learned it was told where every object is."),
    Stop(
        "grid_one",
        "Exp. 2",
        "The same images and the same network, but while it learned it was told where one object "
        "is; the others went unmentioned.",
    ),
    Stop(
        "grid_one_local",
        "Exp. 2L",
        "The data of grid_one again: the same images, told of one object. But this network is "
        "local: each part of the image hears only what is told nearby. It draws under guidance, "
        "without which neighbours merge and with which colours are less varied.",
    ),
)


@dataclass(frozen=True)
class Answer:
    """What a model drew for one number of objects, and what was found in it."""

    asked: int
    request: Request
    images: Float[Tensor, "batch 3 height width"]
    found: Found
    ceiling: Outcome

    @property
    def outcome(self) -> Outcome:
        """The drawn images against the told places."""
        return outcome(self.found, self.request.place, self.request.present)

    @property
    def hit(self) -> Bool[Tensor, "batch object"]:
        """Which told places an object was found at."""
        told = self.request
        pairs = matched(self.found.place, self.found.present, told.place, told.present, RADIUS)
        return pairs >= 0

    @property
    def measurements(self) -> dict[str, Measurement]:
        """The numbers of the table, those of true renders of the same scenes beside each."""
        found = {}
        for whose, each in (("", self.outcome), ("_ceiling", self.ceiling)):
            found[f"hit_rate{whose}"] = each.hit_rate
            found[f"all_hit{whose}"] = each.all_hit
            found[f"count{whose}"] = each.mean_count
        return found

    def tiles(self, scale: int) -> list[Image.Image]:
        """Return the drawn images with dots at the told places."""
        told = zip(self.request.place, self.request.present, self.hit, strict=True)
        marks = [
            ([(x, y) for x, y in p[there].tolist()], h[there].tolist()) for p, there, h in told
        ]
        drawn = zip(pictures(self.images), marks, strict=True)
        return [dotted(picture, *mark, scale=scale) for picture, mark in drawn]


@dataclass(frozen=True)
class Visit:
    """A stop of the tour with the model's answers and the record of its full study."""

    stop: Stop
    answers: tuple[Answer, ...]
    record: Record

    @property
    def k_max(self) -> Measurement | None:
        """Up to how many objects it draws what it is told, by the full study."""
        return self.record.measurements.get("k_max")

    @property
    def composes(self) -> bool:
        """Whether it draws more objects than it has seen at once, by the full study."""
        return self.k_max is not None and self.k_max.value > SEEN

    @property
    def verdict(self) -> str:
        """What the full study found, in a few words; nothing where it named no K_max."""
        if self.k_max is None:
            return ""
        most = round(self.k_max.value)
        if not self.composes:
            return f"fails beyond {most}"
        if f"success@{most + 1}" not in self.record.measurements:
            return f"composes, to {most} objects and perhaps beyond"
        return f"composes, up to {most} objects"


def requests(
    experiment: Experiment, counts: Sequence[int], samples: int, seed: int, device: torch.device
) -> dict[int, Request]:
    """Return scenes of each number of objects, all in cells of their own, as they are told."""
    world, encode = experiment.world, experiment.conditioner.encode
    if not isinstance(world, Clevr) or not isinstance(encode, EncodesPlaces):
        raise ValueError("the tour is for models of CLEVR that are told places")
    order = torch.Generator(device).manual_seed(seed)
    return {
        count: requested(world, encode, count, samples, order, seed + NOT_TRAINED_ON)
        for count in counts
    }


def visit(
    stop: Stop,
    record: Record,
    trained: Trained,
    asked: Mapping[int, Request],
    reader: Reader,
    seed: int,
) -> Visit:
    """Ask a model for every number of objects, from the same noise as any other model."""
    condition = torch.cat([request.condition for request in asked.values()])
    drawn = trained.images(condition, torch.Generator().manual_seed(seed)).clamp(0, 1)
    parts = drawn.split([len(request.present) for request in asked.values()])
    answers = tuple(
        Answer(count, request, images, reader(images), ceiling(request, reader))
        for (count, request), images in zip(asked.items(), parts, strict=True)
    )
    return Visit(stop, answers, record)


def ceiling(request: Request, reader: Reader) -> Outcome:
    """Return what true renders of the requested scenes come to."""
    return outcome(reader(request.image), request.place, request.present)


def figure(visits: Sequence[Visit]) -> Image.Image:
    """Return the paper's Figure 1: a row per model, a column per number of objects told."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = len(visits[0].answers)
    # Two images beside each other, and words below.
    tall = 1.4 * ceil(len(visits[0].answers[0].images) / 2) + 0.4
    drawing = Figure(figsize=(3 * columns + 1.2, tall * len(visits) + 0.4), dpi=110)
    canvas = FigureCanvasAgg(drawing)
    axes = drawing.subplots(len(visits), columns, squeeze=False)
    for row, each in zip(axes, visits, strict=True):
        row[0].set_ylabel(f"{each.stop.name}\n({each.stop.paper})", fontsize=14, labelpad=10)
        for axis, answer in zip(row, each.answers, strict=True):
            axis.imshow(tiled(answer.tiles(3), 2, gap=6))
            axis.set_xticks([])
            axis.set_yticks([])
            axis.spines[:].set_visible(False)
            axis.set_xlabel(in_a_few_words(answer), fontsize=11)
    for axis, answer in zip(axes[0], visits[0].answers, strict=True):
        beyond = "" if answer.asked <= SEEN else " (never seen)"
        axis.set_title(f"{answer.asked} told{beyond}", fontsize=14, pad=10)
    drawing.tight_layout()
    canvas.draw()
    size = canvas.get_width_height()
    return Image.frombuffer("RGBA", size, bytes(canvas.buffer_rgba())).convert("RGB")


def in_a_few_words(answer: Answer) -> str:
    """Return "5.5 of 6 hit, 5.8 objects found": means over the images."""
    found = answer.measurements
    hits = found["hit_rate"].value * answer.asked
    return f"{hits:.3g} of {answer.asked} hit, {found['count'].value:.3g} found"
