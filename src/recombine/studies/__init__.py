"""Studies: one file per question, each with one table of levels, `STUDY`."""

import importlib
import pkgutil
from functools import cache

from recombine.report.words import nearest
from recombine.study import Study


def names() -> list[str]:
    """Return the names of all studies: those of their files."""
    return [name for _, name, _ in pkgutil.iter_modules(__path__) if not name.startswith("_")]


@cache
def load(name: str) -> Study:
    """Return a study, or say which there are."""
    known = names()
    if name not in known:
        raise ValueError(f"study {name!r} is not one of {', '.join(known)}{nearest(name, known)}")
    found: Study = importlib.import_module(f"{__name__}.{name}").STUDY
    return found


def chosen(text: str) -> list[tuple[str, str]]:
    """Read "length" (all its cells) or "length:grid_all" (one of them) as study and cell."""
    name, _, key = text.partition(":")
    of = load(name)
    if key and key not in of.cells:
        known = list(of.cells)
        raise ValueError(
            f"cell {key!r} of {name} is not one of {', '.join(known)}{nearest(key, known)}"
        )
    return [(name, each) for each in ([key] if key else of.cells)]
