"""JEPA beside an objective: predict the states of a network that sees every token, and no noise.

The targets are the states of the run's own moving average. The same mask, or noise, and the same
pass of the trained network serve both losses.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from recombine.denoiser import Preconditioned
from recombine.models.masked import Predicted
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

    def __call__(self, objective: "MaskedObjective | Diffusion") -> "WithJepa":
        """Return the objective with JEPA beside it."""
        return WithJepa(objective, self)

    def target(
        self, state: Float[Tensor, "batch token width"]
    ) -> Float[Tensor, "batch token width"]:
        """Return what is to be predicted of a state."""
        return F.layer_norm(state, state.shape[-1:]) if self.normalised else state


@dataclass(frozen=True)
class WithJepa:
    """An objective plus the error with which states are predicted.

    Beside a masked objective they are those of hidden tokens, beside `Diffusion` those of all: the
    average sees the image at the lowest noise.
    """

    objective: MaskedObjective | Diffusion
    jepa: Jepa

    def __post_init__(self) -> None:
        if not isinstance(self.objective, MaskedObjective | Diffusion):
            raise ValueError(
                f"JEPA stands beside a masked objective or Diffusion; got {self.objective}"
            )

    def module(self, network: nn.Module) -> "JepaModule | DenoiserJepaModule":
        """Return the network together with what predicts its states, to be trained as one."""
        if isinstance(self.objective, Diffusion):
            return DenoiserJepaModule(network, self.jepa.layers, self.objective.sigma_data)
        return JepaModule(network, self.jepa.layers)

    def __call__(
        self,
        model: Callable[..., Any],
        seen: Shaped[Tensor, " batch *token"],
        condition: Shaped[Tensor, " batch *told"],
        *,
        generator: torch.Generator,
        average: Callable[..., Any],
    ) -> Float[Tensor, ""]:
        """Return the loss of one batch; `average` is the moving average of the model."""
        if isinstance(self.objective, Diffusion):
            return self._denoising(self.objective, model, average, seen, condition, generator)
        asked = self.objective.asked(seen, generator)
        predicted = model(seen, asked.hidden, condition, *asked.noisy)
        missed = self.missed(predicted, self.targets(average, seen, condition), asked.hidden)
        return self.objective.of(predicted, seen, asked) + self.jepa.weight * missed

    @torch.no_grad()
    def targets(
        self,
        average: Callable[..., Any],
        seen: Shaped[Tensor, " batch *token"],
        condition: Shaped[Tensor, " batch *told"],
    ) -> list[Float[Tensor, "batch token width"]]:
        """Return what is to be predicted of each layer, with nothing hidden and no noise."""
        if isinstance(self.objective, Diffusion):
            level = torch.full((len(seen),), LOWEST, dtype=seen.dtype, device=seen.device)
            _, states = average(seen, level, condition, True)
        else:
            nothing = seen.new_zeros((len(seen), *seen.shape[-2:]), dtype=torch.bool)
            whole = average(seen, nothing, condition).states
            states = [whole[layer] for layer in self.jepa.layers]
        return [self.jepa.target(state) for state in states]

    def _denoising(
        self,
        objective: Diffusion,
        model: Callable[..., Any],
        average: Callable[..., Any],
        image: Tensor,
        condition: Tensor,
        generator: torch.Generator,
    ) -> Float[Tensor, ""]:
        """Let the objective ask, and listen to what is said on the way."""
        errors: list[Tensor] = []

        def overheard(x: Tensor, sigma: Tensor, told: Tensor) -> Tensor:
            denoised, guesses = model(x, sigma, told, True)
            for guess, target in zip(guesses, self.targets(average, image, told), strict=True):
                errors.append(F.mse_loss(guess, target))
            return denoised

        loss = objective(overheard, image, condition, generator=generator)
        return loss + self.jepa.weight * torch.stack(errors).mean()

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


class JepaModule(nn.Module):
    """A network that answers as ever, and adds what its predictors make of some of its layers."""

    def __init__(self, network: nn.Module, layers: tuple[int, ...]) -> None:
        super().__init__()
        of: Any = network.of
        self.network = network
        self.layers = layers
        self.predictors = predictors(of, layers)

    @property
    def of(self) -> Any:
        """The declared network."""
        return self.network.of

    @property
    def head(self) -> nn.Module | None:
        """The network's own denoiser of tokens, for samplers."""
        return self.network.head  # type: ignore[return-value]

    def forward(
        self,
        tokens: Shaped[Tensor, " batch *token"],
        hidden: Bool[Tensor, "batch side side"],
        condition: Float[Tensor, "batch factor row"],
        *noisy: Tensor,
    ) -> Predicted:
        """Answer as the network does, with guesses."""
        predicted = self.network(tokens, hidden, condition, *noisy)
        guesses = tuple(
            predictor(predicted.states[layer])
            for predictor, layer in zip(self.predictors, self.layers, strict=True)
        )
        return predicted._replace(guesses=guesses)


class DenoiserJepaModule(nn.Module):
    """A denoiser that answers as ever; asked to be `overheard`, it says more.

    In training that is what its predictors make of some layers, otherwise those layers' states.
    """

    def __init__(self, network: nn.Module, layers: tuple[int, ...], sigma_data: float) -> None:
        super().__init__()
        of: Any = network.of
        self.denoiser = Preconditioned(network, sigma_data)
        self.layers = layers
        self.predictors = predictors(of, layers)

    def forward(
        self,
        x: Float[Tensor, " batch *image"],
        sigma: Float[Tensor, " batch"],
        condition: Shaped[Tensor, " batch *told"],
        overheard: bool = False,
    ) -> Float[Tensor, " batch *image"] | tuple[Tensor, tuple[Tensor, ...]]:
        """Return the guess of the clean image, and what is overheard."""
        if not overheard:
            return self.denoiser(x, sigma, condition)
        states: list[Tensor] = []
        denoised = self.denoiser(x, sigma, condition, states)
        chosen = [states[layer] for layer in self.layers]
        if self.training:
            chosen = [each(state) for each, state in zip(self.predictors, chosen, strict=True)]
        return denoised, tuple(chosen)


def predictors(of: Any, layers: tuple[int, ...]) -> nn.ModuleList:
    """Return a small network for each layer's states, or say which layers there are."""
    for layer in layers:
        if not 0 <= layer < of.layers:
            raise ValueError(f"the network has {of.layers} layers, 0..{of.layers - 1}; got {layer}")
    return nn.ModuleList(
        nn.Sequential(nn.Linear(of.width, of.width), nn.GELU(), nn.Linear(of.width, of.width))
        for _ in layers
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
