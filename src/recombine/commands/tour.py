"""What the demo compares: three shipped models and true renders of the scenes they should draw."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

import torch
from jaxtyping import Bool, Float
from PIL import Image
from torch import Tensor

from recombine import run as runner
from recombine import zoo
from recombine.measure.length import Request, outcome
from recombine.measure.matching import RADIUS, matched
from recombine.measure.requests import one_to_a_cell, scenes_with_places
from recombine.measurement import Measurement
from recombine.reader import Found, Reader
from recombine.render.camera import look_at, places, project
from recombine.report.matrix import matrix
from recombine.report.picture import RADIUS as AROUND
from recombine.report.picture import Crop, Ring, enlarged, pictures, ring_alone
from recombine.report.published import published
from recombine.report.table import duration
from recombine.run import Model
from recombine.training import Training
from recombine.worlds.clevr import EXTENT, EYE, SIZES, Clevr

SEEN = 3
"""The most objects in an image that the shipped models were trained on."""
NOT_TRAINED_ON = 1_000
"""Scenes of seeds from here on are in no training."""


@dataclass(frozen=True)
class Stop:
    """A row of the demo: a shipped model, in a few words and in a sentence."""

    name: str
    label: str
    words: str


TRUTH = Stop(
    "true_renders",
    "true renders of the requested scenes",
    "The scenes that were requested, rendered.",
)
TOUR = (
    Stop(
        "grid_all",
        "in training conditioned on every object",
        "In training, the condition gave the place of every object in the image.",
    ),
    Stop(
        "grid_one",
        "in training conditioned on one object",
        "The same images and the same network, but in training the condition gave the place of "
        "only one object in the image, chosen at random.",
    ),
    Stop(
        "grid_one_local",
        "in training conditioned on one object, local network",
        "The same images and the same condition, of one object. But in this network a part of the "
        "image depends only on the condition nearby. It samples with classifier-free guidance, "
        "without which neighbouring objects merge.",
    ),
)


@dataclass(frozen=True)
class StudyNumbers:
    """What the full study measured of a shipped model, from many more images than a demo draws."""

    k_max: Measurement | None
    """The largest number of objects that it draws reliably; None where that is undefined."""
    locality: Measurement | None
    """How far a place depends on the condition near it alone, at high noise."""
    published: str
    trained: str
    command: str


@dataclass(frozen=True)
class PlacedRequest:
    """Scenes of one number of objects: what is requested, and where each object really is.

    The condition may say less than the place, such as a cell. `part` of an image holds all objects.
    """

    request: Request
    centre: Float[Tensor, "batch object 2"]
    part: Crop


@dataclass(frozen=True)
class Answer:
    """The images of one number of objects, and what the detector found in them."""

    placed: PlacedRequest
    images: Float[Tensor, "batch 3 height width"]
    found: Found

    @property
    def objects(self) -> int:
        """How many objects were requested in each image."""
        return self.placed.centre.shape[1]

    @property
    def hit(self) -> Bool[Tensor, "batch object"]:
        """At which requested places an object was found."""
        request, found = self.placed.request, self.found
        pairs = matched(found.place, found.present, request.place, request.present, RADIUS)
        return pairs >= 0

    @property
    def measurements(self) -> dict[str, Measurement]:
        """The numbers of the table."""
        request = self.placed.request
        counted = outcome(self.found, request.place, request.present)
        return {
            "hit_rate": counted.hit_rate,
            "all_hit": counted.all_hit,
            "count": counted.mean_count,
        }

    def picture(self, number: int, scale: int) -> Image.Image:
        """Return the part of an image that holds objects, enlarged, with rings."""
        (image,) = pictures(self.images[number : number + 1])
        centres, hits = self.placed.centre[number].tolist(), self.hit[number].tolist()
        rings = [Ring((x, y), found) for (x, y), found in zip(centres, hits, strict=True)]
        return enlarged(image, scale, rings, self.placed.part)

    def note(self, images: int) -> str:
        """Say how many requested objects the first images have, and how many others, on average."""
        hits = float(self.hit[:images].double().sum(dim=1).mean())
        others = float(self.found.count[:images].double().mean()) - hits
        more = f", {others:.3g} elsewhere" if others else ""
        return f"{hits:.3g} of {self.objects} found{more}"


@dataclass(frozen=True)
class Visit:
    """A row of the demo: the images, and for a model what the full study measured of it."""

    stop: Stop
    answers: tuple[Answer, ...]
    numbers: StudyNumbers | None = None


def study_numbers(name: str) -> StudyNumbers:
    """Return what the full study measured of a shipped model: its numbers lie with the weights."""
    facts = zoo.load(name).facts
    found = {key: Measurement(*value) for key, value in facts["measured"].items()}
    table = published()
    mine = table[(table.study == facts["study"]) & (table.cell == facts["cell"])]
    reported = mine[mine.measurement == "k_max"]
    words = [f"{row.value:g} ({row.grade})" for row in reported.itertuples()]
    return StudyNumbers(
        found.get("k_max"),
        found.get("conditional_locality"),
        words[0] if words else "",
        duration(facts["seconds"]),
        runner.plan_of(zoo.path(name)).command,
    )


def requests(
    training: Training, counts: Sequence[int], samples: int, seed: int, device: torch.device
) -> list[PlacedRequest]:
    """Return scenes of each number of objects, all in cells of their own."""
    world, encode = scenes_with_places("the demo", training)
    placed, part = [], part_in_use(world)
    for count in counts:
        scenes = one_to_a_cell(
            replace(world, objects=(count, count)), samples, device, seed + NOT_TRAINED_ON
        )
        centre, present = places(scenes)[0], scenes.present
        written = encode.requested(centre, present)
        request = Request(*written, encode.at(centre, present), world.image(scenes))
        placed.append(PlacedRequest(request, centre, part))
    return placed


def part_in_use(world: Clevr) -> Crop:
    """Return the part of an image in which rings around objects of this world may lie."""
    heights = {SIZES[composition[-1]] for composition in world.among} or set(SIZES.values())
    ends = (-EXTENT, EXTENT)
    corners = torch.tensor([[(x, y, z) for x in ends for y in ends for z in heights]])
    eye = torch.tensor([EYE])
    seen = project(look_at(eye, torch.zeros_like(eye)), corners)[0][0]
    least, most = (seen.amin(dim=0) - AROUND).clamp(min=0), (seen.amax(dim=0) + AROUND).clamp(max=1)
    (left, upper), (right, lower) = least.tolist(), most.tolist()
    return left, upper, right, lower


def drawn(
    model: Model, placed: Sequence[PlacedRequest], reader: Reader, seed: int
) -> tuple[Answer, ...]:
    """Draw every number of objects, from the same noise as any other model."""
    condition = torch.cat([each.request.condition for each in placed])
    images = model.images(condition, torch.Generator().manual_seed(seed)).clamp(0, 1)
    return answers(placed, images.split([len(each.centre) for each in placed]), reader)


def true_renders(placed: Sequence[PlacedRequest], reader: Reader) -> Visit:
    """Return the requested scenes as the renderer shows them: the most that can be expected."""
    return Visit(TRUTH, answers(placed, [each.request.image for each in placed], reader))


def answers(
    placed: Sequence[PlacedRequest], images: Sequence[Tensor], reader: Reader
) -> tuple[Answer, ...]:
    """Read the images of each number of objects."""
    pairs = zip(placed, images, strict=True)
    return tuple(Answer(each, shown, reader(shown)) for each, shown in pairs)


def figure(visits: Sequence[Visit]) -> Image.Image:
    """Return the first image of every model and number of objects in one picture."""
    key = (
        (ring_alone(True, 34), "an object was found at the requested place"),
        (ring_alone(False, 34), "no object was found there"),
    )
    requested = [answer.objects for answer in visits[0].answers]
    heads = [in_words(count) + " (not in training)" * (count > SEEN) for count in requested]
    scale = ceil(256 / visits[0].answers[0].images.shape[-1])
    rows = {
        visit.stop.label: [(each.picture(0, scale), each.note(1)) for each in visit.answers]
        for visit in visits
    }
    *some, most = map(str, requested)
    title = (
        f"Diffusion models trained on 1 to {SEEN} objects; requested: {', '.join(some)} and {most}"
    )
    return matrix(title, key, heads, rows)


def in_words(objects: int) -> str:
    """Return "1 object", "3 objects"."""
    return f"{objects} object{'s' * (objects != 1)}"
