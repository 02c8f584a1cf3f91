"""Which neurons make a composition, and do compositions share them?

The definitions behind the paper's figures (Farid et al. 2025) are not known, so these are ours and
compare with none of its numbers: exploratory, and `DEFINITION` is printed beside the numbers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
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
DEFINITION = (
    "The influence of a neuron on an input is the mean over tokens of |gradient of the input's "
    "target x (activation - its mean over all inputs at that token)|; on a composition, the mean "
    "over its inputs. The most influential neurons are a share of each layer (5 % unless said "
    "otherwise, at least one) without those of no influence. Overlap: Jaccard index of the most "
    "influential neurons of two compositions. Polysemanticity: of neurons most influential for "
    "some composition, the share whose compositions have no concept in common but those of all."
)
"""What the numbers mean, to be printed beside them."""


@dataclass(frozen=True)
class InputOf:
    """What goes into a layer, for neurons that a function makes: heads before they are mixed."""

    layer: nn.Module


Layers: TypeAlias = Mapping[str, nn.Module | InputOf]
"""By name; what comes out, or goes in, has the shape (batch, token, width) or (batch, width)."""
Model: TypeAlias = Callable[..., object]
Inputs: TypeAlias = tuple[Tensor, ...]
Target: TypeAlias = Callable[..., Tensor]
"""(answer to inputs, *inputs) -> a number for each, whatever others are in the batch."""
Influence: TypeAlias = Mapping[str, Float[Tensor, " _neuron"]]
Rows: TypeAlias = Mapping[str, Float[Tensor, "_input _neuron"]]
"""By layer, the influence of each neuron on each input."""
Neuron: TypeAlias = tuple[str, int]
Change: TypeAlias = Callable[[str, Tensor], Tensor]


def influence(model: Model, layers: Layers, inputs: Inputs, target: Target) -> Influence:
    """Return the mean over inputs of `Attribution.influences`."""
    rows = Attribution(model, layers, inputs, target).influences()
    return {name: each.mean(dim=0) for name, each in rows.items()}


def patched_influence(model: Model, layers: Layers, inputs: Inputs, target: Target) -> Influence:
    """Return the mean over inputs of `Attribution.patched_influences`."""
    rows = Attribution(model, layers, inputs, target).patched_influences()
    return {name: each.mean(dim=0) for name, each in rows.items()}


@dataclass(frozen=True)
class Attribution:
    """A model and its inputs, so many at once; memory grows with that."""

    model: Model
    layers: Layers
    inputs: Inputs
    target: Target
    at_once: int = 64

    def __post_init__(self) -> None:
        sizes = [len(each) for each in self.inputs]
        if len(set(sizes)) != 1 or sizes[0] < 2 or self.at_once < 1:
            raise ValueError(f"expected 2 inputs or more, 1 at once; got {sizes}, {self.at_once}")

    def influences(self) -> Rows:
        """Return the mean over tokens of |gradient x (activation - its mean over all inputs)|."""
        with torch.inference_mode(False):
            means = self._activations()
            parts = [self._attributed(part, means) for part in self._parts()]
        return {name: torch.cat([part[name] for part in parts]) for name in self.layers}

    def patched_influences(self) -> Rows:
        """Return the mean over tokens of how far the target moves if a neuron is set to its mean.

        One neuron at one token at a time, each a pass over all inputs. To first order, and so
        exactly where the target is linear in every single neuron, this is `influences`.
        """
        means, found = self._activations(), {}
        whole = self._targets(lambda _, activation: activation)
        for name, mean in means.items():
            changes = [partial(_patched, (name, place), mean) for place in range(mean.numel())]
            moved = [self._targets(change) - whole for change in changes]
            found[name] = _over_tokens(torch.stack(moved, dim=1).unflatten(1, mean.shape).abs())
        return found

    def _parts(self) -> Iterator[Inputs]:
        for rows in torch.arange(len(self.inputs[0])).split(self.at_once):
            yield tuple(each[rows.to(each.device)] for each in self.inputs)

    def _target(self, part: Inputs, change: Change) -> Tensor:
        with _changed(self.layers, change):
            answer = self.model(*part)
        found = self.target(answer, *part)
        if found.shape != part[0].shape[:1] or not found.isfinite().all():
            raise ValueError(f"a target is a finite number for each input; got {found}")
        return found

    @torch.no_grad()
    def _targets(self, change: Change) -> Tensor:
        return torch.cat([self._target(part, change) for part in self._parts()])

    def _activations(self) -> dict[str, Tensor]:
        """Return the mean activations; of a neuron that never changes, exactly what it is."""
        first: dict[str, Tensor] = {}
        away: dict[str, Tensor] = {}

        def add(name: str, activation: Tensor) -> Tensor:
            start = first.setdefault(name, activation[0].clone())
            away[name] = away.get(name, 0) + (activation - start).sum(dim=0)
            return activation

        n = len(self._targets(add))
        return {name: first[name] + away[name] / n for name in self.layers}

    def _attributed(self, part: Inputs, means: Mapping[str, Tensor]) -> dict[str, Tensor]:
        away: dict[str, Tensor] = {}
        nudges: dict[str, Tensor] = {}

        def nudged(name: str, activation: Tensor) -> Tensor:
            away[name] = activation.detach() - means[name]
            # Adding zeros gives a gradient whether or not weights or inputs need one.
            nudges[name] = torch.zeros_like(activation, requires_grad=True)
            return activation + nudges[name]

        with torch.enable_grad():
            total = self._target(part, nudged).sum()
        if not total.requires_grad:
            raise ValueError(f"no gradient of the target reaches any of {list(nudges)}")
        found = torch.autograd.grad(total, list(nudges.values()), materialize_grads=True)
        products = {name: each * away[name] for name, each in zip(nudges, found, strict=True)}
        return {name: _over_tokens(each.abs()) for name, each in products.items()}


def by_head(influence: Mapping[str, Tensor], heads: int) -> dict[str, Tensor]:
    """Return the sum over each head's channels, which lie side by side on the last axis."""
    for name, each in influence.items():
        if heads < 1 or each.shape[-1] % heads:
            raise ValueError(f"the {each.shape[-1]} neurons of {name} are not {heads} equal heads")
    return {name: each.unflatten(-1, (heads, -1)).sum(dim=-1) for name, each in influence.items()}


def by_composition(rows: Rows, compositions: Sequence[Concepts]) -> dict[Concepts, Rows]:
    """Return the rows of each composition, given which one every input is of."""
    if (sizes := {len(each) for each in rows.values()}) != {len(compositions)}:
        raise ValueError(f"expected a composition for each of {sizes}; got {len(compositions)}")
    found: dict[Concepts, Rows] = {}
    for which in compositions:
        mine = [place for place, each in enumerate(compositions) if each == which]
        found[which] = {name: each[mine] for name, each in rows.items()}
    return found


def most(influence: Influence, share: float = SHARE) -> set[Neuron]:
    """Return the most influential neurons of each layer; of equal ones, the first."""
    tops = {name: _top(each, share).nonzero().flatten() for name, each in influence.items()}
    return {(name, neuron) for name, top in tops.items() for neuron in top.tolist()}


def jaccard(a: Set[Neuron], b: Set[Neuron]) -> float:
    """Return how many neurons are in both sets, of those in either; 0 if there are none."""
    return len(a & b) / max(len(a | b), 1)


def overlaps(
    by: Mapping[Concepts, Rows], generator: torch.Generator, share: float = SHARE
) -> dict[tuple[Concepts, Concepts], Measurement]:
    """Return for each pair of compositions how far their most influential neurons are the same.

    The interval is of the bootstrap over inputs, n the inputs of both; the mean activations stay.
    Draws blur a ranking and mostly lower an overlap: an interval without the value is widened.
    """
    tops, sizes = _tops(by, generator, share)
    pairs = combinations(zip(by, torch.cat(list(tops.values()), dim=-1), sizes, strict=True), 2)
    return {(a, b): _measured(x & y, x | y, n + m) for (a, x, n), (b, y, m) in pairs}


def polysemanticity(
    by: Mapping[Concepts, Rows], generator: torch.Generator, share: float = SHARE
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
    by: Mapping[Concepts, Rows], generator: torch.Generator, share: float
) -> tuple[dict[str, Bool[Tensor, "_composition _draw _neuron"]], list[int]]:
    """Return who is most influential, first as it is, then with inputs drawn anew; and their n."""
    sizes = _checked_sizes(by)
    means: dict[str, list[Tensor]] = {name: [] for name in next(iter(by.values()))}
    for n, rows in zip(sizes, by.values(), strict=True):
        picks = torch.randint(n, (DRAWS, n), generator=generator, device=generator.device)
        times = torch.zeros_like(picks).scatter_add(1, picks, torch.ones_like(picks))
        for name, each in rows.items():
            means[name].append(torch.cat([each.mean(0)[None], times.to(each) @ each / n]))
    return {name: _top(torch.stack(each), share) for name, each in means.items()}, sizes


def _top(each: Float[Tensor, "*draw neuron"], share: float) -> Bool[Tensor, "*draw neuron"]:
    if not 0 < share <= 1:
        raise ValueError(f"a share of neurons is above 0 and at most 1; got {share}")
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


def _over_tokens(each: Tensor) -> Tensor:
    return each.mean(dim=1) if each.dim() == 3 else each


def _patched(at: Neuron, mean: Tensor, name: str, activation: Tensor) -> Tensor:
    """Set one number of one layer, counted over tokens and neurons, to its mean."""
    whole = activation.flatten(1).clone()
    if name == at[0]:
        whole[:, at[1]] = mean.flatten()[at[1]]
    return whole.view_as(activation)


@contextmanager
def _changed(layers: Layers, change: Change) -> Iterator[None]:
    """Replace what comes out of layers; every one of them has to run, and once."""
    ran: list[str] = []

    def replaced(name: str, _: nn.Module, args: tuple, *output: object) -> object:
        old = (output or args or (None,))[0]
        if not isinstance(old, Tensor) or old.dim() not in (2, 3):
            what = getattr(old, "shape", type(old).__name__)
            raise ValueError(f"layer {name} is (batch, token, width) or (batch, width); got {what}")
        ran.append(name)
        return change(name, old) if output else (change(name, old), *args[1:])

    with ExitStack() as hooks:
        for name, layer in layers.items():
            swap = partial(replaced, name)
            if isinstance(layer, InputOf):
                hooks.enter_context(layer.layer.register_forward_pre_hook(swap))
            else:
                hooks.enter_context(layer.register_forward_hook(swap))
        yield
    if not ran or sorted(ran) != sorted(layers):
        raise ValueError(f"each layer, 1 or more, runs once in a pass; {ran} of {list(layers)} ran")


def _checked_sizes(by: Mapping[Concepts, Rows]) -> list[int]:
    if len(by) < 2 or len({len(which) for which in by}) != 1:
        raise ValueError(f"2 compositions or more, of the same factors, compare; got {list(by)}")
    shapes = [{name: tuple(each.shape) for name, each in rows.items()} for rows in by.values()]
    sizes = [{n for n, _ in each.values()} for each in shapes]
    widths = [{name: width for name, (_, width) in each.items()} for each in shapes]
    if any(len(n) != 1 or max(n) < 2 for n in sizes) or any(each != widths[0] for each in widths):
        raise ValueError(f"expected 2 inputs or more, and the same neurons; got {shapes}")
    return [max(n) for n in sizes]
