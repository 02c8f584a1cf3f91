"""A small network for points: what a U-Net is for images."""

from dataclasses import dataclass
from math import pi

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

_WAVES = 8
"""Sines and cosines of the noise level."""


@dataclass(frozen=True)
class MLP:
    """Layers of equal width that see all pixels at once."""

    pixels: int = 2
    condition_width: int = 4
    width: int = 128
    layers: int = 3

    def __post_init__(self) -> None:
        if min(self.pixels, self.width, self.layers) < 1 or self.condition_width < 0:
            raise ValueError(
                f"pixels, width and layers are at least 1, condition_width 0; got {self}"
            )

    def build(self) -> "MLPModule":
        """Return the network with fresh weights."""
        return MLPModule(self)


class MLPModule(nn.Module):
    """The weights of an `MLP`."""

    waves: Tensor

    def __init__(self, declared: MLP) -> None:
        super().__init__()
        self.of = declared
        # The clock is log(sigma) / 4, within about +-1.5: waves from two spans long to a quarter.
        self.register_buffer("waves", pi / 4 * 2 ** (torch.arange(_WAVES) / 2), persistent=False)
        inputs = declared.pixels + declared.condition_width + 2 * _WAVES
        widths = [inputs] + [declared.width] * declared.layers
        layers: list[nn.Module] = []
        for here, there in zip(widths, widths[1:], strict=False):
            layers += [nn.Linear(here, there), nn.SiLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(declared.width, declared.pixels))

    def forward(
        self,
        x: Float[Tensor, " batch *image"],
        clock: Float[Tensor, " batch"],
        condition: Shaped[Tensor, " batch *condition"],
    ) -> Float[Tensor, " batch *image"]:
        given, expected = condition.flatten(1).to(x), self.of.condition_width
        if given.shape[1] != expected:
            raise ValueError(f"a condition has {expected} numbers here; got {given.shape[1]}")
        angle = clock[:, None].to(x) * self.waves
        seen = torch.cat([x.flatten(1), given, angle.sin(), angle.cos()], dim=1)
        return self.layers(seen).reshape(x.shape)
