"""`recombine demo`: every world on one page."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch

from recombine.commands import choice
from recombine.commands.console import image_progress, print_json, say
from recombine.commands.listing import factors_in_words
from recombine.commands.parse import UNSET
from recombine.measurement import Measurement
from recombine.report.files import write_bytes, write_text
from recombine.report.origin import device_name
from recombine.report.page import Picture, Section, Table, page
from recombine.report.picture import contact_sheet, pictures, png
from recombine.report.table import duration, number
from recombine.scene import Scenes, World
from recombine.worlds import WORLDS

IMAGES, COLUMNS = 24, 8
LEAD = (
    "Can a visual generative model make what it has never seen, out of parts it has? "
    "These are the worlds in which we ask: every picture shows a scene that is known exactly."
)


@dataclass(frozen=True)
class Options:
    """Render every world into one page that needs no other file; nothing is opened.

    Example: recombine demo --out recombine-demo
    """

    out: Path = Path("recombine-demo")
    """Folder for report.html and a contact sheet per world; an earlier demo is replaced."""
    seed: int = 0
    """Which scenes."""
    device: Annotated[str | None, UNSET] = None
    """Where to render: cpu, cuda, cuda:1 (default: the accelerator if there is one)."""
    json: bool = False
    """Print one JSON object and nothing else on standard output."""


@dataclass(frozen=True)
class Shown:
    """A world with some of its scenes, their images and the seconds they took."""

    world: World
    scenes: Scenes
    images: torch.Tensor
    seconds: float


def run(options: Options) -> None:
    """Render the worlds and write the page."""
    device = choice.chosen_device(options.device)
    shown = []
    with image_progress("rendering the worlds", IMAGES * len(WORLDS)) as advance:
        for world in WORLDS:
            shown.append(drawn(world, options.seed, device))
            advance(IMAGES)
    options.out.mkdir(parents=True, exist_ok=True)
    for each in shown:
        write_bytes(
            options.out / f"{each.world.name}.png", png(contact_sheet(each.images, COLUMNS))
        )
    report = options.out / "report.html"
    write_text(report, whole_page(shown, options.seed, device))
    announce(options, report, shown)


def drawn(world: World, seed: int, device: torch.device) -> Shown:
    """Render the first scenes of a seed, and take the time."""
    started = time.perf_counter()
    with torch.inference_mode():
        scenes = world.scenes(torch.arange(IMAGES, device=device), seed)
        images = world.image(scenes).cpu()
    return Shown(world, scenes.to("cpu"), images, time.perf_counter() - started)


def whole_page(shown: list[Shown], seed: int, device: torch.device) -> str:
    """Return the page: a section per world, and the times."""
    rows = tuple(
        (each.world.name, f"{IMAGES} of {each.world.size} px", duration(each.seconds))
        + (number(IMAGES / each.seconds),)
        for each in shown
    )
    times = Section(
        "Time",
        caption=f"First call, placing the objects included, on {device_name(device)}.",
        table=Table(("world", "images", "time", "images/s"), rows),
    )
    return page("recombine", LEAD, [*(section(each, seed) for each in shown), times])


def section(shown: Shown, seed: int) -> Section:
    """Return the part of the page about one world."""
    name = shown.world.name
    words = described(shown.scenes, shown.world)
    return Section(
        name,
        caption=f"{shown.world.size} px; factors: {factors_in_words(shown.world, '; ')}.",
        command=f"recombine render {name} --count {IMAGES} --seed {seed} --out {name}",
        pictures=tuple(map(Picture.of, pictures(shown.images), words)),
    )


def described(scenes: Scenes, world: World) -> list[str]:
    """Return each scene in words: "red cube, blue sphere"."""
    return [
        ", ".join(
            " ".join(factor.concepts[at] for factor, at in zip(world.factors, row, strict=True))
            for row, there in zip(objects, present, strict=True)
            if there
        )
        for objects, present in zip(scenes.concepts.tolist(), scenes.present.tolist(), strict=True)
    ]


def announce(options: Options, report: Path, shown: list[Shown]) -> None:
    """Say where the page is."""
    if not options.json:
        say(f"The page is {report}: open it in a browser.")
        return
    speeds = {
        f"images_per_second@{each.world.name}": Measurement(
            IMAGES / each.seconds, None, None, n=IMAGES
        ).printed
        for each in shown
    }
    print_json({"subject": "demo", "measurements": speeds, "report": str(report)})
