"""Samples of one or several models as files: a PNG for each image, and a sheet of all of them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from recombine.commands import choice
from recombine.commands.console import image_progress, print_json, say
from recombine.commands.measure import chosen_model
from recombine.report.files import write_bytes
from recombine.report.picture import enlarged, pictures, png, tiled
from recombine.run.model import Model, chosen_checkpoint
from recombine.sample.guidance import Guidance
from recombine.sample.heun import Sampler

SHEET = "sheet.png"


def run(options: Any) -> None:
    """Draw with every model from the same noise, and write all files, or none."""
    targets = files(options)
    taken = [path for path in targets if path.exists()]
    if taken and not options.force:
        raise ValueError(f"{taken[0]} is there already; --force replaces it")
    if options.into_folder and options.out.is_file():
        raise ValueError(f"{options.out} is a file; expected a folder")
    drawn = [samples(subject, options) for subject in options.subjects]
    tiles = [[enlarged(each, options.scale) for each in pictures(images)] for images in drawn]
    sheet = side_by_side(tiles)
    if options.into_folder:
        options.out.mkdir(parents=True, exist_ok=True)
    every = [tile for row in tiles for tile in row] if options.into_folder else []
    for path, picture in zip(targets, [*every, sheet], strict=True):
        write_bytes(path, png(picture))
    if options.json:
        names = [{"image": str(path)} for path in targets]
        print_json(" ".join(options.subjects), {}, images=names, out=str(options.out))
    images = "1 image" if options.count == 1 else f"{options.count} images"
    say(f"{options.out} is written: {images} by {', '.join(options.subjects)}")


def files(options: Any) -> list[Path]:
    """Return the files that will be written, the sheet last."""
    if not options.into_folder:
        return [options.out]
    own = [plain(subject) for subject in options.subjects]
    if len(set(own)) < len(own):
        raise ValueError(f"each model is named once; got {' '.join(options.subjects)}")
    names = [f"{name}-{number:04}.png" for name in own for number in range(options.count)]
    return [options.out / name for name in [*names, SHEET]]


def plain(subject: str) -> str:
    """Return the name of a model as part of a file's name."""
    return "".join(sign if sign.isalnum() or sign in "_-" else "_" for sign in subject).strip("_")


def samples(subject: str, options: Any) -> Float[Tensor, "count 3 height width"]:
    """Draw with one model."""
    path = chosen_checkpoint(subject, 0, options.runs)
    with image_progress(subject) as watch:
        device = choice.chosen_device(options.device)
        model = chosen_model(path, device, options.steps, sampler=options.sampler)
        model = replace(guided(model, options), watch=watch)
        if options.concepts is not None:
            wanted: Any = named(model, options.concepts)
            return model.sample(count=options.count, seed=options.seed, **wanted)
        # Places are read the same way as for one model.
        from recombine.commands.sample import chosen_place

        places = [chosen_place(text) for text in options.at] or None
        return model.sample(places, count=options.count, seed=options.seed)


def named(model: Model, text: str) -> dict[str, str]:
    """Return the factor of each concept of "triangle,small,blue"; the order does not matter."""
    found: dict[str, str] = {}
    factors = model.training.world.factors
    for concept in (each.strip() for each in text.split(",")):
        mine = [factor.name for factor in factors if concept in factor.concepts]
        if not mine:
            known = "; ".join(f"{each.name}: {', '.join(each.concepts)}" for each in factors)
            raise ValueError(f"{concept!r} is no concept of this model's world ({known})")
        if len(mine) > 1 or mine[0] in found:
            raise ValueError(f"--as names each factor once; got {text!r}")
        found[mine[0]] = concept
    return found


def guided(model: Model, options: Any) -> Model:
    """Return the model with its condition strengthened, if that is wanted."""
    if options.guidance is None:
        return model
    sampler = model.cell.sampler
    if not isinstance(sampler, Sampler):
        raise ValueError("--guidance is for models that denoise; this one reveals hidden tokens")
    sampler = replace(sampler, guidance=Guidance(torch.zeros_like, options.guidance))
    return replace(model, cell=replace(model.cell, sampler=sampler))


def side_by_side(tiles: Sequence[Sequence[Image.Image]]) -> Image.Image:
    """Return one row of pictures for each model; smaller ones are laid on white."""
    every = [tile for row in tiles for tile in row]
    size = max(tile.width for tile in every), max(tile.height for tile in every)
    laid = []
    for tile in every:
        laid.append(Image.new("RGB", size, "white"))
        laid[-1].paste(tile)
    columns = len(tiles[0]) if len(tiles) > 1 else max(1, round(len(every) ** 0.5 + 0.49))
    return tiled(laid, columns)
