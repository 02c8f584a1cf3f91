"""Files and folders that are either whole or not there."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def _partial(path: Path) -> Path:
    """Return a hidden name beside `path`: on the same disk, so that a rename is one step."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file that readers, and a crash at any moment, see either whole or as it was."""
    partial = _partial(path)
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_bytes(path, text.encode())


def refuse_occupied(folder: Path) -> None:
    """Say so when a folder of this name cannot be made without touching what is there."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; expected the name of a new or empty folder")
    if folder.is_dir() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty; expected the name of a new or empty folder")
    if folder.resolve() == Path.cwd():
        raise ValueError(f"{folder} is the folder you are in; expected the name of a new one")


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a hidden folder that takes the name `folder` at the end, or vanishes on an error."""
    refuse_occupied(folder)
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial(folder)
    try:
        partial.mkdir()
        yield partial
        if folder.exists():
            folder.rmdir()
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put the name of the file before what is wrong with it."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
