"""A small network for points: what a U-Net is for images."""

from dataclasses import dataclass
from math import pi

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

_WAVES = 8
"""Sines and cosines that spell out the noise level."""


@dataclass(frozen=True)
class MLP:
    """Layers of equal width that see all pixels at once; `told` is the length of a condition."""

    pixels: int = 2
    told: int = 4
    width: int = 128
    layers: int = 3

    def __post_init__(self) -> None:
        if min(self.pixels, self.width, self.layers) < 1 or self.told < 0:
            raise ValueError(f"pixels, width and layers are at least 1, told 0; got {self}")

    def build(self) -> "Layers":
        """Return the network with fresh weights."""
        return Layers(self)


class Layers(nn.Module):
    """The network (x, clock, condition) -> answer of an MLP."""

    waves: Tensor

    def __init__(self, declared: MLP) -> None:
        super().__init__()
        self.told = declared.told
        # The clock is log(sigma) / 4, within about +-1.5: waves from two spans long to a quarter.
        self.register_buffer("waves", pi / 4 * 2 ** (torch.arange(_WAVES) / 2), persistent=False)
        widths = [declared.pixels + declared.told + 2 * _WAVES] + [declared.width] * declared.layers
        layers: list[nn.Module] = []
        for here, there in zip(widths, widths[1:], strict=False):
            layers += [nn.Linear(here, there), nn.SiLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(declared.width, declared.pixels))

    def forward(
        self,
        x: Float[Tensor, " batch *image"],
        clock: Float[Tensor, " batch"],
        condition: Shaped[Tensor, " batch *told"],
    ) -> Float[Tensor, " batch *image"]:
        told = condition.flatten(1).to(x)
        if told.shape[1] != self.told:
            raise ValueError(f"this network is told {self.told} numbers; got {told.shape[1]}")
        angle = clock[:, None].to(x) * self.waves
        seen = torch.cat([x.flatten(1), told, angle.sin(), angle.cos()], dim=1)
        return self.layers(seen).reshape(x.shape)
