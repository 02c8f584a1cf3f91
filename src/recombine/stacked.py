"""Many small trainings as one: a step of several runs of one network, batched over the runs.

Each run keeps its own weights, average, optimizer, random numbers, learning rate and clipping, so
its numbers are those it would have alone, up to rounding. Only the forward and the backward pass
are shared: a small network leaves most of a GPU idle, and many of them do not.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode

from recombine.share import SHAPE_AT
from recombine.train import Step


class StackedStep:
    """An optimizer step of several runs, called with a batch of each.

    Their steps differ in weights and random numbers, and may differ in clipping and averaging. From
    now on the weights of a run are a slice of the stack, so that its modules and its optimizer see
    every change. The networks are called as those of the first run are (mixed precision).
    """

    def __init__(self, runs: Sequence[Step], compiled: bool = False) -> None:
        check_alike(runs)
        self.runs, self.first = tuple(runs), runs[0]
        self.own = [list(run.weights.denoiser.parameters()) for run in runs]
        self.parameters = stack([run.weights.denoiser for run in runs])
        self.averages = stack([run.weights.average.module for run in runs])
        self.losses: Callable[..., Tensor] = vmap(self._loss)
        self.compiled = compiled
        self.draws: list[Draw] | None = None

    def __call__(
        self,
        image: Shaped[Tensor, "run batch *image"],
        condition: Shaped[Tensor, "run batch *condition"],
    ) -> Float[Tensor, " run"]:
        """Change the weights of all runs and return their losses before the change."""
        view = self.first.view
        seen = image if view is None else view(image.flatten(0, 1)).unflatten(0, image.shape[:2])
        starts = self.draws is None
        if self.draws is None:
            self.draws = self._noted(seen[0], condition[0])
        drawn = [draw.of_each(self.generators) for draw in self.draws]
        averages = {} if self.first.average is None else self.averages
        given = (self.parameters, averages, seen, condition, drawn)
        if starts and self.compiled:
            self.losses = torch.compile(traced(self.losses, given), dynamic=False)
        losses = self.losses(*given)
        whole = tuple(self.parameters.values())
        for parameter in whole:
            parameter.grad = None
        # A run's loss depends on no other run's weights: the gradient of the sum is that of each.
        losses.sum().backward()
        for index, (run, own) in enumerate(zip(self.runs, self.own, strict=True)):
            for parameter, stacked in zip(own, whole, strict=True):
                parameter.grad = None if stacked.grad is None else stacked.grad[index]
            run.weights.descend(run.clip)
        return losses.detach()

    @property
    def generators(self) -> tuple[torch.Generator, ...]:
        """Where the random numbers of each run come from."""
        return tuple(run.generator for run in self.runs)

    def set_rate(self, rate: Sequence[float]) -> None:
        """Set the learning rate of each run."""
        for run, own in zip(self.runs, rate, strict=True):
            run.set_rate(own)

    def _noted(self, seen: Tensor, condition: Tensor) -> "list[Draw]":
        """Return what the objective draws in a step: the same in every step and every run."""
        generator = torch.Generator(self.first.generator.device)
        besides = {} if self.first.average is None else {"average": self.first.average}
        with Noting() as noting, torch.no_grad():
            called = called_by(self.first)
            self.first.objective(called, seen, condition, generator=generator, **besides)
        return noting.draws

    def _loss(
        self,
        parameters: dict[str, Tensor],
        averages: dict[str, Tensor],
        seen: Tensor,
        condition: Tensor,
        drawn: list[Tensor],
    ) -> Float[Tensor, ""]:
        """Return the loss of one run, of what is drawn for it."""
        first = self.first
        denoiser = with_weights(called_by(first), parameters)
        besides = {}
        if averages:
            assert isinstance(first.average, nn.Module)
            besides = {"average": with_weights(first.average, averages)}
        with Drawn(drawn):
            return first.objective(denoiser, seen, condition, generator=first.generator, **besides)


def traced(losses: Callable[..., Tensor], given: tuple[Any, ...]) -> Callable[..., Tensor]:
    """Return the same as plain tensor operations: the compiler does not see through modes."""
    return make_fx(lambda *those: losses(*those))(*given)


def called_by(step: Step) -> nn.Module:
    """Return the network as the objective calls it."""
    return step.weights.denoiser if step.called is None else step.called


def with_weights(module: nn.Module, weights: dict[str, Tensor]) -> Callable[..., Any]:
    """Return the call of a module with other weights in it."""
    return lambda *arguments: functional_call(module, weights, arguments)


def stack(modules: Sequence[nn.Module]) -> dict[str, Tensor]:
    """Return the parameters of equal modules as one tensor each, and make them slices of it."""
    stacked = {}
    for name, parameter in modules[0].named_parameters():
        own = [module.get_parameter(name) for module in modules]
        whole = torch.stack([each.detach() for each in own])
        for each, part in zip(own, whole, strict=True):
            each.data = part
        stacked[name] = whole.requires_grad_(parameter.requires_grad)
    return stacked


def check_alike(runs: Sequence[Step]) -> None:
    """Raise unless steps differ in nothing but what a stack keeps for each run."""
    first = runs[0]
    for run in runs:
        for name in ("objective", "view"):
            ours, theirs = getattr(first, name), getattr(run, name)
            if ours != theirs:
                raise ValueError(f"stacked runs have one {name}; got {ours} and {theirs}")
        (ours, fixed), (theirs, also_fixed) = (_tensors(each) for each in (first, run))
        for name in sorted(ours.keys() | theirs.keys()):
            if ours.get(name) != theirs.get(name):
                raise ValueError(
                    f"stacked runs have one network; {name} has the shapes "
                    f"{ours.get(name)} and {theirs.get(name)}"
                )
        for name, value in fixed.items():
            if not torch.equal(value, also_fixed[name]):
                raise ValueError(
                    f"stacked runs differ in what they learn only; {name} differs, too"
                )


def _tensors(step: Step) -> tuple[dict[str, tuple[int, ...]], dict[str, Tensor]]:
    """Return the shapes of a network's tensors by name, and those of them that do not learn."""
    network = step.weights.denoiser
    fixed = dict(network.named_buffers())
    every = {**dict(network.named_parameters()), **fixed}
    return {name: tuple(value.shape) for name, value in every.items()}, fixed


class Draw(NamedTuple):
    """A call that draws random numbers, without its generator."""

    function: Callable[..., Tensor]
    arguments: tuple[Any, ...]
    named: dict[str, Any]

    def of_each(self, generators: Sequence[torch.Generator]) -> Shaped[Tensor, " run *drawn"]:
        """Draw from each generator."""
        function, arguments, named = self
        return torch.stack([function(*arguments, **named, generator=each) for each in generators])


class Noting(TorchFunctionMode):
    """Inside it, draws from a generator are written down."""

    def __init__(self) -> None:
        super().__init__()
        self.draws: list[Draw] = []

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        named = {name: value for name, value in (kwargs or {}).items() if name != "generator"}
        if (kwargs or {}).get("generator") is not None:
            if function not in SHAPE_AT:
                known = ", ".join(each.__name__ for each in SHAPE_AT)
                raise ValueError(f"stacked runs can draw by {known}; got {function.__name__}")
            self.draws.append(Draw(function, args, named))
        return function(*args, **(kwargs or {}))


class Drawn(TorchFunctionMode):
    """Inside it, draws from a generator are those that were made before, one after another.

    Attention is spelled out: the fused one has no batched form on every device.
    """

    def __init__(self, drawn: Sequence[Tensor]) -> None:
        super().__init__()
        self.left = list(drawn)

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        named = kwargs or {}
        if function is F.scaled_dot_product_attention:
            return attention(*args, **named)
        if named.get("generator") is not None:
            return self.left.pop(0)
        return function(*args, **named)


def attention(
    query: Float[Tensor, "*some token width"],
    key: Float[Tensor, "*some thing width"],
    value: Float[Tensor, "*some thing width"],
    attn_mask: Bool[Tensor, "..."] | None = None,
) -> Float[Tensor, "*some token width"]:
    """Return what `scaled_dot_product_attention` does, by plain products."""
    fit = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    if attn_mask is not None:
        fit = fit.masked_fill(~attn_mask, -torch.inf)
    return fit.softmax(-1).to(value.dtype) @ value
