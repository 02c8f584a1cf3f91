"""Studies: one file per question, each with one table of levels, `STUDY`.

A file of a user that declares a `STUDY` in the same way is named by its path.
"""

import importlib
import pkgutil
from dataclasses import replace
from functools import cache

from recombine import own
from recombine.report.words import listed, nearest
from recombine.study import Study


def names() -> list[str]:
    """Return the names of all studies: those of their files."""
    return [name for _, name, _ in pkgutil.iter_modules(__path__) if not name.startswith("_")]


def load(name: str) -> Study:
    """Return a study by its name, or by the path of a file that declares it."""
    return _declared_in(name) if own.is_own(name) else _shipped(name)


@cache
def _shipped(name: str) -> Study:
    known = names()
    if name not in known:
        raise ValueError(
            f"study {name!r} is not one of {', '.join(known)}{nearest(name, known)}; "
            f"a study of yours is named by its file, such as my_study.py"
        )
    found: Study = importlib.import_module(f"{__name__}.{name}").STUDY
    return found


def _declared_in(path: str) -> Study:
    module, file = own.imported(path)
    if file.name in names():
        raise ValueError(f"{path} has the name of a shipped study; choose another one for the file")
    found = getattr(module, "STUDY", None)
    if not isinstance(found, Study):
        raise ValueError(f"{path} declares no STUDY = study(...); recombine new study writes one")
    return replace(found, file=file)


def chosen(text: str) -> list[tuple[str, str]]:
    """Read "length" (all its cells) or "length:grid_all" (one of them) as study and cell."""
    name, key = own.parted(text)
    of = load(name)
    if key and key not in of.cells:
        known = list(of.cells)
        raise ValueError(
            f"cell {key!r} of {name} is not one of {listed(known)}{nearest(key, known)}"
        )
    return [(name, each) for each in ([key] if key else of.cells)]
