"""JEPA beside an objective: predict the states of a network that sees every token, and no noise.

The targets are the states of the run's own moving average. The same mask, or noise, and the same
pass of the trained network serve both losses.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from recombine.denoiser import Objective, Preconditioned
from recombine.models.dit import DiTModule
from recombine.models.masked import MaskedModule, Predicted, check_layers
from recombine.objectives.diffusion import Diffusion
from recombine.objectives.masked import MaskedObjective, over_hidden

LOWEST = 0.002
"""The noise level at which the average sees images: the last one of samplers."""


@dataclass(frozen=True)
class Jepa:
    """Which layers' states are predicted, and how much that counts beside the objective.

    With `normalised` each target has mean 0 and variance 1 over its channels (I-JEPA); without,
    it is the state as it is.
    """

    layers: tuple[int, ...] = (3, 5, 7)
    weight: float = 0.6
    normalised: bool = False

    def __post_init__(self) -> None:
        if not self.layers or len(set(self.layers)) < len(self.layers):
            raise ValueError(f"JEPA predicts at least one layer, each once; got {self.layers}")
        if not 0 <= self.weight < float("inf"):
            raise ValueError(f"the weight of JEPA is finite and not negative; got {self.weight}")

    def __call__(self, objective: MaskedObjective | Diffusion) -> "MaskedJepa | DiffusionJepa":
        """Return the objective with JEPA beside it."""
        if isinstance(objective, MaskedObjective):
            return MaskedJepa(objective, self)
        if isinstance(objective, Diffusion):
            return DiffusionJepa(objective, self)
        raise ValueError(f"JEPA stands beside a masked objective or Diffusion; got {objective}")

    def target(
        self, state: Float[Tensor, "batch token width"]
    ) -> Float[Tensor, "batch token width"]:
        """Return what is to be predicted of a state."""
        return F.layer_norm(state, state.shape[-1:]) if self.normalised else state


@dataclass(frozen=True)
class JepaObjective(Objective):
    """An objective with targets that the moving average of the run's own weights makes.

    It is called with `average=` beside the arguments of every objective.
    """

    objective: Any
    jepa: Jepa

    @abstractmethod
    def targets(
        self, average: Callable[..., Any], seen: Tensor, condition: Tensor
    ) -> list[Float[Tensor, "batch token width"]]:
        """Return what is to be predicted of each layer."""

    def target_spreads(
        self, average: Callable[..., Any], seen: Tensor, condition: Tensor
    ) -> dict[int, "Spread"]:
        """Return how far the targets of each layer spread."""
        pairs = zip(self.jepa.layers, self.targets(average, seen, condition), strict=True)
        return {layer: target_spread(each) for layer, each in pairs}


@dataclass(frozen=True)
class MaskedJepa(JepaObjective):
    """A masked objective plus the error of predicted states, those of hidden tokens."""

    objective: MaskedObjective

    def wrap(self, network: nn.Module) -> "JepaModule":
        """Return the network plus one predictor per JEPA layer, to be trained as one."""
        if not isinstance(network, MaskedModule):
            got = type(network).__name__
            raise ValueError(f"JEPA beside a masked objective needs a masked model; got {got}")
        return JepaModule(network, self.jepa.layers)

    def __call__(
        self,
        model: Callable[..., Any],
        seen: Shaped[Tensor, " batch *token"],
        condition: Shaped[Tensor, " batch *condition"],
        *,
        generator: torch.Generator,
        average: Callable[..., Any] | None = None,
    ) -> Float[Tensor, ""]:
        """Return the loss of one batch; `average` is the moving average of the model."""
        assert average is not None
        drawn = self.objective.corrupted(seen, generator)
        predicted = model(seen, drawn.hidden, condition, *drawn.noisy)
        missed = self.missed(predicted, self.targets(average, seen, condition), drawn.hidden)
        return self.objective.loss(predicted, seen, drawn) + self.jepa.weight * missed

    @torch.no_grad()
    def targets(self, average: Callable[..., Any], seen: Tensor, condition: Tensor) -> list[Tensor]:
        nothing = seen.new_zeros((len(seen), *seen.shape[-2:]), dtype=torch.bool)
        states = average(seen, nothing, condition).states
        return [self.jepa.target(states[layer]) for layer in self.jepa.layers]

    def missed(
        self,
        predicted: Predicted,
        targets: Sequence[Float[Tensor, "batch token width"]],
        hidden: Bool[Tensor, "batch side side"],
    ) -> Float[Tensor, ""]:
        """Return the squared error per channel at hidden tokens, the mean over layers."""
        errors = [
            over_hidden((guess - target).square().mean(-1).view_as(hidden), hidden)
            for guess, target in zip(predicted.guesses, targets, strict=True)
        ]
        return torch.stack(errors).mean()

    def noisy_tokens(self, seen: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Return the objective's noisy tokens."""
        return self.objective.noisy_tokens(seen, generator)

    def prediction_quality(
        self, predicted: Predicted, seen: Tensor, hidden: Tensor, *noisy: Tensor
    ) -> Float[Tensor, " batch"]:
        """Return minus the objective's loss of each image, without JEPA's."""
        return self.objective.prediction_quality(predicted, seen, hidden, *noisy)


@dataclass(frozen=True)
class DiffusionJepa(JepaObjective):
    """`Diffusion` plus the error of predicted states; the average sees images at LOWEST noise."""

    objective: Diffusion

    def wrap(self, network: nn.Module) -> "DenoiserJepaModule":
        """Return the denoiser plus one predictor per JEPA layer, to be trained as one."""
        if not isinstance(network, DiTModule):
            raise ValueError(f"JEPA beside Diffusion needs a DiT; got {type(network).__name__}")
        return DenoiserJepaModule(network, self.jepa.layers, self.objective.sigma_data)

    def __call__(
        self,
        model: Callable[..., Any],
        image: Shaped[Tensor, " batch *image"],
        condition: Shaped[Tensor, " batch *condition"],
        *,
        generator: torch.Generator,
        average: Callable[..., Any] | None = None,
    ) -> Float[Tensor, ""]:
        """Return the loss of one batch; `average` is the moving average of the model."""
        assert average is not None
        errors = list[Tensor]()

        def with_errors(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
            """Denoise, and collect the errors of states in the same forward pass."""
            denoised, guesses = model(x, sigma, condition, True)
            targets = self.targets(average, image, condition)
            errors.extend(map(F.mse_loss, guesses, targets))
            return denoised

        loss = self.objective(with_errors, image, condition, generator=generator)
        return loss + self.jepa.weight * torch.stack(errors).mean()

    @torch.no_grad()
    def targets(self, average: Callable[..., Any], seen: Tensor, condition: Tensor) -> list[Tensor]:
        level = torch.full((len(seen),), LOWEST, dtype=seen.dtype, device=seen.device)
        _, states = average(seen, level, condition, True)
        return [self.jepa.target(state) for state in states]


class JepaModule(nn.Module):
    """A masked model plus one predictor per JEPA layer; its predictions are unchanged."""

    def __init__(self, network: MaskedModule, layers: tuple[int, ...]) -> None:
        super().__init__()
        self.network = network
        self.layers = layers
        self.predictors = predictors(network.of.width, network.of.layers, layers)

    @property
    def head(self) -> nn.Module | None:
        """The network's own denoiser of tokens, for samplers."""
        return self.network.head

    def inside(self, layers: Sequence[int] = ()) -> dict[int, tuple[nn.Module, nn.Module]]:
        """Return where the network's neurons and attention heads are."""
        return self.network.inside(layers)

    def forward(
        self,
        tokens: Shaped[Tensor, " batch *token"],
        hidden: Bool[Tensor, "batch side side"],
        condition: Float[Tensor, "batch factor row"],
        *noisy: Tensor,
    ) -> Predicted:
        """Return the network's predictions, with guesses of states."""
        predicted = self.network(tokens, hidden, condition, *noisy)
        guesses = tuple(
            predictor(predicted.states[layer])
            for predictor, layer in zip(self.predictors, self.layers, strict=True)
        )
        return predicted._replace(guesses=guesses)


class DenoiserJepaModule(nn.Module):
    """A denoiser plus one predictor per JEPA layer; its denoised images are unchanged.

    With states it returns more: in training the guesses of its predictors, otherwise the states of
    the JEPA layers.
    """

    def __init__(self, network: DiTModule, layers: tuple[int, ...], sigma_data: float) -> None:
        super().__init__()
        self.denoiser = Preconditioned(network, sigma_data)
        self.layers = layers
        self.predictors = predictors(network.of.width, network.of.layers, layers)

    def forward(
        self,
        x: Float[Tensor, " batch *image"],
        sigma: Float[Tensor, " batch"],
        condition: Shaped[Tensor, " batch *condition"],
        with_states: bool = False,
    ) -> Float[Tensor, " batch *image"] | tuple[Tensor, tuple[Tensor, ...]]:
        """Return the denoised image, and guesses or states where they are wanted."""
        if not with_states:
            return self.denoiser(x, sigma, condition)
        states: list[Tensor] = []
        denoised = self.denoiser(x, sigma, condition, states)
        chosen = [states[layer] for layer in self.layers]
        if self.training:
            chosen = [each(state) for each, state in zip(self.predictors, chosen, strict=True)]
        return denoised, tuple(chosen)


def predictors(width: int, count: int, layers: tuple[int, ...]) -> nn.ModuleList:
    """Return a small network for the states of each of these layers, of so many."""
    check_layers(layers, count)
    return nn.ModuleList(
        nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)) for _ in layers
    )


class Spread(NamedTuple):
    """How much states differ between images, in how many directions; an alarm if they do not.

    `variance` is per channel; `rank` is the exponential of the entropy of the singular values'
    shares (Roy and Vetterli 2007): 0 if all is equal, the width if all directions are.
    """

    variance: float
    rank: float
    alarm: str | None


def target_spread(
    states: Float[Tensor, "batch token width"],
    *,
    least_variance: float = 1e-4,
    least_rank: float = 2.0,
) -> Spread:
    """Measure whether targets have collapsed; what is the same in all images does not count."""
    if len(states) < 2:
        raise ValueError(f"a spread is between at least 2 images; got {len(states)}")
    # Equal states must differ by exactly nothing: a mean of them may be off in the last digit.
    away = states.double() - states[:1].double()
    away = away - away.mean(dim=0)
    variance = away.square().mean().item() * len(states) / (len(states) - 1)
    values = torch.linalg.svdvals(away.flatten(0, 1))
    shares = values / values.sum().clamp(min=torch.finfo(values.dtype).tiny)
    rank = torch.special.entr(shares).sum().exp().item() if variance else 0.0
    alarm = None
    if variance < least_variance or rank < least_rank:
        alarm = (
            f"targets collapsed: variance {variance:.2g} per channel, rank {rank:.1f} of "
            f"{states.shape[-1]}; lower the weight of JEPA or keep more of the average at each step"
        )
    return Spread(variance, rank, alarm)
