"""`recombine render`: images of a world, and the scenes they show."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PureWindowsPath
from typing import Annotated, Any, TypeAlias

import torch
import tyro

from recombine.commands import choice
from recombine.commands.console import image_progress, print_json, say, tell_time_of
from recombine.commands.grammar import UNSET, Device, Json, Names
from recombine.measurement import Measurement
from recombine.report.files import naming, new_folder, refuse_occupied
from recombine.report.picture import pictures, png
from recombine.scene import Scenes, World, concept_rows
from recombine.worlds import scene_file

BATCH = 64
LARGEST_FILE = 512 * 2**20
SCENES = "scenes.json"


@dataclass(frozen=True)
class RenderOptions:
    """Render images of a world, and write down the scenes they show.

    Example: recombine render clevr --count 64 --objects 1-9 --out pictures
    """

    world: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="WORLD")]
    """A world of `recombine list`."""
    count: Annotated[int | None, UNSET] = None
    """How many images (default: 16)."""
    seed: Annotated[int | None, UNSET] = None
    """Which scenes: the same seed gives the same ones (default: 0)."""
    out: Annotated[Path | None, UNSET] = None
    """New folder for the images and scenes.json (default: the world's name)."""
    size: Annotated[int | None, UNSET] = None
    """Side of an image in pixels, 8 to 2048 (default: the world's own)."""
    objects: Annotated[tuple[int, ...] | None, UNSET] = None
    """How many objects a scene has, such as 4 or 3-6 (default: the world's own)."""
    composition: tyro.conf.UseAppendAction[tuple[Names, ...]] = ()
    """A concept per factor as `recombine list` orders them, such as cube,red,metal,small: only this
    composition; repeat the option for several."""
    jitter: bool = False
    """Move camera and lamps a little, as CLEVR does."""
    scenes: Annotated[Path | None, UNSET] = None
    """Render the scenes of this file instead; images keep their names."""
    image_size: Annotated[str | None, UNSET] = None
    """Size of the images the file was written for, such as 128 or 480x320, if it names none."""
    device: Device = None
    json: Json = False


SceneBatch: TypeAlias = tuple[int, Scenes, Sequence[str]]
"""The number of the first of some scenes, the scenes, and the names of their images."""


def run(options: RenderOptions) -> None:
    """Render into a new folder."""
    folder = options.out or Path(options.world)
    world = configured(options)
    device = choice.chosen_device(options.device)
    refuse_occupied(folder)
    total, parts = chosen_scenes(options, world, device)
    first = next(parts)
    tell_time_of(total, lambda few: world.image(first[1][:few]), f"rendering {world.name}")
    started = time.perf_counter()
    with new_folder(folder) as partial, image_progress(f"rendering {world.name}") as watch:
        for images in written(world, chain([first], parts), partial):
            watch(images, total)
    report(options, world, total, folder, time.perf_counter() - started)


def configured(options: RenderOptions) -> World:
    """Return the world with everything set that the user set."""
    world = choice.chosen_world(options.world)
    if options.size is not None:
        world = choice.with_setting(world, "size", choice.chosen_size(options.size))
    if options.objects is not None:
        world = choice.with_setting(world, "objects", choice.chosen_objects(options.objects))
    if options.composition:
        concept_rows(world.factors, options.composition)  # one concept per factor, or it says so
        world = choice.with_setting(world, "among", options.composition)
    if options.jitter:
        world = choice.with_setting(world, "jitter", True)
    return world


def chosen_scenes(
    options: RenderOptions, world: World, device: torch.device
) -> tuple[int, Iterator[SceneBatch]]:
    """Return the number of scenes, and the scenes in batches."""
    if options.scenes is None:
        if options.image_size is not None:
            raise ValueError(f"--image-size {options.image_size} needs --scenes")
        count = 16 if options.count is None else options.count
        if count < 1:
            raise ValueError(f"--count is 1 or more; got {count}")
        return count, numbered(world, count, options.seed or 0, device)
    for name in ("count", "seed", "objects", "composition", "jitter"):
        if getattr(options, name) != getattr(RenderOptions, name):
            given_by = f"{options.scenes} gives them; leave it out"
            raise ValueError(f"--{name} chooses scenes, but {given_by}")
    scenes, names = given(options.scenes, world, options.image_size)
    scenes = scenes.to(device)
    firsts = range(0, len(names), BATCH)
    return len(names), (
        (first, scenes[first : first + BATCH], names[first : first + BATCH]) for first in firsts
    )


def numbered(world: World, count: int, seed: int, device: torch.device) -> Iterator[SceneBatch]:
    """Yield the scenes 0, 1, ... of a seed."""
    for first in range(0, count, BATCH):
        index = torch.arange(first, min(first + BATCH, count), device=device)
        names = [f"{world.name}_{number:06d}.png" for number in index.tolist()]
        yield first, world.scenes(index, seed), names


def given(path: Path, world: World, image_size: str | None = None) -> tuple[Scenes, list[str]]:
    """Read a file of scenes and the names of their images."""
    size = None if image_size is None else choice.chosen_image_size(image_size)
    content = json_content(path)
    with naming(path):
        scenes, names = scene_file.read(content, world, size)
        refuse_tricks(names)
    return scenes, names


def json_content(path: Path) -> Any:
    """Read a JSON file, or say in one line why that cannot be."""
    if not path.is_file():
        raise ValueError(f"{path} is not there, or not a file; expected a JSON file of scenes")
    size = path.stat().st_size
    if size > LARGEST_FILE:
        megabytes = LARGEST_FILE >> 20
        raise ValueError(f"{path} has {size >> 20:,} MB; expected {megabytes} MB at most")
    try:
        return json.loads(path.read_bytes(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not whole JSON: {error}") from error


def refuse_tricks(names: Sequence[str]) -> None:
    """Refuse image names that would be written elsewhere, over each other or as no picture."""
    seen: set[str] = set()
    for name in names:
        if PureWindowsPath(name).name != name or "\0" in name or not name.endswith(".png"):
            raise ValueError(f"image name {name!r} is not a plain file name that ends in .png")
        if name.casefold() in seen:
            raise ValueError(f"image name {name!r} occurs twice; expected a name per scene")
        seen.add(name.casefold())


def written(world: World, parts: Iterator[SceneBatch], folder: Path) -> Iterator[int]:
    """Write images and their scenes batch by batch, and yield how many images there are."""
    # Scene by scene, so that memory does not grow with the number of images.
    with (folder / SCENES).open("w", encoding="utf-8") as file:
        for first, scenes, names in parts:
            with torch.inference_mode():
                images = world.image(scenes)
            for picture, name in zip(pictures(images), names, strict=True):
                (folder / name).write_bytes(png(picture))
            content = scene_file.write(scenes, world, names, first)
            listed = [json.dumps(scene, allow_nan=False) for scene in content["scenes"]]
            if first == 0:
                head = json.dumps({**content, "scenes": []}, allow_nan=False)
                file.write(head.removesuffix("]}") + "\n")
            else:
                file.write(",\n")
            file.write(",\n".join(listed))
            yield first + len(names)
        file.write("\n]}\n")


def report(options: RenderOptions, world: World, total: int, folder: Path, seconds: float) -> None:
    """Say what was written, where, and how fast."""
    speed = total / seconds
    if options.json:
        measured = {"images_per_second": Measurement(speed, None, None, n=total)}
        paths = {"folder": str(folder), "scenes": str(folder / SCENES)}
        print_json(world.name, measured, images=total, **paths)
    else:
        plural = "" if total == 1 else "s"
        say(f"{total:,} image{plural} and {SCENES} are in {folder} ({speed:,.0f} images/s)")


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not a number of JSON")
