"""`recombine new`: a file to start from, which runs as it is and brings its own test."""

import keyword
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from recombine.commands import index
from recombine.commands.console import print_json, say
from recombine.commands.grammar import UNSET, Json
from recombine.report.files import write_text
from recombine.report.words import nearest

KINDS = ("world", "study", "measurement")
FOLDER = Path(__file__).with_name("skeletons")


@dataclass(frozen=True)
class NewOptions:
    """Write a commented file that declares a world, a study or a measurement of yours.

    Example: recombine new study my_study
    """

    kind: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="KIND")]
    """world, study or measurement."""
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    """What it is called: letters, digits and _."""
    out: Annotated[Path | None, UNSET] = None
    """The file to write (default: NAME.py); one that exists is left as it is, and said so."""
    json: Json = False


def run(options: NewOptions) -> None:
    """Write the file, and say what to do with it."""
    path = Path(f"{options.name}.py") if options.out is None else options.out
    check(options, path)
    write_text(path, skeleton(options.kind, options.name, path))
    if options.json:
        print_json(options.name, {}, out=str(path))
        return
    say(f"{path} is written: recombine run {path} --tiny; python -m pytest {path}")


def check(options: NewOptions, path: Path) -> None:
    """Refuse before anything is written."""
    kind, name = options.kind, options.name
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is not one of {', '.join(KINDS)}{nearest(kind, KINDS)}")
    for what in (name, path.stem):
        if not what.isidentifier() or keyword.iskeyword(what):
            raise ValueError(f"a name is of letters, digits and _, such as my_{kind}; got {what!r}")
    if path.suffix != ".py":
        raise ValueError(f"--out is a .py file; got {path}")
    if path.stem in index.read()["studies"]:
        raise ValueError(f"{path.stem} is the name of a shipped study; choose another one")
    if path.exists():
        raise ValueError(f"{path} exists; choose another name, or --out")
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent} is no folder; expected one to write {path.name} into")


def skeleton(kind: str, name: str, path: Path) -> str:
    """Return the text of the file: the skeleton of the kind with this name."""
    text = (FOLDER / f"{kind}.py").read_text(encoding="utf-8")
    capitals = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    words = {"skeleton": name, "Skeleton": capitals, "FILE": path.name}
    return re.sub("|".join(words), lambda found: words[found[0]], text)
