"""A training step as one CUDA graph: small networks wait for launches, and a graph has only one."""

from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from recombine.train import OneStep


class GraphedStep:
    """A step that is recorded once and then replayed, on batches of one shape.

    The first call is taken as it is: it compiles, and makes what the optimizer keeps. The second
    is recorded, and from then on it is replayed. Both on a stream of its own: matrix products keep
    scratch memory for each stream, which graphs that are replayed at the same time must not share.
    """

    def __init__(self, step: OneStep) -> None:
        self.step = step
        self.side: torch.cuda.Stream | None = None
        self.batch: tuple[Tensor, Tensor] | None = None
        self.recorded: tuple[torch.cuda.CUDAGraph, Tensor] | None = None

    def __call__(
        self, image: Shaped[Tensor, " batch *image"], condition: Shaped[Tensor, " batch *condition"]
    ) -> Float[Tensor, "*run"]:
        """Change the weights and return the loss before the change."""
        if self.batch is None:
            self.batch = (image.clone(), condition.clone())
            return self._beside(image, condition)
        for kept, new in zip(self.batch, (image, condition), strict=True):
            kept.copy_(new)
        if self.recorded is None:
            self.recorded = self._record(*self.batch)
        graph, loss = self.recorded
        graph.replay()
        return loss.clone()

    @property
    def generators(self) -> tuple[torch.Generator, ...]:
        """Where the random numbers come from."""
        return self.step.generators

    def set_rate(self, rate: Any) -> None:
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

    def _record(self, image: Tensor, condition: Tensor) -> tuple[torch.cuda.CUDAGraph, Tensor]:
        graph = torch.cuda.CUDAGraph()
        for generator in self.generators:
            graph.register_generator_state(generator)
        with torch.cuda.graph(graph, stream=self.side):
            loss = self.step(image, condition)
        return graph, loss
