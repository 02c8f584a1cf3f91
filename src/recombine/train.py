"""The training loop. There is one, and the caller watches it, saves it and stops it.

It reads from the top: `train` takes steps, `Step` is one of them. What makes it fast stands apart:
graph.py records a step as a CUDA graph, share.py shares its random draws among processes,
stacked.py takes the steps of many small runs as one.
"""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from math import cos, pi
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def train(
    step: "OneStep",
    batches: Iterable[tuple[Tensor, Tensor]],
    rate: Callable[[int], Any],
    steps: range,
) -> Iterator["Taken"]:
    """Take these steps, counted from 1, one batch of images and conditions each; yield after it."""
    # The range comes first: when it ends, no batch has been taken too many.
    for index, (image, condition) in zip(steps, batches, strict=False):
        step.set_rate(rate(index))
        yield Taken(index, step(image, condition))


@dataclass(frozen=True)
class Step:
    """One optimizer step, called with a batch; no number is looked at, so it can be captured.

    `view` makes of images what the denoiser sees: here, so that a graph holds the launches of a
    tokenizer, too. `called` is the denoiser as the objective calls it, where that is wrapped (DDP,
    autocast), and `average` the moving average for objectives with targets from it. `share` keeps
    this process's part of random draws, where there are several processes.
    """

    weights: "Weights"
    objective: Callable[..., Tensor]
    clip: float
    generator: torch.Generator
    called: nn.Module | None = None
    share: AbstractContextManager[Any] | None = None
    average: Callable[..., Any] | None = None
    view: Callable[[Tensor], Tensor] | None = None

    def __call__(
        self, image: Shaped[Tensor, " batch *image"], condition: Shaped[Tensor, " batch *condition"]
    ) -> Float[Tensor, ""]:
        """Change the weights and return the loss before the change."""
        weights = self.weights
        denoiser = weights.denoiser if self.called is None else self.called
        besides = {} if self.average is None else {"average": self.average}
        seen = image if self.view is None else self.view(image)
        with self.share or nullcontext():
            loss = self.objective(denoiser, seen, condition, generator=self.generator, **besides)
        weights.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        weights.descend(self.clip)
        return loss.detach()

    @property
    def generators(self) -> tuple[torch.Generator, ...]:
        """Where the random numbers come from."""
        return (self.generator,)

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the steps to come."""
        for group in self.weights.optimizer.param_groups:
            group["lr"].fill_(rate)


@dataclass(frozen=True)
class Weights:
    """All that training changes: the network, its optimizer and its moving average."""

    denoiser: nn.Module
    optimizer: torch.optim.Optimizer
    average: AveragedModel
    ema: float

    @classmethod
    def of(cls, denoiser: nn.Module, ema: float, weight_decay: float = 0.0) -> "Weights":
        """Return an untrained start; `ema` is the share that the average keeps at each step.

        `weight_decay` times the learning rate is the share that each weight loses at each step.
        """
        device = next(denoiser.parameters()).device
        # A rate in a tensor can change inside a captured graph; the fused optimizer reads it there.
        rate = torch.zeros((), device=device)
        captured = device.type == "cuda"
        optimizer = torch.optim.AdamW(
            denoiser.parameters(),
            lr=rate,
            weight_decay=weight_decay,
            fused=True,
            capturable=captured,
        )
        average = AveragedModel(denoiser).requires_grad_(False).eval()
        return cls(denoiser, optimizer, average, ema)

    def descend(self, clip: float) -> None:
        """Change the weights by their gradients, no longer than `clip`, and then the average."""
        nn.utils.clip_grad_norm_(self.denoiser.parameters(), clip)
        self.optimizer.step()
        self.update_average()

    def update_average(self) -> None:
        """Move the average towards the weights, without torch's own looks at numbers."""
        average, current = tuple(self.average.parameters()), tuple(self.denoiser.parameters())
        get_ema_multi_avg_fn(self.ema)(average, current, self.average.n_averaged)
        self.average.n_averaged += 1


@dataclass(frozen=True)
class Taken:
    """What happened in one step; the loss stays on its device until somebody reads it.

    A stack of runs has a loss for each.
    """

    index: int
    loss: Float[Tensor, "*run"]


@runtime_checkable
class OneStep(Protocol):
    """A `Step`, one of many runs (stacked.py), or either recorded as a graph (graph.py).

    A rate is a number, or a list with one for each run.
    """

    @property
    def generators(self) -> tuple[torch.Generator, ...]: ...

    def __call__(self, image: Tensor, condition: Tensor, /) -> Tensor: ...

    def set_rate(self, rate: Any, /) -> None: ...


Decay: TypeAlias = Callable[[int, int], float]
"""(step, steps) -> share of the learning rate after the warm-up, for step 1 up to steps."""


def constant(step: int, steps: int) -> float:
    """Keep the learning rate."""
    del step, steps
    return 1.0


def cosine(step: int, steps: int) -> float:
    """Fall to zero along half a wave."""
    return (1 + cos(pi * step / steps)) / 2


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Yield a flag that Ctrl-C and the end of a cluster's lease raise; a second one stops at once.

    Python would stop in the middle of a step, with half of the weights changed.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def note(number: int, frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {each: signal.signal(each, note) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
