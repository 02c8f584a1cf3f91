"""Circuits of a trained masked model: what it is given, and which of its layers are compared.

Of each composition there are fresh renders as the model sees them, half of their tokens hidden,
with every factor in the condition. What the numbers mean is declared in measure/circuits.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from recombine.data import Files
from recombine.measure.circuits import (
    Neurons,
    by_composition,
    by_head,
    influences,
    overlaps,
    polysemanticity,
)
from recombine.measure.renders import single_object_world
from recombine.measure.subject import Findings, Subject, inapplicable
from recombine.measurement import Measurement
from recombine.scene import Concepts, Factor, Scenes, concatenate
from recombine.split import Split
from recombine.worlds.shapes2d import BINARY

SEED = 10_061
"""The seed of the scenes; no training has it."""
NEURONS, HEADS = "polysemantic@layer", "polysemantic_heads@layer"


@dataclass(frozen=True)
class Circuits:
    """Measure which neurons and heads serve which compositions, by so many `samples` of each.

    Neurons are those between the two linear maps of an MLP, heads those of attention before they
    are mixed. The target is how well an image's hidden tokens are predicted: minus the loss. The
    samples are hidden by at most so many `masks` in turn; means over inputs are over those with the
    same tokens hidden. Of the `layers` all are used if none is given.
    """

    split: Split = BINARY
    samples: int = 32
    seed: int = SEED
    masks: int = 4
    layers: tuple[int, ...] = ()

    name: ClassVar[str] = "circuits"

    def __post_init__(self) -> None:
        if self.samples < 2 or self.masks < 1:
            raise ValueError(
                "circuits need 2 samples or more of a composition, and 1 mask or more; "
                f"got {self.samples} and {self.masks}"
            )

    def __call__(self, subject: Subject, generator: torch.Generator) -> Findings:
        """Render, hide, follow gradients and compare compositions."""
        objective = masked_objective(self.name, subject, self.split)
        layers = compared_layers(subject, self.layers)
        rows, which = self._influences(subject, objective, layers, generator)
        heads = {name: each for name, each in rows.items() if HEADS in name}
        rows |= by_head(heads, subject.training.network.heads)
        defined = {name: each for name, each in rows.items() if each.any()}
        why = "no neuron has any influence on the prediction"
        undefined = {name: why for name in rows if name not in defined}
        found: dict[str, Measurement] = {}
        if defined:
            found |= polysemanticity(by_composition(defined, which), generator)
        neurons = {name: each for name, each in defined.items() if NEURONS in name}
        if not neurons:
            return Findings(found, undefined=undefined | {"jaccard": why})
        pairs = overlaps(by_composition(neurons, which), generator)
        each = {f"jaccard@{'-'.join(a)}~{'-'.join(b)}": m for (a, b), m in pairs.items()}
        return Findings(found | apart(pairs, self.samples) | each, undefined=undefined)

    def _influences(
        self,
        subject: Subject,
        objective: Any,
        layers: Mapping[str, nn.Module],
        generator: torch.Generator,
    ) -> tuple[dict[str, Tensor], list[Concepts]]:
        """Return the influence of neurons on every input, and the composition of each."""
        every = self.split.compositions
        tokens, condition = rendered(subject, every, self.samples, self.seed)
        noisy = objective.noisy_tokens(tokens, generator)
        turns = min(self.masks, self.samples)
        masks = half_hidden(turns, tokens.shape[-1], generator).to(tokens.device)
        # Sample by sample, so that each mask hides as many of every composition.
        numbers = torch.arange(len(tokens), device=tokens.device).view(-1, self.samples)

        def quality(predicted: Any, seen: Tensor, hidden: Tensor, *others: Tensor) -> Tensor:
            # The first of the others is the condition.
            return objective.prediction_quality(predicted, seen, hidden, *others[1:])

        parts: list[Neurons] = []
        which: list[Concepts] = []
        for turn, mask in enumerate(masks):
            mine = numbers[:, turn::turns].flatten()
            hidden = mask.expand(len(mine), *mask.shape)
            inputs = (tokens[mine], hidden, condition[mine], *(each[mine] for each in noisy))
            parts.append(influences(subject.precise, layers, inputs, quality))
            which += [every[each // self.samples] for each in mine.tolist()]
        return {name: torch.cat([part[name] for part in parts]) for name in layers}, which

    def tiny(self) -> "Circuits":
        """Return the same measurement of one layer, by two samples and one mask."""
        return replace(self, samples=2, masks=1, layers=(0,))


def masked_objective(measure: str, subject: Subject, split: Split) -> Any:
    """Return what the model was trained by, or say what the measurement needs."""
    objective = subject.training.objective
    if not hasattr(objective, "prediction_quality"):
        raise inapplicable(measure, "models that predict hidden tokens", objective)
    world = single_object_world(measure, subject.training, split)
    if isinstance(world, Files):
        raise inapplicable(measure, "worlds that are rendered", world)
    return objective


def compared_layers(subject: Subject, layers: Sequence[int] = ()) -> dict[str, nn.Module]:
    """Return where the neurons and heads of some layers, or of all, are found."""
    network = getattr(subject.precise, "__self__", subject.precise)
    if not hasattr(network, "inside"):
        raise inapplicable(Circuits.name, "networks whose neurons and heads are known", network)
    found = {}
    for at, (neurons, heads) in network.inside(layers).items():
        found[f"{NEURONS}{at}"] = neurons
        found[f"{HEADS}{at}"] = heads
    return found


def rendered(
    subject: Subject, compositions: Sequence[Concepts], samples: int, seed: int
) -> tuple[Shaped[Tensor, " batch *token"], Float[Tensor, "batch factor row"]]:
    """Return fresh renders of each composition in turn, as the model sees them, and conditions."""
    training = subject.training
    scenes = scenes_of(subject, compositions, samples, seed)
    return training.view(training.world.image(scenes)), training.conditioner.encode(scenes)


def scenes_of(
    subject: Subject, compositions: Sequence[Concepts], samples: int, seed: int
) -> Scenes:
    """Return so many scenes of each composition; of the same number, only concepts differ."""
    numbers = torch.arange(samples, device=subject.device)
    worlds = [replace(subject.training.world, among=(which,)) for which in compositions]
    return concatenate([each.scenes(numbers, seed) for each in worlds])


def half_hidden(
    count: int, side: int, generator: torch.Generator
) -> Bool[Tensor, "count side side"]:
    """Return masks of half the tokens, or one less than the rest if their number is odd."""
    draw = torch.rand((count, side**2), generator=generator, device=generator.device)
    return (draw.argsort(dim=1) < side**2 // 2).view(count, side, side)


def next_value(which: Concepts, factors: Sequence[Factor], at: int) -> Concepts:
    """Return the composition with the next concept of a factor; after the last comes the first."""
    concepts = factors[at].concepts
    other = concepts[(concepts.index(which[at]) + 1) % len(concepts)]
    return (*which[:at], other, *which[at + 1 :])


def apart(
    pairs: Mapping[tuple[Concepts, Concepts], Measurement], samples: int
) -> dict[str, Measurement]:
    """Return the mean overlap of compositions that differ in one factor, in two, and so on.

    Its ends are the means of theirs: whether the overlaps depend on each other or not, the interval
    of a mean is no wider.
    """
    groups: dict[int, list[tuple[Concepts, Concepts]]] = {}
    for a, b in pairs:
        groups.setdefault(sum(x != y for x, y in zip(a, b, strict=True)), []).append((a, b))
    found = {}
    for factors, group in sorted(groups.items()):
        n = samples * len({which for pair in group for which in pair})
        each = [pairs[pair] for pair in group]
        value, low, high = (
            fmean(getattr(one, name) for one in each) for name in ("value", "low", "high")
        )
        found[f"jaccard@apart{factors}"] = Measurement(value, low, high, n=n)
    return found
