"""Which neurons, tokens and factors make the answers of masked models of Shapes2D?

    recombine measure zoo:maskgit_jepa --what circuits
    recombine measure zoo:maskgit_jepa --what token_locality

Exploratory: what the numbers mean is declared in measure/circuits.py and measure/token_locality.py.
Looked at are fresh renders as the model sees them, half of their tokens hidden, with every factor
told.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from recombine.experiment import Experiment, Findings, Trained
from recombine.measure.circuits import (
    DEFINITION,
    Asked,
    Into,
    Rows,
    by_composition,
    by_head,
    overlaps,
    polysemanticity,
)
from recombine.measure.token_locality import (
    even_influence,
    factor_interaction,
    over_images,
    token_influence,
    token_locality,
)
from recombine.measurement import Measurement, averaged
from recombine.models.masked import Masked, MaskedModule, Predicted
from recombine.objectives.jepa import JepaModule
from recombine.scene import Concepts, Factor, Scenes, concatenate
from recombine.split import Split
from recombine.worlds.shapes2d import BINARY, Shapes2D

RENDERED = 10_061
"""The seed of the scenes; no training has it."""
LOOKED_AT = (
    "Neurons are those between the two layers that think, heads those of attention before they "
    "are mixed. The target is how well an image's hidden tokens are predicted: the mean over them "
    "of the log-likelihood, or of minus the weighed error of a diffusion head, less the squared "
    "error of points where it teaches them. Means over inputs are over those with the same tokens "
    "hidden."
)
"""What `DEFINITION` leaves open, to be printed beside it."""
NEURONS, HEADS = "polysemantic@layer", "polysemantic_heads@layer"


@dataclass(frozen=True)
class Circuits:
    """Ask which neurons and heads serve which compositions, by so many `samples` of each.

    The samples are hidden by at most so many `masks` in turn. `layers` are looked at; empty: all.
    """

    split: Split = BINARY
    samples: int = 32
    seed: int = RENDERED
    masks: int = 4
    layers: tuple[int, ...] = ()

    what: ClassVar[str] = "circuits"

    def __post_init__(self) -> None:
        if self.samples < 2 or self.masks < 1:
            raise ValueError(
                "circuits are asked for 2 samples or more of a composition, and 1 mask or more; "
                f"got {self.samples} and {self.masks}"
            )

    def __call__(self, trained: Trained, generator: torch.Generator) -> Findings:
        """Render, hide, follow gradients and compare compositions."""
        heads = checked(trained.experiment, self.split).heads
        rows, which = self._influences(trained, generator)
        rows |= by_head({name: each for name, each in rows.items() if HEADS in name}, heads)
        loud = {name: each for name, each in rows.items() if each.any()}
        why = "no neuron has any influence on the answer"
        undefined = {name: why for name in rows if name not in loud}
        found = dict(polysemanticity(by_composition(loud, which), generator)) if loud else {}
        neurons = {name: each for name, each in loud.items() if NEURONS in name}
        if not neurons:
            return Findings(found, _said(undefined | {"jaccard": why}))
        pairs = overlaps(by_composition(neurons, which), generator)
        found |= apart(pairs, self.samples)
        listed = [["-".join(a), "-".join(b), m.value, m.low, m.high] for (a, b), m in pairs.items()]
        said: dict[str, list[Any]] = {"circuits": [DEFINITION, LOOKED_AT], "jaccard_pairs": listed}
        return Findings(found, said | _said(undefined))

    def _influences(
        self, trained: Trained, generator: torch.Generator
    ) -> tuple[dict[str, Tensor], list[Concepts]]:
        """Return the influence of neurons on every input, and the composition of each."""
        tokens, told = rendered(trained, self.split.compositions, self.samples, self.seed)
        learned_by: Any = trained.experiment.objective
        noisy = learned_by.noisy_tokens(tokens, generator)
        turns = min(self.masks, self.samples)
        masks = half_hidden(turns, tokens.shape[-1], generator).to(tokens.device)
        # Sample by sample, so that each mask hides as many of every composition.
        numbers = torch.arange(len(tokens), device=tokens.device).view(-1, self.samples)
        layers = looked_at(trained, self.layers)
        parts: list[Rows] = []
        asked: list[int] = []
        for turn, mask in enumerate(masks):
            mine = numbers[:, turn::turns].flatten()
            hidden = mask.expand(len(mine), *mask.shape)
            inputs = (tokens[mine], hidden, told[mine], *(each[mine] for each in noisy))
            target = partial(closeness, learned_by)
            parts.append(Asked(trained.precise, layers, inputs, target).influences())
            asked += mine.tolist()
        rows = {name: torch.cat([part[name] for part in parts]) for name in layers}
        return rows, [self.split.compositions[each // self.samples] for each in asked]

    def tiny(self) -> "Circuits":
        """Return the same question about one layer, by two samples and one mask."""
        return replace(self, samples=2, masks=1, layers=(0,))


@dataclass(frozen=True)
class TokenLocality:
    """Ask from how far away answers are moved by tokens, and whether factors act by themselves.

    Of each composition, so many `samples` are looked at. A token is changed to that of an image
    drawn from all of them; a factor is told to have its next value. Beside locality stands what it
    is if all changed tokens are heard alike (`even`).
    """

    split: Split = BINARY
    samples: int = 32
    seed: int = RENDERED
    radius: int = 1

    what: ClassVar[str] = "token_locality"

    def __post_init__(self) -> None:
        if self.samples < 1 or self.radius < 1:
            raise ValueError(
                f"token locality is asked for 1 sample or more, and a radius of 1 or more; "
                f"got {self.samples} and {self.radius}"
            )

    def __call__(self, trained: Trained, generator: torch.Generator) -> Findings:
        """Render, hide, change tokens and factors, and see what moves."""
        checked(trained.experiment, self.split)
        tokens, told = rendered(trained, self.split.compositions, self.samples, self.seed)
        hidden = half_hidden(len(tokens), tokens.shape[-1], generator).to(tokens.device)
        other = tokens[in_a_round(len(tokens), generator).to(tokens.device)]
        asked = (tokens, hidden, told)
        influence = token_influence(trained.precise, *asked, other)
        even = even_influence(tokens, hidden, other)
        interaction = self._interactions(trained, asked)
        found: dict[str, Measurement | None] = {}
        for level in self.split.levels:
            mine = self._of(level, tokens.device)
            found[f"token_locality@level{level}"] = token_locality(influence[mine], self.radius)
            found[f"token_locality_even@level{level}"] = token_locality(even[mine], self.radius)
            found[f"factor_interaction@level{level}"] = over_images(interaction[mine])
        why = "no answer moves as what is asked about changes"
        undefined = {name: why for name, each in found.items() if each is None}
        return Findings({name: m for name, m in found.items() if m is not None}, _said(undefined))

    def _interactions(
        self, trained: Trained, asked: tuple[Tensor, Tensor, Tensor]
    ) -> Float[Tensor, " batch"]:
        """Return the mean over pairs of factors of how far they do not act by themselves."""
        factors, changed = self.split.factors, []
        told: dict[Concepts, Tensor] = {}
        for at in range(len(factors)):
            others = [next_value(which, factors, at) for which in self.split.compositions]
            for which in set(others) - told.keys():
                scenes = scenes_of(trained, (which,), self.samples, self.seed)
                told[which] = trained.experiment.conditioner.encode(scenes)
            changed.append(asked[2].clone())
            changed[at][:, at] = torch.cat([told[which] for which in others])[:, at]
        pairs = combinations(changed, 2)
        found = [factor_interaction(trained.precise, *asked, a, b) for a, b in pairs]
        return torch.stack(found).nanmean(dim=0)

    def _of(self, level: int, device: torch.device) -> Bool[Tensor, " batch"]:
        """Return which images are of a level."""
        mine = [which in self.split.at(level) for which in self.split.compositions]
        return torch.tensor(mine, device=device).repeat_interleave(self.samples)

    def tiny(self) -> "TokenLocality":
        """Return the same question with one sample of each composition."""
        return replace(self, samples=1)


def checked(experiment: Experiment, split: Split) -> Masked:
    """Return the network if it is one that can be asked, or say what can."""
    network, world = experiment.network, experiment.world
    if not isinstance(network, Masked) or not isinstance(world, Shapes2D):
        got = f"{type(network).__name__} of {type(world).__name__}"
        raise ValueError(f"circuits and tokens are asked of a Masked of Shapes2D; got {got}")
    if split.factors != world.factors:
        raise ValueError(f"a split has the world's factors {world.factors}; got {split.factors}")
    return network


def looked_at(trained: Trained, layers: Sequence[int] = ()) -> dict[str, Into]:
    """Return where the neurons and heads of some layers, or of all, are found."""
    model = getattr(trained.precise, "__self__", trained.precise)
    if not isinstance(model, MaskedModule | JepaModule):
        raise ValueError(f"circuits are those of a MaskedModule; got {type(model).__name__}")
    found = {}
    for at, (neurons, heads) in model.inside(layers).items():
        found[f"{NEURONS}{at}"] = Into(neurons)
        found[f"{HEADS}{at}"] = Into(heads)
    return found


def rendered(
    trained: Trained, compositions: Sequence[Concepts], samples: int, seed: int
) -> tuple[Shaped[Tensor, " batch *token"], Float[Tensor, "batch factor row"]]:
    """Return fresh renders of each composition in turn: what the model sees, and is told."""
    experiment = trained.experiment
    assert isinstance(experiment.world, Shapes2D)
    scenes = scenes_of(trained, compositions, samples, seed)
    return experiment.view(experiment.world.image(scenes)), experiment.conditioner.encode(scenes)


def scenes_of(
    trained: Trained, compositions: Sequence[Concepts], samples: int, seed: int
) -> Scenes:
    """Return so many scenes of each composition; of the same number, only concepts differ."""
    world = trained.experiment.world
    assert isinstance(world, Shapes2D)
    numbers = torch.arange(samples, device=trained.device)
    worlds = [replace(world, among=(which,)) for which in compositions]
    return concatenate([each.scenes(numbers, seed) for each in worlds])


def half_hidden(
    count: int, side: int, generator: torch.Generator
) -> Bool[Tensor, "count side side"]:
    """Return masks of half the tokens, or one less than the rest if their number is odd."""
    draw = torch.rand((count, side**2), generator=generator, device=generator.device)
    return (draw.argsort(dim=1) < side**2 // 2).view(count, side, side)


def in_a_round(count: int, generator: torch.Generator) -> Shaped[Tensor, " count"]:
    """Return for each of these another one, by chance: each is the other of one."""
    order = torch.randperm(count, generator=generator, device=generator.device)
    return torch.empty_like(order).scatter(0, order, order.roll(1))


def next_value(which: Concepts, factors: Sequence[Factor], at: int) -> Concepts:
    """Return the composition with the next concept of a factor; after the last comes the first."""
    concepts = factors[at].concepts
    other = concepts[(concepts.index(which[at]) + 1) % len(concepts)]
    return (*which[:at], other, *which[at + 1 :])


def closeness(
    learned_by: Any,
    answer: Predicted,
    tokens: Tensor,
    hidden: Tensor,
    condition: Tensor,
    *noisy: Tensor,
) -> Float[Tensor, " batch"]:
    """Return how well hidden tokens are predicted: minus the objective, image by image."""
    del condition
    return learned_by.prediction_quality(answer, tokens, hidden, *noisy)


def apart(
    pairs: Mapping[tuple[Concepts, Concepts], Measurement], samples: int
) -> dict[str, Measurement]:
    """Return the mean overlap of compositions that differ in one factor, in two, and so on."""
    groups: dict[int, list[tuple[Concepts, Concepts]]] = {}
    for a, b in pairs:
        groups.setdefault(sum(x != y for x, y in zip(a, b, strict=True)), []).append((a, b))
    found = {}
    for factors, group in sorted(groups.items()):
        n = samples * len({which for pair in group for which in pair})
        found[f"jaccard@apart{factors}"] = replace(averaged([pairs[each] for each in group]), n=n)
    return found


def _said(undefined: Mapping[str, str]) -> dict[str, list[Any]]:
    """Return what a record says of what is undefined; nothing if all is defined."""
    return {"undefined": [[name, why] for name, why in undefined.items()]} if undefined else {}
