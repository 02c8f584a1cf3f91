"""The training loop. There is one, and the caller watches it, saves it and stops it."""

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from math import cos, pi
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.overrides import TorchFunctionMode

Decay: TypeAlias = Callable[[int, int], float]
"""(step, steps) -> share of the learning rate after the warm-up, for step 1 up to steps."""


def constant(step: int, steps: int) -> float:
    """Keep the learning rate."""
    del step, steps
    return 1.0


def cosine(step: int, steps: int) -> float:
    """Fall to zero along half a wave."""
    return (1 + cos(pi * step / steps)) / 2


@runtime_checkable
class Objective(Protocol):
    """What is made small: the loss of a denoiser, or of another model, on a batch."""

    def __call__(
        self, denoiser: Any, image: Any, condition: Any, /, *, generator: torch.Generator
    ) -> Float[Tensor, ""]: ...


_SHAPE_AT = {torch.rand: 0, torch.randn: 0, torch.randint: -1}
"""Where each draw that can be shared is told its shape."""


class Share(TorchFunctionMode):
    """Inside it, a draw from a generator is this process's share of the draw for all processes.

    Process r of n keeps every n-th row, as it does of the scenes. All draw the same numbers, so a
    run does not depend on the number of processes, and no objective has to know of them.
    """

    def __init__(self, process: int, processes: int) -> None:
        super().__init__()
        self.process, self.processes = process, processes

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.processes == 1 or kwargs.get("generator") is None:
            return function(*args, **kwargs)
        if function not in _SHAPE_AT:
            known = ", ".join(each.__name__ for each in _SHAPE_AT)
            raise ValueError(f"processes can share {known}; got {function.__name__}")
        at = _SHAPE_AT[function]
        rows, *others = args if isinstance(args[at], int) else args[at]
        whole = function(*args[:at], (rows * self.processes, *others), **kwargs)
        return whole[self.process :: self.processes]


@dataclass(frozen=True)
class Weights:
    """All that training changes: the network, its optimizer and its moving average."""

    denoiser: nn.Module
    optimizer: torch.optim.Optimizer
    average: AveragedModel

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
        average = AveragedModel(denoiser, multi_avg_fn=get_ema_multi_avg_fn(ema))
        return cls(denoiser, optimizer, average.requires_grad_(False).eval())

    def follow(self) -> None:
        """Move the average towards the weights, without the looks torch's own way takes."""
        average, current = tuple(self.average.parameters()), tuple(self.denoiser.parameters())
        assert self.average.multi_avg_fn is not None
        self.average.multi_avg_fn(average, current, self.average.n_averaged)
        self.average.n_averaged += 1


@dataclass(frozen=True)
class Step:
    """One optimizer step, called with a batch; no number is looked at, so it can be captured.

    `called` is the denoiser as the objective calls it, where that is wrapped (DDP, autocast);
    `share` says which part of the batch this process has, where there are several; `average` is
    the moving average as an objective that learns from it calls it; `view` makes of pictures what
    the denoiser sees: here, so that a graph holds the launches of a tokenizer, too.
    """

    weights: Weights
    objective: Callable[..., Tensor]
    clip: float
    generator: torch.Generator
    called: nn.Module | None = None
    share: Share | None = None
    average: nn.Module | None = None
    view: Callable[[Tensor], Tensor] | None = None

    def __call__(
        self, image: Shaped[Tensor, " batch *image"], condition: Shaped[Tensor, " batch *told"]
    ) -> Float[Tensor, ""]:
        """Change the weights and return the loss before the change."""
        denoiser = self.weights.denoiser if self.called is None else self.called
        besides = {} if self.average is None else {"average": self.average}
        image = image if self.view is None else self.view(image)
        with self.share or nullcontext():
            loss = self.objective(denoiser, image, condition, generator=self.generator, **besides)
        self.weights.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.weights.denoiser.parameters(), self.clip)
        self.weights.optimizer.step()
        self.weights.follow()
        return loss.detach()

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the steps to come."""
        for group in self.weights.optimizer.param_groups:
            group["lr"].fill_(rate)


class Graphed:
    """A step as one CUDA graph: small networks wait for launches, and a graph has only one.

    The first call is taken as it is: it compiles, and makes what the optimizer keeps. The second
    is recorded, and from then on it is replayed on batches of the same shape. Both on a stream of
    its own: matrix products keep scratch memory for each stream, which graphs that are replayed at
    the same time must not share.
    """

    def __init__(self, step: Step) -> None:
        self.step = step
        self.side: torch.cuda.Stream | None = None
        self.batch: tuple[Tensor, Tensor] | None = None
        self.graph: torch.cuda.CUDAGraph | None = None
        self.loss: Tensor | None = None

    def __call__(
        self, image: Shaped[Tensor, " batch *image"], condition: Shaped[Tensor, " batch *told"]
    ) -> Float[Tensor, ""]:
        """Change the weights and return the loss before the change."""
        if self.batch is None:
            self.batch = (image.clone(), condition.clone())
            return self._beside(image, condition)
        for kept, new in zip(self.batch, (image, condition), strict=True):
            kept.copy_(new)
        if self.graph is None:
            self._record(*self.batch)
        assert self.graph is not None
        assert self.loss is not None
        self.graph.replay()
        return self.loss.clone()

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the steps to come."""
        self.step.set_rate(rate)

    def _beside(self, image: Tensor, condition: Tensor) -> Tensor:
        """Take a step on a stream of its own, as a recording needs it to have been."""
        here, self.side = torch.cuda.current_stream(), torch.cuda.Stream()
        self.side.wait_stream(here)
        with torch.cuda.stream(self.side):
            loss = self.step(image, condition)
        here.wait_stream(self.side)
        return loss

    def _record(self, image: Tensor, condition: Tensor) -> None:
        self.graph = torch.cuda.CUDAGraph()
        self.graph.register_generator_state(self.step.generator)
        with torch.cuda.graph(self.graph, stream=self.side):
            self.loss = self.step(image, condition)


@dataclass(frozen=True)
class Taken:
    """What happened in one step; the loss stays on its device until somebody asks."""

    index: int
    loss: Float[Tensor, ""]


def train(
    step: Step | Graphed,
    batches: Iterable[tuple[Tensor, Tensor]],
    rate: Callable[[int], float],
    steps: range,
) -> Iterator[Taken]:
    """Take these steps, counted from 1, one batch of images and conditions each; yield after it."""
    # The range comes first: when it ends, no batch has been taken too many.
    for index, (image, condition) in zip(steps, batches, strict=False):
        step.set_rate(rate(index))
        yield Taken(index, step(image, condition))


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Yield a flag that Ctrl-C and the end of a cluster's lease raise; a second one stops at once.

    Python would stop in the middle of a step, with half of the weights changed.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def note(number: int, frame: Any) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = {each: signal.signal(each, note) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
