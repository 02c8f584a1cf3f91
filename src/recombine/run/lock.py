"""One process at a time writes into the folder of a run."""

import fcntl
import os
from pathlib import Path
from typing import IO

NAME = ".lock"


class Locked(ValueError):
    """Another process has the folder."""


class Lock:
    """A lock on a folder that the operating system lets go of when its process ends, however.

    It is `flock` on a file in the folder: nothing is left behind that somebody has to remove.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file: IO[str] | None = None

    def take(self) -> None:
        """Take the lock, or say which process has it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = (self.folder / NAME).open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            file.close()
            raise Locked(
                f"{self.folder} is in use by another process (number {holder}): wait for it, or "
                "choose another --out"
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        self.file = file

    def release(self) -> None:
        """Let the lock go."""
        if self.file is not None:
            self.file.close()
            self.file = None
