"""A training is a value: all that the weights of a model depend on, and nothing else.

What is measured of a trained model, how it is sampled and which seeds are run are declared beside
it (study.py), so that any measurement applies to any training.
"""

import hashlib
from dataclasses import dataclass, fields, replace
from typing import Protocol, runtime_checkable

import torch
from torch import nn

from recombine.condition import Conditioner
from recombine.data import Source
from recombine.denoiser import Objective
from recombine.objectives.diffusion import Diffusion
from recombine.spelling import spelled
from recombine.train import Decay, constant
from recombine.views import Centred, View


@dataclass(frozen=True)
class Budget:
    """How long to train, and how fast.

    `batch` counts the images of a step over all processes. The learning rate rises for `warm_up`
    steps, then follows `decay`. `ema` is the share that the averaged weights keep at each step,
    `clip` the largest norm of a gradient. `weight_decay` is AdamW's (Loshchilov and Hutter 2019).
    """

    steps: int
    batch: int
    learning_rate: float = 1e-3
    warm_up: int = 0
    decay: Decay = constant
    ema: float = 0.999
    clip: float = 1.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if self.steps < 1 or self.batch < 1:
            raise ValueError(f"steps and batch are at least 1; got {self.steps} and {self.batch}")
        if not (0 < self.learning_rate < float("inf") and self.clip > 0):
            raise ValueError(
                f"learning_rate and clip are above 0; got {self.learning_rate} and {self.clip}"
            )
        if not 0 <= self.ema < 1 or self.warm_up < 0:
            raise ValueError(
                f"ema lies in [0, 1) and warm_up is not negative; got {self.ema}, {self.warm_up}"
            )
        if not 0 <= self.weight_decay * self.learning_rate < 1:
            raise ValueError(
                f"weight_decay removes between nothing and all of a weight in a step; got "
                f"{self.weight_decay} at a learning rate of {self.learning_rate}"
            )

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 1."""
        risen = min(step / self.warm_up, 1.0) if self.warm_up else 1.0
        return self.learning_rate * risen * self.decay(step, self.steps)

    def tiny(self) -> "Budget":
        """Return a budget of seconds."""
        return replace(
            self,
            steps=min(self.steps, 10),
            batch=min(self.batch, 8),
            warm_up=min(self.warm_up, 5),
            ema=min(self.ema, 0.9),
        )


@runtime_checkable
class Network(Protocol):
    """A declared network; what it builds maps (x, clock, condition) to an answer like x."""

    def build(self) -> nn.Module: ...


@dataclass(frozen=True)
class Training:
    """World, conditioner, network, objective, view and budget of one trained model."""

    world: Source
    network: Network
    budget: Budget
    conditioner: Conditioner = Conditioner()
    objective: Objective = Diffusion()
    view: View = Centred()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an image as the model sees it."""
        return tuple(self.view(torch.zeros(1, 3, self.world.size, self.world.size)).shape[1:])

    @property
    def spelled(self) -> dict[str, str]:
        """Each field in words that are the same in any process."""
        return {each.name: spelled(getattr(self, each.name)) for each in fields(self)}

    @property
    def digest(self) -> str:
        """The fingerprint of all that the weights depend on."""
        return hashlib.sha256(spelled(tuple(self.spelled.items())).encode()).hexdigest()

    def untrained(self, seed: int, device: torch.device) -> nn.Module:
        """Return the model of a seed: drawn on the CPU, so it is the same on every device."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self.objective.wrap(self.network.build())
        return model.to(device)

    def tiny(self) -> "Training":
        """Return the same training, small enough for a test on a laptop."""
        return replace(self, budget=self.budget.tiny())
