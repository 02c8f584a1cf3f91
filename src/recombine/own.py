"""Files that users bring: imported by their path, and named with the line when one of them fails.

Nothing here imports torch, so that the command line can ask whose mistake an error is.
"""

import hashlib
import re
import sys
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

SUFFIX, PREFIX = ".py", "recombine_own_"


@dataclass(frozen=True)
class OwnFile:
    """A file of a user: its path as it was given, and the SHA-256 of its text."""

    path: str
    digest: str

    @property
    def name(self) -> str:
        """What its study is called in folders and results."""
        return folder_of(self.path)


def parted(text: str) -> tuple[str, str]:
    """Cut STUDY:CELL or path/to/my_study.py:CELL in two; the cell may be empty."""
    path, found, key = text.rpartition(f"{SUFFIX}:")
    if found:
        return path + SUFFIX, key
    name, _, key = (text, "", "") if is_own(text) else text.partition(":")
    return name, key


def is_own(name: str) -> bool:
    """Return whether this names a file of a user."""
    return name.endswith(SUFFIX)


def folder_of(name: str) -> str:
    """Return what a study is called in folders and results: that of a file has its name."""
    return Path(name).stem if is_own(name) else name


def imported(path: str) -> tuple[ModuleType, OwnFile]:
    """Run a file once, and again when its text has changed; it may import files beside it.

    Whatever it raises becomes one line with the file and the line number.
    """
    if not re.fullmatch(r"[\w-]+", Path(path).stem):
        raise ValueError(f"{path}: a file of yours is named by letters, digits, _ and - alone")
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    file = OwnFile(path, hashlib.sha256(text).hexdigest())
    place = hashlib.sha256(str(Path(path).resolve()).encode()).hexdigest()
    name = f"{PREFIX}{file.name}_{place[:8]}_{file.digest[:8]}"
    if name not in sys.modules:
        sys.modules[name] = module = ModuleType(name)
        module.__file__ = path
        try:
            _run(text, module, Path(path))
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            raise ValueError(_line(error, [path]) or f"{path}: {_words(error)}") from error
    return sys.modules[name], file


def _run(text: bytes, module: ModuleType, path: Path) -> None:
    """Run a file as a module; files beside it can be imported, as where Python is given a file."""
    beside = str(path.resolve().parent)
    sys.path.insert(0, beside)
    try:
        exec(compile(text, str(module.__file__), "exec"), module.__dict__)
    finally:
        sys.path.remove(beside)


def found(given: str, near: Path) -> str:
    """Return where the file of a run is: as it was given, or so from a folder above the run."""
    above = (str(folder / given) for folder in near.resolve().parents)
    for path in (given, *above):
        if Path(path).is_file():
            return path
    raise ValueError(
        f"{given}, the study that {near} is a run of, has gone: it is neither there nor beside the "
        "run's folders"
    )


def blamed(error: BaseException) -> str:
    """Return the file, line and words of an error that a file of a user has raised, else ""."""
    files = [str(each.__file__) for name, each in [*sys.modules.items()] if name.startswith(PREFIX)]
    return _line(error, files)


def _line(error: BaseException, files: Iterable[str]) -> str:
    known = set(files)
    places = [(each.filename, each.lineno) for each in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        places.append((error.filename or "", error.lineno))
    mine = [f"{file}, line {line}" for file, line in places if file in known]
    return f"{mine[-1]}: {_words(error)}" if mine else ""


def _words(error: BaseException) -> str:
    """Return what an error says; one that is not meant for readers is called by its type."""
    words = error.msg if isinstance(error, SyntaxError) else str(error)
    kind = "" if isinstance(error, ValueError) and words else type(error).__name__
    return ": ".join(each for each in (kind, words) if each)
