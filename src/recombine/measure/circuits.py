"""Which neurons make a composition, and do compositions share them?

The definitions behind the paper's figures (Farid et al. 2025) are not known, so these are ours and
compare with none of its numbers. The influence of a neuron on an input is the mean over tokens of
|gradient of the input's target x (activation - its mean over all inputs at that token)|; on a
composition, the mean over its inputs. The most influential neurons are a share of each layer, at
least one, without those of no influence. Overlap: Jaccard index of the most influential neurons of
two compositions. Polysemanticity: of neurons most influential for some composition, the share whose
compositions have no concept in common but those of all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import combinations
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from recombine.measurement import Measurement
from recombine.scene import Concepts

SHARE = 0.05
"""The most influential neurons are this share of each layer."""
DRAWS = 1000
"""How often inputs are drawn anew for an interval."""
AT_ONCE = 64
"""Inputs that go through a model at a time by default; memory grows with it."""

NamedLayers: TypeAlias = Mapping[str, nn.Module]
"""By name; neurons are what goes into a layer, (batch, token, width) or (batch, width)."""
Inputs: TypeAlias = tuple[Tensor, ...]
Target: TypeAlias = Callable[..., Tensor]
"""(answer to inputs, *inputs) -> a number for each, whatever others are in the batch."""
Neurons: TypeAlias = Mapping[str, Float[Tensor, "_input _neuron"]]
"""By layer, the influence of each neuron on each input."""


def influences(
    model: Callable[..., object],
    layers: NamedLayers,
    inputs: Inputs,
    target: Target,
    at_once: int = AT_ONCE,
) -> Neurons:
    """Return the mean over tokens of |gradient x (activation - its mean over all inputs)|."""
    numbers = torch.arange(len(inputs[0])).split(at_once)
    with torch.inference_mode(False):
        parts = [tuple(each[rows.to(each.device)] for each in inputs) for rows in numbers]
        means = mean_activations(model, layers, parts)
        found = [_attributed(model, layers, part, target, means) for part in parts]
    return {name: torch.cat([each[name] for each in found]) for name in layers}


@torch.no_grad()
def mean_activations(
    model: Callable[..., object], layers: NamedLayers, parts: Sequence[Inputs]
) -> dict[str, Tensor]:
    """Return the mean activations; of a neuron that never changes, exactly what it is."""
    first: dict[str, Tensor] = {}
    away: dict[str, Tensor] = {}

    def add(name: str, activation: Tensor) -> Tensor:
        start = first.setdefault(name, activation[0].clone())
        away[name] = away.get(name, 0) + (activation - start).sum(dim=0)
        return activation

    for part in parts:
        with changed(layers, add):
            model(*part)
    n = sum(len(part[0]) for part in parts)
    return {name: first[name] + away[name] / n for name in layers}


def _attributed(
    model: Callable[..., object],
    layers: NamedLayers,
    part: Inputs,
    target: Target,
    means: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    away: dict[str, Tensor] = {}
    nudges: dict[str, Tensor] = {}

    def nudged(name: str, activation: Tensor) -> Tensor:
        away[name] = activation.detach() - means[name]
        # Adding zeros gives a gradient whether or not weights or inputs need one.
        nudges[name] = torch.zeros_like(activation, requires_grad=True)
        return activation + nudges[name]

    with torch.enable_grad(), changed(layers, nudged):
        total = target(model(*part), *part).sum()
    found = torch.autograd.grad(total, list(nudges.values()), materialize_grads=True)
    products = {name: (each * away[name]).abs() for name, each in zip(nudges, found, strict=True)}
    return {name: each.mean(dim=1) if each.dim() == 3 else each for name, each in products.items()}


@contextmanager
def changed(layers: NamedLayers, change: Callable[[str, Tensor], Tensor]) -> Iterator[None]:
    """Replace what goes into layers; every one of them has to run, and once."""
    ran: list[str] = []

    def replaced(name: str, _: nn.Module, args: tuple) -> object:
        ran.append(name)
        return change(name, args[0]), *args[1:]

    with ExitStack() as hooks:
        for name, layer in layers.items():
            hooks.enter_context(layer.register_forward_pre_hook(partial(replaced, name)))
        yield
    if sorted(ran) != sorted(layers):
        raise ValueError(f"each layer runs once in a pass; {ran} of {list(layers)} ran")


def by_head(influence: Mapping[str, Tensor], heads: int) -> dict[str, Tensor]:
    """Return the sum over each head's channels, which lie side by side on the last axis."""
    return {name: each.unflatten(-1, (heads, -1)).sum(dim=-1) for name, each in influence.items()}


def by_composition(rows: Neurons, compositions: Sequence[Concepts]) -> dict[Concepts, Neurons]:
    """Return the rows of each composition, given which one every input is of."""
    found: dict[Concepts, Neurons] = {}
    for which in compositions:
        mine = [place for place, each in enumerate(compositions) if each == which]
        found[which] = {name: each[mine] for name, each in rows.items()}
    return found


def overlaps(
    by: Mapping[Concepts, Neurons], generator: torch.Generator, share: float = SHARE
) -> dict[tuple[Concepts, Concepts], Measurement]:
    """Return for each pair of compositions how far their most influential neurons are the same.

    The interval is of the bootstrap over inputs, n the inputs of both; the mean activations stay.
    Draws blur a ranking and mostly lower an overlap: an interval without the value is widened.
    """
    tops, sizes = _tops(by, generator, share)
    pairs = combinations(zip(by, torch.cat(list(tops.values()), dim=-1), sizes, strict=True), 2)
    return {(a, b): _measured(x & y, x | y, n + m) for (a, x, n), (b, y, m) in pairs}


def polysemanticity(
    by: Mapping[Concepts, Neurons], generator: torch.Generator, share: float = SHARE
) -> dict[str, Measurement]:
    """Return for each layer the share of serving neurons that serve no single concept.

    A neuron serves the compositions it is among the most influential for. It is polysemantic if
    they have no concept in common; one of all compositions does not count. Intervals as above.
    """
    (tops, sizes), found = _tops(by, generator, share), {}
    for name, serving in tops.items():
        some = several = serving.any(dim=0)
        for concepts in zip(*by, strict=True):
            for concept in set(concepts) if len(set(concepts)) > 1 else ():
                others = [place for place, each in enumerate(concepts) if each != concept]
                several = several & serving[others].any(dim=0)
        found[name] = _measured(several, some, sum(sizes))
    return found


def _tops(
    by: Mapping[Concepts, Neurons], generator: torch.Generator, share: float
) -> tuple[dict[str, Bool[Tensor, "_composition _draw _neuron"]], list[int]]:
    """Return who is most influential, first as it is, then with inputs drawn anew; and their n."""
    sizes = [len(next(iter(rows.values()))) for rows in by.values()]
    means: dict[str, list[Tensor]] = {name: [] for name in next(iter(by.values()))}
    for n, rows in zip(sizes, by.values(), strict=True):
        picks = torch.randint(n, (DRAWS, n), generator=generator, device=generator.device)
        times = torch.zeros_like(picks).scatter_add(1, picks, torch.ones_like(picks))
        for name, each in rows.items():
            means[name].append(torch.cat([each.mean(0)[None], times.to(each) @ each / n]))
    return {name: _top(torch.stack(each), share) for name, each in means.items()}, sizes


def _top(each: Float[Tensor, "*draw neuron"], share: float) -> Bool[Tensor, "*draw neuron"]:
    if not each.isfinite().all():
        raise ValueError("an influence is a finite number; got NaN or infinity")
    count = max(1, round(share * each.shape[-1]))
    first = each.argsort(dim=-1, descending=True, stable=True)[..., :count]
    # Dead neurons would fill up by their index, and so be shared by all compositions.
    return torch.zeros_like(each, dtype=torch.bool).scatter(-1, first, True) & (each > 0)


def _measured(some: Tensor, of: Tensor, n: int) -> Measurement:
    """Return the share as it is, with the interval of what is drawn."""
    shares = some.sum(dim=-1).double() / of.sum(dim=-1).clamp(min=1)
    ends = shares[1:].quantile(shares.new_tensor([0.025, 0.975])).tolist()
    return Measurement(value := shares[0].item(), min(value, *ends), max(value, *ends), n=n)
