"""Networks as the authors train them: untied layers, biases, ReLU if wanted, plain SGD.

Many networks are trained at once: they are the first axis of every tensor, each has its own data.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor


class Layer(NamedTuple):
    """One affine map per network."""

    weight: Float[Tensor, "network out in"]
    bias: Float[Tensor, "network out"]


Layers: TypeAlias = list[Layer]


@dataclass(frozen=True)
class Perceptron:
    """A perceptron from `dimensions` to as many, with hidden layers of one width."""

    dimensions: int
    layers: int = 1
    hidden: int = 64
    relu: bool = False
    bias: bool = True

    def __post_init__(self) -> None:
        if self.layers < 1 or self.hidden < 1 or self.dimensions < 1:
            raise ValueError(
                "a network has a layer, a hidden unit and a dimension or more; "
                f"got {self.layers}, {self.hidden} and {self.dimensions}"
            )

    def start(self, count: int, generator: torch.Generator) -> Layers:
        """Draw the layers as PyTorch does: uniform within 1/sqrt(inputs), biases too."""
        widths = [self.dimensions, *[self.hidden] * (self.layers - 1), self.dimensions]
        made = []
        for inputs, out in zip(widths, widths[1:], strict=False):
            reach = 1 / math.sqrt(inputs)
            drawn = torch.rand(count, out, inputs + 1, generator=generator, device=generator.device)
            drawn = reach * (2 * drawn - 1)
            bias = drawn[..., -1] if self.bias else torch.zeros_like(drawn[..., -1])
            made.append(Layer(drawn[..., :-1].contiguous(), bias.contiguous()))
        return made

    def activations(
        self, layers: Layers, x: Float[Tensor, "network point row"]
    ) -> list[Float[Tensor, "network point _"]]:
        """Return the input of each layer, and the output last."""
        inputs = [x]
        for number, (weight, bias) in enumerate(layers, start=1):
            output = torch.baddbmm(bias[:, None], inputs[-1], weight.mT)
            inputs.append(output.relu() if self.relu and number < len(layers) else output)
        return inputs

    def __call__(
        self, layers: Layers, x: Float[Tensor, "network point row"]
    ) -> Float[Tensor, "network point row"]:
        """Return the output of every network."""
        return self.activations(layers, x)[-1]

    def gradients(self, layers: Layers, x: Float[Tensor, "network point row"]) -> Layers:
        """Return the slope of the mean squared error over points and dimensions."""
        inputs = self.activations(layers, x)
        error = 2 * (inputs[-1] - x) / (x.shape[1] * x.shape[2])
        found = []
        for number in reversed(range(len(layers))):
            found.append(Layer(error.mT @ inputs[number], error.sum(dim=1)))
            error = error @ layers[number].weight
            if self.relu and number > 0:
                error = error * (inputs[number] > 0)
        return found[::-1]


def batches(
    points: Float[Tensor, "network point row"], size: int, generator: torch.Generator
) -> list[Float[Tensor, "network _ row"]]:
    """Shuffle once and cut into batches: the authors' order is the same in every epoch."""
    order = torch.randperm(points.shape[1], generator=generator, device=generator.device)
    return list(points[:, order].split(size, dim=1))


def descend(
    network: Perceptron,
    layers: Layers,
    ordered: list[Float[Tensor, "network _ row"]],
    rate: float,
    epochs: int,
) -> Iterator[int]:
    """Take the steps of SGD, changing the layers in place; yield the number of each."""
    step = 0
    for _ in range(epochs):
        for batch in ordered:
            for layer, slope in zip(layers, network.gradients(layers, batch), strict=True):
                layer.weight.sub_(slope.weight, alpha=rate)
                if network.bias:
                    layer.bias.sub_(slope.bias, alpha=rate)
            step += 1
            yield step


def largest_rate(network: Perceptron, moment: Float[Tensor, "augmented augmented"]) -> float:
    """Return the learning rate above which SGD cannot settle where the output is exact.

    There the steepest direction of one layer has the slope 2 max(moment) / dimensions; balanced
    layers add up.
    """
    steepest = float(torch.linalg.eigvalsh(moment)[-1])
    return network.dimensions / (steepest * network.layers)
