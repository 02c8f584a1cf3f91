"""Endless seeded streams of batches: pictures of a world we make, or of files on disk.

Every scene has a number, and a batch is a stretch of numbers. So a stream has no state but the
number of steps taken, and any process can make its own share by itself.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recombine import spelling
from recombine.draw import shuffled
from recombine.scene import Concepts, Factor, Scenes, World


@runtime_checkable
class Files(Protocol):
    """Pictures on disk with what is known of them, addressed by number; declared as a value.

    Nothing is read before it is needed. The repr names the data but not the folder, so that a
    run can be resumed where the files lie elsewhere.
    """

    @property
    def name(self) -> str: ...

    @property
    def factors(self) -> tuple[Factor, ...]: ...

    @property
    def size(self) -> int:
        """Side of an image in pixels."""

    def __len__(self) -> int:
        """Return how many pictures there are; files may be read for it."""

    def scenes_of(self, number: Int[Tensor, " batch"]) -> Scenes:
        """Return what is known of these pictures, on the device of the numbers."""

    def image_of(self, number: Int[Tensor, " batch"]) -> Float[Tensor, "batch 3 height width"]:
        """Return these pictures, sRGB in [0, 1], on the device of the numbers."""


@runtime_checkable
class LabelledFiles(Files, Protocol):
    """Files of one object each, some of which are for testing: what a reader is measured on.

    They are a dataclass, so that `replace(files, part="test", among=...)` has the others.
    """

    @property
    def part(self) -> str:
        """Which files: "train" or "test"."""

    @property
    def among(self) -> tuple[Concepts, ...]:
        """Of which compositions; empty: of all."""

    def __hash__(self) -> int: ...


Source: TypeAlias = World | Files


@dataclass(frozen=True)
class Batch:
    """Pictures, what they are of, and their scene numbers in the stream."""

    image: Float[Tensor, "batch 3 height width"]
    scenes: Scenes
    index: Int[Tensor, " batch"]

    def __len__(self) -> int:
        return len(self.index)


@dataclass
class Stream:
    """Batches without end, made on `device`; process r of n takes every n-th scene.

    `ahead` batches are made at once: a GPU makes many scenes in little more time than a few, and
    does so beside the training steps that wait in its queue. Which scenes come does not change.
    """

    source: Source
    batch: int
    seed: int
    device: torch.device | str = "cpu"
    process: int = 0
    processes: int = 1
    step: int = 0
    ahead: int = 1
    ready: list[Batch] = field(default_factory=list, init=False, repr=False, compare=False)
    side: torch.cuda.Stream | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"a batch holds at least 1 scene; got {self.batch}")
        if not 0 <= self.process < self.processes:
            raise ValueError(f"process {self.process} is not one of {self.processes}, from 0 up")

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if not self.ready:
            self.ready = self._made()
        self.step += 1
        return self.ready.pop(0)

    def _made(self) -> list[Batch]:
        """Return the next batches, made in one go."""
        device = torch.device(self.device)
        if device.type == "cuda" and self.side is None:
            # One for all time: memory freed on one is not used again on another.
            self.side = torch.cuda.Stream(device)
        made = self._made_here() if self.side is None else beside(self.side, self._made_here)
        parts = (slice(at, at + self.batch) for at in range(0, len(made), self.batch))
        return [Batch(made.image[p], made.scenes[p], made.index[p]) for p in parts]

    def _made_here(self) -> Batch:
        steps = self.step + torch.arange(self.ahead, device=self.device)
        index = torch.arange(self.batch, device=self.device) * self.processes + self.process
        index = (steps[:, None] * self.batch * self.processes + index).flatten()
        return batch_of(self.source, index, self.seed)

    def state(self) -> dict[str, str | int]:
        """Return where the stream stands, the same for every process, ready for JSON."""
        return {**self._identity, "step": self.step}

    def resumed(self, state: Mapping[str, Any]) -> "Stream":
        """Return this stream from where another one of the same scenes stood."""
        for key, ours in self._identity.items():
            if state[key] != ours:
                raise ValueError(f"the saved stream has {key} {state[key]}, this one {ours}")
        return replace(self, step=state["step"])

    @property
    def _identity(self) -> dict[str, str | int]:
        pictures = f" of {len(self.source)} images" if isinstance(self.source, Files) else ""
        return {
            "source": f"{spelling.whole(self.source)}{pictures}",
            "seed": self.seed,
            "scenes_per_step": self.batch * self.processes,
        }


def beside(side: torch.cuda.Stream, make: Callable[[], Batch]) -> Batch:
    """Make a batch while a GPU works through its queue.

    Nothing that was given before may be read: it need not be there yet.
    """
    here = torch.cuda.current_stream(side.device)
    with torch.cuda.stream(side):
        made = make()
    here.wait_stream(side)
    # Memory made on the side is not given away again before it was used here.
    scenes = (getattr(made.scenes, each.name) for each in fields(made.scenes))
    for value in (made.image, made.index, *scenes):
        value.record_stream(here)
    return made


def batch_of(source: Source, index: Int[Tensor, " batch"], seed: int) -> Batch:
    """Return the pictures of these scene numbers, on the device of the numbers."""
    if isinstance(source, Files):
        number = shuffled(index, seed, len(source))
        return Batch(source.image_of(number), source.scenes_of(number), index)
    scenes = source.scenes(index, seed)
    return Batch(source.image(scenes), scenes, index)
