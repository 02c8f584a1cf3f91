"""`recombine score`: do images that were made elsewhere show what was requested?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from recombine import studies
from recombine.commands import choice
from recombine.commands.console import image_progress, print_json, say
from recombine.commands.grammar import UNSET, Json
from recombine.measurement import Measurement
from recombine.report.table import quoted
from recombine.scene import World
from recombine.scoring.accuracy import AT_ONCE, CompositionAccuracy
from recombine.scoring.labels import prompts, table
from recombine.scoring.pictures import opened
from recombine.scoring.reading import NOTHING, readable
from recombine.split import Coverage, Split
from recombine.study import Cell

PROMPTS = (".json", ".jsonl")


@dataclass(frozen=True)
class ScoreOptions:
    """Read the images of a folder and compare them with what they should show.

    Labels are a table, file,shape,size,colour, whose empty cells leave a factor open; several rows
    of one file are several objects. Or a JSON list of prompts with their files,
    [{"include": [{"shape": "cube", "color": "red", "count": 1}], "files": ["0.png"]}]; without
    "include", the concepts are the words of "prompt". Images are RGB; those of shapes2d have 28 x
    28 pixels. JSON has "measurements" by name: accuracy, valid, SHAPE_right and so on, @GROUP of
    the split, and _ceiling for true renders; "unknown" are the files that show nothing known.

    Example: recombine score pictures --labels pictures/labels.csv --world shapes2d --json
    """

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
    """Folder of the images."""
    labels: Annotated[Path, tyro.conf.arg(help_behavior_hint="")]
    """Table (.csv) or prompts (.json, .jsonl) that say what each image should show."""
    world: Annotated[str, tyro.conf.arg(metavar="WORLD", help_behavior_hint="")]
    """Which world's reader reads the images: shapes2d or clevr."""
    split: Annotated[str | None, UNSET] = None
    """Also score seen, dev, test and each level: coverage:18 or coverage:18:3 (compositions seen,
    and the order), or a cell of a study that measures composition, such as coverage:dit."""
    json: Json = False


def run(options: ScoreOptions) -> None:
    """Read, compare and print."""
    world = readable(choice.chosen_world(options.world))
    split = None if options.split is None else chosen_split(options.split, world)
    files, objects = chosen_files(options, world)
    found, unknown = CompositionAccuracy(world, split), []
    with image_progress("reading") as watch:
        for first in range(0, len(files), AT_ONCE):
            here = slice(first, first + AT_ONCE)
            found.update(opened(files[here], world), objects[here])
            valid = found.valid[-1].tolist()
            unknown += [
                str(path) for path, is_valid in zip(files[here], valid, strict=True) if not is_valid
            ]
            watch(min(first + AT_ONCE, len(files)), len(files))
        measured = found.measurements()
    announce(options, measured, unknown)


def chosen_files(
    options: ScoreOptions, world: World
) -> tuple[list[Path], list[list[Mapping[str, str]]]]:
    """Return the labelled images, and the objects each should show; all of them are there."""
    if not options.folder.is_dir():
        raise ValueError(f"{options.folder} is not a folder of images")
    labels = options.labels
    if not labels.is_file() and (options.folder / labels).is_file():
        labels = options.folder / labels
    if not labels.is_file():
        raise ValueError(f"{labels} is not there, nor in {options.folder}; expected a table")
    read = prompts if labels.suffix in PROMPTS else table
    labelled = read(labels, world.factors)
    root = options.folder.resolve()
    for name in labelled:
        path = options.folder / name
        if not path.resolve().is_relative_to(root):
            raise ValueError(f"{labels}: {name} lies outside {options.folder}")
        if not path.is_file():
            raise ValueError(f"{path} is not there; {labels} labels it")
    return [options.folder / name for name in labelled], list(labelled.values())


def chosen_split(name: str, world: World) -> Split:
    """Return the split of "coverage:18", or of a cell that measures composition."""
    first, *rest = name.split(":")
    if first == "coverage" and rest and all(each.isdecimal() for each in rest) and len(rest) < 3:
        return Coverage(world.factors, *map(int, rest)).split
    (study, key), *_ = studies.chosen(name)
    cell = studies.load(study).cells[key]
    measures: Sequence[Any] = cell.measures if isinstance(cell, Cell) else ()
    splits = [each.split for each in measures if hasattr(each, "split")]
    if not splits:
        raise ValueError(f"{study}:{key} has no split; expected a cell that measures composition")
    return splits[0]


def announce(
    options: ScoreOptions, measured: Mapping[str, Measurement], unknown: Sequence[str]
) -> None:
    """Print the numbers, and which images are not of the world."""
    if options.json:
        print_json(str(options.folder), measured, unknown=list(unknown))
        return
    for name, each in measured.items():
        # Single compositions are many, and of few images each: --json has them.
        if "-" not in name:
            print(f"{name} {quoted(each)}")
    few = ", ".join(unknown[:3]) + (", ..." if len(unknown) > 3 else "")
    if unknown:
        images = "1 image shows" if len(unknown) == 1 else f"{len(unknown)} images show"
        say(f"{images} {NOTHING}: {few}")
