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
from recombine.commands.measure import chosen_checkpoint, plan_of, subject_of, with_steps
from recombine.commands.parse import UNSET
from recombine.condition import EncodesPlaces
from recombine.experiment import Experiment, Trained
from recombine.measure.matching import RADIUS, matched
from recombine.measurement import Measurement, Number, student_t
from recombine.reader import Found
from recombine.report.files import write_bytes
from recombine.report.picture import Place, dotted, pictures, png, tiled
from recombine.report.table import quoted
from recombine.worlds.clevr import Clevr

NUMBER = r"-?\d*\.?\d+(?:e-?\d+)?"
PAIR = re.compile(rf"\s*({NUMBER})\s*,\s*({NUMBER})\s*")
MOST = 1024


@dataclass(frozen=True)
class Options:
    """Tell a model where the objects are and draw; then count what it drew.

    A place is X,Y: from 0 to 1, x right and y down. On a CPU an image takes about a second.

    Example: recombine sample zoo:grid_all --at 0.3,0.4 0.7,0.6 --count 4 --dots --out four.png
    """

    subject: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME_OR_CHECKPOINT")]
    """zoo:NAME (see recombine list), EXPERIMENT[:VARIANT], the folder of a run, or a checkpoint."""
    at: Annotated[tuple[str, ...], tyro.conf.arg(metavar="X,Y", help_behavior_hint="")] = ()
    """Where the objects are (default: the model is told of none)."""
    out: Path = Path("sample.png")
    """The picture to write; several images become a sheet. A file of this name is replaced."""
    count: int = 1
    """How many images."""
    seed: int = 0
    """Which noise to start from."""
    steps: Annotated[int | None, UNSET] = None
    """Steps of the sampler (default: the experiment's)."""
    dots: bool = False
    """Enlarge, and mark the told places: a dot where an object was found, a ring where not."""
    runs: Path = Path("runs")
    """Folder of the runs, when an experiment is named; its seed 0 is taken."""
    device: Annotated[str | None, UNSET] = None
    """Where to draw: cpu, cuda, cuda:1 (default: the accelerator if there is one)."""
    json: bool = False
    """Print one JSON object and nothing else on standard output."""


@dataclass(frozen=True)
class Told:
    """The places of one picture as the model is told them, and the condition that says so."""

    place: Float[Tensor, "1 object 2"]
    present: Bool[Tensor, "1 object"]
    condition: Float[Tensor, " one *told"]

    @property
    def places(self) -> list[Place]:
        """The places that are told."""
        return [(x, y) for x, y in self.place[self.present].tolist()]


@dataclass(frozen=True)
class Counted:
    """What the reader found in each image, and which told places it found an object at."""

    found: Found
    hit: Bool[Tensor, "batch object"]

    @property
    def measurements(self) -> dict[str, Measurement]:
        """How many objects there are, and the share of told places that are hit."""
        values = {"count": averaged(self.found.count.tolist())}
        if self.hit.shape[1]:
            values["hit_rate"] = averaged(self.hit.double().mean(dim=1).tolist(), most=1)
        return values


def run(options: Options) -> None:
    """Draw, write the picture, and say what is in it."""
    check(options)
    path = chosen_checkpoint(options.subject, 0, options.runs)
    plan = plan_of(path)
    plan = replace(plan, experiment=with_steps(plan.experiment, options.steps))
    told = told_places(plan.experiment, options)
    machine = runner.machine(choice.chosen_device(options.device))
    with drawing(options.subject) as watch:
        images = drawn(runner.loaded(plan, path, machine, watch), told, options)
    counted = count(plan.experiment, images, told)
    write_bytes(options.out, png(sheet(images, told, counted, options.dots)))
    announce(options, subject_of(options.subject, path), told, counted)


def check(options: Options) -> None:
    """Refuse before anything is drawn."""
    if not 1 <= options.count <= MOST:
        raise ValueError(f"--count is from 1 to {MOST}; got {options.count}")
    if options.out.suffix.lower() != ".png":
        raise ValueError(f"--out is a .png file; got {options.out}")
    if not options.out.parent.is_dir():
        raise ValueError(f"{options.out.parent} is no folder; expected one to write --out into")


def chosen_place(text: str) -> Place:
    """Read "0.2,0.4"."""
    pair = PAIR.fullmatch(text)
    if not pair:
        raise ValueError(f"a place is X,Y such as 0.2,0.4; got {text!r}")
    x, y = float(pair[1]), float(pair[2])
    if not (0 <= x <= 1 and 0 <= y <= 1):
        raise ValueError(f"{text} lies outside the image; x and y are from 0 to 1")
    return x, y


def told_places(experiment: Experiment, options: Options) -> Told:
    """Return what the model is told; say so where it cannot be told all of it."""
    encode = experiment.conditioner.encode
    if not isinstance(encode, EncodesPlaces):
        raise ValueError(f"{options.subject} is not told places; there is no --at for it")
    given = [chosen_place(text) for text in options.at]
    # The far border still belongs to the image.
    place = torch.tensor(given).reshape(1, len(given), 2).clamp(max=1 - 2**-24)
    present = torch.ones(1, len(given), dtype=torch.bool)
    condition = encode.at(place, present)
    place, heard = encode.requested(place, present)
    for late in (present & ~heard)[0].nonzero()[:, 0].tolist():
        same = (place[0] == place[0, late]).all(dim=1) & heard[0]
        early = options.at[int(same.byte().argmax())]
        say(
            f"{early} and {options.at[late]} lie in one cell: the model is told of one object there"
        )
    return Told(place, heard, condition)


def drawn(trained: Trained, told: Told, options: Options) -> Float[Tensor, "batch 3 height width"]:
    """Draw the images of a seed: the same on every device, and the first of more."""
    condition = told.condition.expand(options.count, *told.condition.shape[1:])
    generator = torch.Generator().manual_seed(options.seed)
    return trained.images(condition, generator).clamp(0, 1).cpu()


def count(
    experiment: Experiment, images: Float[Tensor, "batch 3 height width"], told: Told
) -> Counted | None:
    """Find objects in the images, where the reader knows their world."""
    if not isinstance(experiment.world, Clevr) or zoo.DETECTOR not in zoo.names():
        return None
    found = zoo.detector()(images)
    place = torch.tensor(told.places).reshape(1, -1, 2).expand(len(images), -1, 2)
    every = torch.ones(place.shape[:2], dtype=torch.bool)
    return Counted(found, matched(found.place, found.present, place, every, RADIUS) >= 0)


def averaged(values: Sequence[Number], most: Number = inf) -> Measurement:
    """Return the mean of values from 0 to `most`, interval included; one image has no spread."""
    if len(values) == 1:
        return Measurement(values[0], None, None, n=1)
    low, high = student_t(values)
    return Measurement(fmean(values), max(low, 0), min(high, most), n=len(values))


def sheet(
    images: Float[Tensor, "batch 3 height width"], told: Told, counted: Counted | None, dots: bool
) -> Image.Image:
    """Return the images as one picture, near to a square."""
    tiles = pictures(images)
    if dots:
        # Where nothing is counted, a place is neither hit nor missed: a plain dot.
        hits = counted.hit.tolist() if counted else [[True] * len(told.places)] * len(tiles)
        tiles = [dotted(tile, told.places, hit) for tile, hit in zip(tiles, hits, strict=True)]
    return tiled(tiles, ceil(sqrt(len(tiles))))


def announce(options: Options, subject: str, told: Told, counted: Counted | None) -> None:
    """Say where the picture is and what is in it."""
    measured = counted.measurements if counted else {}
    objects = described(counted.found) if counted else []
    names = [f"{options.out}{f'#{number}' * (len(objects) > 1)}" for number in range(len(objects))]
    if options.json:
        pairs = zip(names, objects, strict=True)
        said = {
            "subject": subject,
            "measurements": {name: each.printed for name, each in measured.items()},
            "told": [{"x": x, "y": y} for x, y in told.places],
            "images": [{"image": name, "objects": each} for name, each in pairs],
            "out": str(options.out),
        }
        print_json(said)
        return
    for name, each in zip(names, objects, strict=True):
        print(table(name, each))
    for name, value in measured.items():
        print(f"{name} {quoted(value)}")
    images = "1 image" if options.count == 1 else f"{options.count} images"
    say(f"{options.out} is written: {len(told.places)} places told, {images} drawn")
