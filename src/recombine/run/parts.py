"""Parts of a measurement in a folder: what was stopped goes on from there.

A part is a batch of samples, or the influences at one noise level. It lies under the fingerprint of
the tensors that it was made of, so that the same command finds it, and another one does not.
"""

import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from recombine.checkpoint import digest_of
from recombine.report.files import write_bytes
from recombine.sample.heun import Made


@dataclass(frozen=True)
class Parts:
    """Keeps what is made in a folder that belongs to one measurement of one model."""

    folder: Path

    def __call__(self, of: Sequence[Tensor], work: Callable[[], Made]) -> Made:
        """Return what the work makes, from the folder if it has been made before."""
        digest = digest_of({str(number): each.cpu() for number, each in enumerate(of)}).hex()
        path = self.folder / f"{digest}.safetensors"
        if path.exists():
            try:
                made = load(path.read_bytes())
            except SafetensorError as error:
                raise ValueError(f"{path} is not whole: {error}; remove it to go on") from error
        else:
            made = {name: each.cpu().contiguous() for name, each in work().items()}
            self.folder.mkdir(parents=True, exist_ok=True)
            write_bytes(path, save(made))
        # In an order of its own: a file does not keep that of the work.
        return {name: made[name].to(of[0].device) for name in sorted(made)}

    @property
    def count(self) -> int:
        """How many parts are kept."""
        return len([*self.folder.glob("*.safetensors")])

    def forget(self) -> None:
        """Remove the parts, and folders that are empty then."""
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.folder.parent.is_dir() and not any(self.folder.parent.iterdir()):
            self.folder.parent.rmdir()


@contextmanager
def stoppable() -> Iterator[None]:
    """Let what ends a process in a cluster stop the work as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
