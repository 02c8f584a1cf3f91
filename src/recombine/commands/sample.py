"""`recombine sample`: draw with a trained model at places you choose."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, sqrt
from pathlib import Path
from statistics import fmean
from typing import Annotated

import torch
import tyro
from jaxtyping import Bool, Float
from PIL import Image
from torch import Tensor

from recombine import run as runner
from recombine import zoo
from recombine.commands import choice
from recombine.commands.console import drawing, print_json, say
from recombine.commands.detect import described, table
from recombine.commands.measure import with_steps
from recombine.commands.parse import UNSET
from recombine.condition import EncodesPlaces
from recombine.measure.matching import RADIUS, matched
from recombine.measurement import Measurement, Number, student_t
from recombine.reader import Found
from recombine.report.files import write_bytes
from recombine.report.picture import Place, Ring, enlarged, pictures, png, tiled
from recombine.report.table import quoted
from recombine.run import Model
from recombine.run.model import chosen_checkpoint
from recombine.sample.heun import Progress
from recombine.training import Training
from recombine.worlds.clevr import Clevr

NUMBER = r"-?\d*\.?\d+(?:e-?\d+)?"
PAIR = re.compile(rf"\s*({NUMBER})\s*,\s*({NUMBER})\s*")
MOST, LARGEST = 1024, 16


@dataclass(frozen=True)
class SampleOptions:
    """Condition a model on the places of objects and draw; then count what it drew.

    A place is X,Y: from 0 to 1, x right and y down. On a CPU an image takes about a second.

    Example: recombine sample zoo:grid_all --at 0.3,0.4 0.7,0.6 --count 4 --mark --out four.png
    """

    subject: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ZOO_OR_RUN")]
    """zoo:NAME (see recombine list), STUDY:CELL, the folder of a run, or a checkpoint."""
    at: Annotated[tuple[str, ...], tyro.conf.arg(metavar="X,Y", help_behavior_hint="")] = ()
    """Where the objects are (default: the condition is of no object)."""
    out: Path = Path("sample.png")
    """The picture to write; several images become a sheet. A file of this name is replaced."""
    count: int = 1
    """How many images."""
    seed: int = 0
    """Which noise to start from."""
    steps: Annotated[int | None, UNSET] = None
    """Steps of the sampler (default: the cell's)."""
    scale: int = 4
    """How many times as large to write every pixel: 1 leaves the image as the model drew it."""
    mark: bool = False
    """Draw a ring around each requested place: green where an object was found, else dashed red."""
    runs: Path = Path("runs")
    """Folder of the runs, when an experiment is named; its seed 0 is taken."""
    device: Annotated[str | None, UNSET] = None
    """Where to draw: cpu, cuda, cuda:1 (default: the accelerator if there is one)."""
    json: bool = False
    """Print one JSON object and nothing else on standard output."""


OPTIONS = SampleOptions


@dataclass(frozen=True)
class ChosenPlaces:
    """The chosen places, as they are and as the condition gives them (a grid: by cell)."""

    places: list[Place]
    given: Float[Tensor, "1 object 2"]
    condition: Float[Tensor, " one *condition"]


@dataclass(frozen=True)
class FoundAtPlaces:
    """What the reader found in each image, and at which requested places it found an object."""

    found: Found
    hit: Bool[Tensor, "batch object"]

    @property
    def measurements(self) -> dict[str, Measurement]:
        """How many objects there are, and at which share of the places there is one."""
        values = {"count": mean_of(self.found.count.tolist())}
        if self.hit.shape[1]:
            values["hit_rate"] = mean_of(self.hit.double().mean(dim=1).tolist(), most=1)
        return values


def run(options: SampleOptions) -> None:
    """Draw, write the picture, and say what is in it."""
    check(options)
    path = chosen_checkpoint(options.subject, 0, options.runs)
    with drawing(options.subject) as watch:
        model = loaded_model(path, options, watch)
        chosen = chosen_places(model.training, options)
        images = drawn(model, chosen, options)
    counted = count(model, images, chosen)
    write_bytes(options.out, png(sheet(images, chosen, counted, options)))
    announce(options, chosen, counted)


def check(options: SampleOptions) -> None:
    """Refuse before anything is drawn."""
    for name, value, most in (("count", options.count, MOST), ("scale", options.scale, LARGEST)):
        if not 1 <= value <= most:
            raise ValueError(f"--{name} is from 1 to {most}; got {value}")
    if options.out.suffix.lower() != ".png":
        raise ValueError(f"--out is a .png file; got {options.out}")
    if not options.out.parent.is_dir():
        raise ValueError(f"{options.out.parent} is no folder; expected one to write --out into")


def loaded_model(path: Path, options: SampleOptions, watch: Progress) -> Model:
    """Load the model of a checkpoint, to sample in so many steps."""
    plan = runner.plan_of(path)
    plan = replace(plan, declared=with_steps(plan.trained, options.steps))
    return runner.loaded(plan, path, runner.machine(choice.chosen_device(options.device)), watch)


def chosen_place(text: str) -> Place:
    """Read "0.2,0.4"."""
    pair = PAIR.fullmatch(text)
    if not pair:
        raise ValueError(f"a place is X,Y such as 0.2,0.4; got {text!r}")
    x, y = float(pair[1]), float(pair[2])
    if not (0 <= x <= 1 and 0 <= y <= 1):
        raise ValueError(f"{text} lies outside the image; x and y are from 0 to 1")
    return x, y


def chosen_places(training: Training, options: SampleOptions) -> ChosenPlaces:
    """Return the condition on the chosen places; say so where it cannot hold all of them."""
    encode = training.conditioner.encode
    if not isinstance(encode, EncodesPlaces):
        raise ValueError(f"{options.subject} is not conditioned on places; --at is not for it")
    chosen = [chosen_place(text) for text in options.at]
    # The far border belongs to the image.
    place = torch.tensor(chosen).reshape(1, len(chosen), 2).clamp(max=1 - 2**-24)
    present = torch.ones(1, len(chosen), dtype=torch.bool)
    condition = encode.at(place, present)
    given, kept = encode.requested(place, present)
    for late in (present & ~kept)[0].nonzero()[:, 0].tolist():
        same = (given[0] == given[0, late]).all(dim=1) & kept[0]
        early = options.at[int(same.byte().argmax())]
        say(f"{early} and {options.at[late]} lie in one cell: the condition holds one object there")
    places = [each for each, is_kept in zip(chosen, kept[0].tolist(), strict=True) if is_kept]
    return ChosenPlaces(places, given[:, kept[0]], condition)


def drawn(
    model: Model, chosen: ChosenPlaces, options: SampleOptions
) -> Float[Tensor, "batch 3 height width"]:
    """Draw the images of a seed: the same on every device, and the first of more."""
    condition = chosen.condition.expand(options.count, *chosen.condition.shape[1:])
    generator = torch.Generator().manual_seed(options.seed)
    return model.images(condition, generator).clamp(0, 1).cpu()


def count(
    model: Model, images: Float[Tensor, "batch 3 height width"], chosen: ChosenPlaces
) -> FoundAtPlaces | None:
    """Find objects in the images, where the reader knows their world."""
    if not isinstance(model.training.world, Clevr) or "detector" not in zoo.names():
        return None
    found = zoo.detector()(images)
    place = chosen.given.expand(len(images), -1, -1)
    every = torch.ones(place.shape[:2], dtype=torch.bool)
    return FoundAtPlaces(found, matched(found.place, found.present, place, every, RADIUS) >= 0)


def mean_of(values: Sequence[Number], most: Number = inf) -> Measurement:
    """Return the mean of values from 0 to `most`, interval included; one image has no spread."""
    if len(values) == 1:
        return Measurement(values[0], None, None, n=1)
    low, high = student_t(values)
    return Measurement(fmean(values), max(low, 0), min(high, most), n=len(values))


def sheet(
    images: Float[Tensor, "batch 3 height width"],
    chosen: ChosenPlaces,
    counted: FoundAtPlaces | None,
    options: SampleOptions,
) -> Image.Image:
    """Return the images as one picture, near to a square."""
    tiles = pictures(images)
    # Where nothing is counted, no place is missed.
    hits = counted.hit.tolist() if counted else [[True] * len(chosen.places)] * len(tiles)
    rings = [list(map(Ring, chosen.places, hit)) if options.mark else [] for hit in hits]
    large = [enlarged(tile, options.scale, each) for tile, each in zip(tiles, rings, strict=True)]
    return tiled(large, ceil(sqrt(len(large))))


def announce(options: SampleOptions, chosen: ChosenPlaces, counted: FoundAtPlaces | None) -> None:
    """Say where the picture is and what is in it."""
    measured = counted.measurements if counted else {}
    objects = described(counted.found) if counted else []
    names = [f"{options.out}{f'#{number}' * (len(objects) > 1)}" for number in range(len(objects))]
    if options.json:
        pairs = zip(names, objects, strict=True)
        result = {
            "subject": options.subject,
            "measurements": {name: each.printed for name, each in measured.items()},
            "requested": [{"x": x, "y": y} for x, y in chosen.places],
            "condition": [{"x": x, "y": y} for x, y in chosen.given[0].tolist()],
            "images": [{"image": name, "objects": each} for name, each in pairs],
            "out": str(options.out),
        }
        print_json(result)
        return
    for name, each in zip(names, objects, strict=True):
        print(table(name, each))
    for name, value in measured.items():
        print(f"{name} {quoted(value)}")
    places = "1 place" if len(chosen.places) == 1 else f"{len(chosen.places)} places"
    images = "1 image" if options.count == 1 else f"{options.count} images"
    say(f"{options.out} is written: {images}, conditioned on {places}")
