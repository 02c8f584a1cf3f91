"""`recombine sample`: draw with a trained model at places you choose."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, sqrt
from pathlib import Path
from typing import Annotated

import torch
import tyro
from jaxtyping import Bool, Float
from PIL import Image
from torch import Tensor

from recombine import zoo
from recombine.commands import choice, sheets
from recombine.commands.console import image_progress, print_json, say, tell_time
from recombine.commands.detect import described, table
from recombine.commands.grammar import UNSET, Device, Json, SamplerName
from recombine.commands.measure import chosen_model
from recombine.condition import EncodesPlaces
from recombine.measure.matching import RADIUS, matched
from recombine.measurement import Measurement
from recombine.reader import Found
from recombine.render import camera
from recombine.report.files import write_bytes
from recombine.report.picture import Place, Ring, enlarged, pictures, png, tiled
from recombine.report.table import quoted
from recombine.run.model import chosen_checkpoint
from recombine.training import Training
from recombine.worlds.clevr import Clevr

MOST, LARGEST = 1024, 16


@dataclass(frozen=True)
class SampleOptions:
    """Condition a model on the places of objects, or on concepts, and draw; say what it drew.

    A place is X,Y: from 0 to 1, x right and y down. On a CPU an image takes less than a second.
    Several models draw side by side, from the same noise, into a folder.

    Example: recombine sample zoo:grid_all --at 0.3,0.4 0.7,0.6 --count 4 --mark --out four.png
    """

    subjects: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="ZOO_OR_RUN")]
    """zoo:NAME (see recombine list), STUDY:CELL, the folder of a run, or a checkpoint."""
    at: Annotated[tuple[str, ...], tyro.conf.arg(metavar="X,Y", help_behavior_hint="")] = ()
    """Where the objects are (default: the condition is of no object)."""
    concepts: Annotated[
        str | None, tyro.conf.arg(name="as", metavar="CONCEPT,CONCEPT", help_behavior_hint="")
    ] = None
    """Which concepts: triangle,small,blue, for models that are conditioned on factors."""
    out: Path = Path("sample.png")
    """The picture to write (several images: a sheet), or a folder for a PNG of each and a sheet."""
    force: bool = False
    """Replace files that are there."""
    count: int = 1
    """How many images."""
    seed: int = 0
    """Which noise to start from."""
    steps: Annotated[int | None, UNSET] = None
    """Steps of the sampler (default: those of --sampler)."""
    guidance: Annotated[float | None, UNSET] = None
    """Strengthen the condition by this weight; the model must have seen empty conditions."""
    sampler: SamplerName = None
    scale: int = 4
    """How many times as large to write every pixel: 1 leaves the image as the model drew it."""
    mark: bool = False
    """Draw a ring around each requested place: green where an object was found, else dashed red."""
    runs: Path = Path("runs")
    """Folder of the runs, when a cell is named; its seed 0 is taken."""
    device: Device = None
    json: Json = False

    @property
    def subject(self) -> str:
        """The only model, or the first."""
        return self.subjects[0]

    @property
    def into_folder(self) -> bool:
        """Whether each image is a file of its own."""
        return self.out.suffix.lower() != ".png"


def run(options: SampleOptions) -> None:
    """Draw, write the picture, and say what is in it."""
    check(options)
    if options.into_folder or options.concepts is not None or len(options.subjects) > 1:
        sheets.run(options)
        return
    path = chosen_checkpoint(options.subject, 0, options.runs)
    device = choice.chosen_device(options.device)
    model = chosen_model(path, device, options.steps, sampler=options.sampler)
    model = sheets.guided(model, options)
    places, given = chosen_places(model.training, options)
    tell_time(model.seconds(model.at(places, options.count)), f"{options.subject}")
    with image_progress(options.subject) as watch:
        images = replace(model, watch=watch).sample(places, options.count, options.seed)
    warn_of_far(model.training, torch.tensor(places).reshape(-1, 2))
    found = zoo.detector()(images) if is_read(model.training) else None
    hit = torch.ones(len(images), len(places), dtype=torch.bool)
    if found is not None:
        requested = given.expand(len(images), -1, -1)
        hit = matched(found.place, found.present, requested, hit, RADIUS) >= 0
    write_bytes(options.out, png(sheet(images, places, hit.tolist(), options)))
    announce(options, places, given, found, hit)


def check(options: SampleOptions) -> None:
    """Refuse before anything is drawn."""
    for name, value, most in (("count", options.count, MOST), ("scale", options.scale, LARGEST)):
        if not 1 <= value <= most:
            raise ValueError(f"--{name} is from 1 to {most}; got {value}")
    if not options.subjects:
        raise ValueError("name a model to draw with, such as zoo:grid_all (see recombine list)")
    if options.at and options.concepts is not None:
        raise ValueError("--at and --as exclude each other; got both")
    if options.out.suffix.lower() not in (".png", ""):
        raise ValueError(f"--out is a .png file or a folder; got {options.out}")
    if options.out.exists() and not options.into_folder and not options.force:
        raise ValueError(f"{options.out} is there already; --force replaces it")
    if not options.into_folder and not options.out.parent.is_dir():
        raise ValueError(f"{options.out.parent} is no folder; expected one to write --out into")


def chosen_place(text: str) -> Place:
    """Read "0.2,0.4"."""
    try:
        x, y = map(float, text.split(","))
    except ValueError:
        raise ValueError(f"a place is X,Y such as 0.2,0.4; got {text!r}") from None
    if not (0 <= x <= 1 and 0 <= y <= 1):
        raise ValueError(f"{text} lies outside the image; x and y are from 0 to 1")
    return x, y


def chosen_places(
    training: Training, options: SampleOptions
) -> tuple[list[Place], Float[Tensor, "1 object 2"]]:
    """Return the chosen places, as they are and as the condition gives them (a grid: by cell).

    Those that the condition cannot hold are left out, and it is said.
    """
    encode = training.conditioner.encode
    if not isinstance(encode, EncodesPlaces):
        raise ValueError(f"{options.subject} is not conditioned on places; --at is not for it")
    chosen = [chosen_place(text) for text in options.at]
    # The far border belongs to the image.
    place = torch.tensor(chosen).reshape(1, len(chosen), 2).clamp(max=1 - 2**-24)
    given, kept = encode.requested(place, torch.ones(1, len(chosen), dtype=torch.bool))
    for late in (~kept)[0].nonzero()[:, 0].tolist():
        same = (given[0] == given[0, late]).all(dim=1) & kept[0]
        early = options.at[int(same.byte().argmax())]
        say(f"{early} and {options.at[late]} lie in one cell: the condition holds one object there")
    places = [each for each, is_kept in zip(chosen, kept[0].tolist(), strict=True) if is_kept]
    return places, given[:, kept[0]]


def warn_of_far(training: Training, chosen: Float[Tensor, "object 2"]) -> None:
    """Say which places are far from all those at which training images have objects."""
    if not isinstance(training.world, Clevr):
        return
    scenes = training.world.scenes(torch.arange(1024), seed=0)
    seen = camera.places(scenes)[0][scenes.present]
    (left, upper), (right, lower) = seen.amin(dim=0).tolist(), seen.amax(dim=0).tolist()
    for x, y in chosen[torch.cdist(chosen, seen).amin(dim=1) > 2 * RADIUS].tolist():
        say(
            f"{x:g},{y:g} is far from every object of the training images (x {left:.2f} to "
            f"{right:.2f}, y {upper:.2f} to {lower:.2f}): the model may draw nothing there"
        )


def is_read(training: Training) -> bool:
    """Return whether the shipped detector knows the world of the images."""
    return isinstance(training.world, Clevr) and "detector" in zoo.names()


def measurements(found: Found, hit: Bool[Tensor, "batch object"]) -> dict[str, Measurement]:
    """Return how many objects there are, and at which share of the places there is one."""
    values = {"count": Measurement.mean(found.count.tolist()).clipped()}
    if hit.shape[1]:
        shares = hit.double().mean(dim=1).tolist()
        values["hit_rate"] = Measurement.mean(shares).clipped(most=1)
    return values


def sheet(
    images: Float[Tensor, "batch 3 height width"],
    places: Sequence[Place],
    hit: Sequence[Sequence[bool]],
    options: SampleOptions,
) -> Image.Image:
    """Return the images as one picture, near to a square."""
    rings = [[*map(Ring, places, each)] if options.mark else [] for each in hit]
    pairs = zip(pictures(images), rings, strict=True)
    large = [enlarged(tile, options.scale, each) for tile, each in pairs]
    return tiled(large, ceil(sqrt(len(large))))


def announce(
    options: SampleOptions,
    places: Sequence[Place],
    given: Float[Tensor, "1 object 2"],
    found: Found | None,
    hit: Bool[Tensor, "batch object"],
) -> None:
    """Say where the picture is and what is in it."""
    measured = measurements(found, hit) if found else {}
    objects = described(found) if found else []
    names = [f"{options.out}{f'#{number}' * (len(objects) > 1)}" for number in range(len(objects))]
    if options.json:
        pairs = zip(names, objects, strict=True)
        print_json(
            options.subject,
            measured,
            requested=[{"x": x, "y": y} for x, y in places],
            condition=[{"x": x, "y": y} for x, y in given[0].tolist()],
            images=[{"image": name, "objects": each} for name, each in pairs],
            out=str(options.out),
        )
        return
    for name, each in zip(names, objects, strict=True):
        print(table(name, True, each))
    for name, value in measured.items():
        print(f"{name} {quoted(value)}")
    requested = "1 place" if len(places) == 1 else f"{len(places)} places"
    images = "1 image" if options.count == 1 else f"{options.count} images"
    say(f"{options.out} is written: {images}, conditioned on {requested}")
