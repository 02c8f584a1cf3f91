"""An experiment is a value: it can be printed, compared, varied and stored."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from recombine.checkpoint import LEARNED_FROM
from recombine.condition import Conditioner
from recombine.data import Source
from recombine.denoiser import Denoiser
from recombine.measure.subject import Findings, SumsUp, joined
from recombine.objectives.diffusion import Diffusion
from recombine.sample.heun import HEUN, Progress, Sampler, unwatched
from recombine.sample.unmask import Unmask
from recombine.spelling import LATER, spelled
from recombine.train import Decay, Objective, constant
from recombine.views import Centred, View


@dataclass(frozen=True)
class Budget:
    """How long to train, and how fast.

    `batch` counts the images of a step over all processes. The learning rate rises for `warm_up`
    steps, then follows `decay`. `ema` is the share the average keeps at each step, `clip` the
    longest gradient. The measurements are also made at each of the `milestones`. `weight_decay`
    is what a step takes of every weight, times its learning rate (Loshchilov and Hutter 2019).
    """

    steps: int
    batch: int
    learning_rate: float = 1e-3
    warm_up: int = 0
    decay: Decay = constant
    ema: float = 0.999
    clip: float = 1.0
    milestones: tuple[int, ...] = ()
    weight_decay: float = field(default=0.0, metadata={LATER: True})

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
                f"weight_decay takes nothing or less than all of a weight at a step; got "
                f"{self.weight_decay} at a learning rate of {self.learning_rate}"
            )
        if any(not 0 < milestone <= self.steps for milestone in self.milestones):
            raise ValueError(f"milestones are steps of 1 to {self.steps}; got {self.milestones}")

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 1."""
        risen = min(step / self.warm_up, 1.0) if self.warm_up else 1.0
        return self.learning_rate * risen * self.decay(step, self.steps)

    def of_steps(self, steps: int) -> "Budget":
        """Return a budget of so many steps, its milestones at the same shares of them."""
        reached = {max(1, milestone * steps // self.steps) for milestone in self.milestones}
        return replace(self, steps=steps, milestones=tuple(sorted(reached)))

    def tiny(self) -> "Budget":
        """Return a budget of seconds, with as many milestones."""
        return replace(
            self.of_steps(min(self.steps, 10)),
            batch=min(self.batch, 8),
            warm_up=min(self.warm_up, 5),
            ema=min(self.ema, 0.9),
        )


@runtime_checkable
class Network(Protocol):
    """A declared network; what it builds maps (x, clock, condition) to an answer like x."""

    def build(self) -> nn.Module: ...


@dataclass(frozen=True)
class Trained:
    """A denoiser and the experiment it comes from; all that a question may look at.

    On a GPU the denoiser works in bf16; `plain` is the same one as it is written.
    """

    experiment: "Experiment"
    denoiser: Denoiser
    device: torch.device
    watch: Progress = unwatched
    plain: Denoiser | None = None

    @property
    def training(self) -> "Experiment":
        return self.experiment

    def reader(self, name: str) -> Any:
        from recombine import zoo
        from recombine.models.probe import Probe

        if name == "detector":
            return zoo.detector()
        return zoo.probe(name, Probe(linear="linear" in name), self.device)

    @property
    def precise(self) -> Denoiser:
        """The denoiser in the precision of its weights, for gradients and small differences."""
        return self.denoiser if self.plain is None else self.plain

    def images(
        self, condition: Float[Tensor, " batch *condition"], generator: torch.Generator
    ) -> Float[Tensor, " batch *image"]:
        """Draw one image per row of the condition."""
        return self.experiment.view.back(self.drawn(condition, generator))

    def drawn(
        self, condition: Float[Tensor, " batch *condition"], generator: torch.Generator
    ) -> Shaped[Tensor, " batch *seen"]:
        """Draw what the model sees of one image per row of the condition."""
        experiment, sampler = self.experiment, self.experiment.sampler
        # A small batch stays in the cache of a CPU and moves the bar; a GPU wants a large one.
        batch = 16 if self.device.type == "cpu" else 256
        draw = sampler.generator(self.denoiser, experiment.shape, batch, self.watch)
        return draw(condition.to(self.device), generator)


@runtime_checkable
class Ask(Protocol):
    """A question to a trained denoiser, declared as a value."""

    def __call__(self, trained: Trained, generator: torch.Generator, /) -> Findings: ...

    def tiny(self) -> "Ask":
        """Return the same question, answered in a second."""


@runtime_checkable
class LooksBack(Protocol):
    """A question that also makes something of its answers at all milestones, [step, value] each."""

    def looked_back(
        self, experiment: "Experiment", curves: Mapping[str, list[Any]], /
    ) -> Findings: ...


@dataclass(frozen=True)
class Experiment:
    """One trained model and what is asked of it.

    `headline` names the measurements that answer the question.
    """

    question: str
    world: Source
    network: Network
    budget: Budget
    asks: tuple[Ask, ...]
    headline: tuple[str, ...]
    conditioner: Conditioner = Conditioner()
    objective: Objective = Diffusion()
    sampler: Sampler | Unmask = HEUN
    view: View = Centred()
    seeds: tuple[int, ...] = (0, 1, 2)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of an image as the denoiser sees it."""
        return tuple(self.view(torch.zeros(1, 3, self.world.size, self.world.size)).shape[1:])

    @property
    def digest(self) -> str:
        """A fingerprint of all that the weights depend on, the same in any process."""
        parts = {name: getattr(self, name) for name in LEARNED_FROM}
        return hashlib.sha256(spelled(tuple(parts.items())).encode()).hexdigest()

    def denoiser(self) -> nn.Module:
        """Return the untrained denoiser; its weights come from torch's global generator."""
        return self.objective.wrap(self.network.build())

    def asked(self, trained: Trained, generator: torch.Generator) -> Findings:
        """Put every question and join what is found."""
        return joined([ask(trained, generator) for ask in self.asks])

    def looked_back(self, curves: Mapping[str, list[Any]]) -> Findings:
        """Join what questions make of their answers at all milestones."""
        asks = [ask for ask in self.asks if isinstance(ask, LooksBack)]
        looked = [ask.looked_back(self, curves) for ask in asks]
        sums = [Findings(ask.over_training(curves)) for ask in self.asks if isinstance(ask, SumsUp)]
        return joined([*looked, *sums])

    def tiny(self) -> "Experiment":
        """Return the same experiment, small enough for a test on a laptop."""
        return replace(
            self,
            budget=self.budget.tiny(),
            asks=tuple(ask.tiny() for ask in self.asks),
            sampler=replace(self.sampler, steps=min(self.sampler.steps, 4)),
            seeds=self.seeds[:1],
        )


Watched: TypeAlias = Callable[[int, int], None]
"""Told how many parts of a computation are done, and of how many."""


@runtime_checkable
class Computation(Protocol):
    """A question that is answered without training: closed forms and simulations, as a value."""

    @property
    def question(self) -> str: ...

    @property
    def headline(self) -> tuple[str, ...]:
        """Names the measurements that answer the question."""

    def __call__(self, generator: torch.Generator, watch: Watched, /) -> Findings:
        """Compute on the device of the generator."""

    def tiny(self) -> "Computation":
        """Return the same question, answered in a second."""


@runtime_checkable
class Named(Protocol):
    """What is to be run: something declared under a name, in a variant, with a seed."""

    @property
    def name(self) -> str: ...

    @property
    def variant(self) -> str: ...

    @property
    def seed(self) -> int: ...

    @property
    def tiny(self) -> bool: ...

    @property
    def overrides(self) -> Mapping[str, Any]: ...


def folder_of(named: Named, out: Path) -> Path:
    """Return the folder that it has under `out`."""
    variant = named.variant + "-tiny" * named.tiny
    return out / named.name / variant / f"seed{named.seed}"


def command_of(named: Named) -> str:
    """Return what to type to do it again."""
    options = [f"--{key.replace('_', '-')} {value}" for key, value in named.overrides.items()]
    words = [f"{named.name}:{named.variant}", *["--tiny"] * named.tiny, *options]
    return f"recombine run {' '.join(words)} --seed {named.seed}"


@dataclass(frozen=True)
class Plan:
    """One run to be: an experiment as it is declared, shrunk or overridden, and a seed."""

    name: str
    variant: str
    experiment: Experiment
    seed: int
    tiny: bool = False
    overrides: Mapping[str, int | float] = field(default_factory=dict)

    def folder(self, out: Path) -> Path:
        """Return where the run lies."""
        return folder_of(self, out)

    @property
    def command(self) -> str:
        """What to type to run it."""
        return command_of(self)

    @property
    def facts(self) -> dict[str, Any]:
        """What a folder or a checkpoint says of the run it belongs to."""
        names = [each.name for each in fields(self.experiment)]
        return {
            "name": self.name,
            "variant": self.variant,
            "tiny": self.tiny,
            "overrides": dict(self.overrides),
            "seed": self.seed,
            "digest": self.experiment.digest,
            "experiment": {name: spelled(getattr(self.experiment, name)) for name in names},
        }

    def check(self, facts: Mapping[str, Any], where: Path) -> None:
        """Raise unless the facts are of this run."""
        for name in ("digest", "seed"):
            if facts.get(name) == self.facts[name]:
                continue
            theirs, ours = facts.get("experiment", {}), self.facts["experiment"]
            differing = [key for key in LEARNED_FROM if theirs.get(key) != ours[key]] or ["seed"]
            raise ValueError(
                f"{where} belongs to another experiment: it differs in {', '.join(differing)}; "
                f"choose another --out or remove {where.parent}"
            )
