"""Trained models, put together by hand, as measurements and samplers see them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from recombine import zoo
from recombine.condition import Conditioner
from recombine.views import Unchanged

CPU = torch.device("cpu")


def training(**parts: Any) -> SimpleNamespace:
    """What a model was trained on; only what a test is about is given."""
    usual = {"conditioner": Conditioner(), "view": Unchanged(), "network": None, "objective": None}
    return SimpleNamespace(**{**usual, **parts})


def no_samples(condition: Tensor, generator: torch.Generator) -> Tensor:
    raise AssertionError("this measurement samples nothing")


def unused(*arguments: object) -> Tensor:
    raise AssertionError("this measurement uses the denoiser in the other precision")


@dataclass
class Model:
    """A subject: `draw` makes its images, `readers` stand in for the shipped ones."""

    training: Any
    denoiser: Callable[..., Any] = unused
    precise: Callable[..., Any] = unused
    draw: Callable[[Tensor, torch.Generator], Tensor] = no_samples
    readers: Mapping[str, Any] = field(default_factory=dict)
    device: torch.device = CPU
    watched: list[tuple[float, int]] = field(default_factory=list)

    def images(self, condition: Tensor, generator: torch.Generator) -> Tensor:
        return self.draw(condition, generator)

    def drawn(self, condition: Tensor, generator: torch.Generator) -> Tensor:
        return self.draw(condition, generator)

    def reader(self, name: str) -> Any:
        world = getattr(self.training, "world", None)
        return self.readers[name] if self.readers else zoo.reader(name, self.device, world)

    def watch(self, done: float, total: int) -> None:
        self.watched.append((done, total))

    def keep(
        self, of: Sequence[Tensor], work: Callable[[], dict[str, Tensor]]
    ) -> dict[str, Tensor]:
        return work()


def perturbed(module: nn.Module, by: float = 0.1) -> nn.Module:
    """Move every weight, as training would: fresh networks have layers of zeros."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += by * torch.randn_like(parameter)
    return module
