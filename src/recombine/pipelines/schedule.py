"""The noise levels of a schedule in our scale, and the number of the step that has each.

A variance-preserving schedule is its `alphas_cumprod`: x_t = sqrt(a_t) image + sqrt(1 - a_t) noise,
so sigma_t^2 = (1 - a_t) / a_t, and our x is x_t / sqrt(a_t). Flow matching mixes in a straight
line, x_s = (1 - s) image + s noise, so sigma = s / (1 - s), and our x is x_s / (1 - s).
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

PREDICTIONS = ("epsilon", "v", "sample", "flow")
_OF_DIFFUSERS = {"epsilon": "epsilon", "v_prediction": "v", "sample": "sample"}
STEPS = 1000.0
"""The clock of flow matching runs to this number, as it does in diffusers."""


@dataclass(frozen=True)
class Steps:
    """The rising noise levels of steps 0, 1, 2, ... of a variance-preserving schedule."""

    levels: Float[Tensor, " step"]

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest noise level that the network knows."""
        return self.levels[0].item(), self.levels[-1].item()

    def shrunk(self, sigma: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """Return what our x is multiplied by to have the scale of the schedule."""
        return 1 / (1 + sigma**2).sqrt()

    def clock(self, sigma: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """Return the number of the step, linear in log sigma between two steps."""
        levels = self.levels.to(sigma.device).log()
        at = sigma.double().log().clamp(levels[0], levels[-1])
        after = torch.searchsorted(levels, at).clamp(1, len(levels) - 1)
        share = (at - levels[after - 1]) / (levels[after] - levels[after - 1])
        return (after - 1 + share).to(sigma.dtype)


@dataclass(frozen=True)
class StraightLine:
    """Flow matching: the clock is s = sigma / (1 + sigma) times `steps`."""

    steps: float = STEPS

    def __post_init__(self) -> None:
        if not 0 < self.steps < float("inf"):
            raise ValueError(
                f"the clock of flow matching runs to a number above 0; got {self.steps}"
            )

    @property
    def ends(self) -> tuple[float, float]:
        """Any noise level will do."""
        return 0.0, float("inf")

    def shrunk(self, sigma: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """Return what our x is multiplied by to have the scale of the schedule."""
        return 1 / (1 + sigma)

    def clock(self, sigma: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """Return s times the number of steps."""
        return self.steps * sigma / (1 + sigma)


Schedule: TypeAlias = Steps | StraightLine


def steps_of(alphas_cumprod: Tensor) -> Steps:
    """Return the noise levels of a schedule; a last step of pure noise has none and is left out."""
    alphas = torch.as_tensor(alphas_cumprod).detach().cpu().double()
    if alphas.dim() == 1 and len(alphas) and alphas[-1] == 0:
        alphas = alphas[:-1]
    falling = alphas.dim() == 1 and len(alphas) > 1 and bool((alphas.diff() < 0).all())
    if not (falling and alphas[-1] > 0 and alphas[0] < 1):
        raise ValueError(
            "alphas_cumprod are 2 numbers or more that fall from below 1 to above 0; got "
            f"{_some(alphas)}"
        )
    return Steps(((1 - alphas) / alphas).sqrt())


def read(predicts: str | None, schedule: Any) -> tuple[str, Schedule]:
    """Return what a network predicts and its schedule, as a scheduler's object or the user says."""
    if predicts is not None and predicts not in PREDICTIONS:
        raise ValueError(f"a network predicts one of {', '.join(PREDICTIONS)}; got {predicts!r}")
    config = getattr(schedule, "config", None)
    alphas = getattr(schedule, "alphas_cumprod", None)
    if config is None:
        return _plain(predicts, schedule)
    if alphas is None and not hasattr(schedule, "sigmas"):
        raise ValueError(
            "a scheduler has alphas_cumprod, or the sigmas of flow matching; "
            f"{type(schedule).__name__} has neither"
        )
    said = "flow" if alphas is None else _of_diffusers(getattr(config, "prediction_type", None))
    if predicts not in (None, said):
        raise ValueError(f"{type(schedule).__name__} is for a network of {said}; got {predicts!r}")
    if alphas is None:
        return said, StraightLine(float(getattr(config, "num_train_timesteps", STEPS)))
    return said, steps_of(alphas)


def _plain(predicts: str | None, schedule: Any) -> tuple[str, Schedule]:
    """Return a schedule that is given as numbers."""
    if predicts is None:
        raise ValueError(
            f"say what the network predicts, one of {', '.join(PREDICTIONS)}; only a scheduler "
            "object says it by itself"
        )
    if predicts != "flow":
        if schedule is None:
            raise ValueError(f"a network of {predicts} needs a schedule: its alphas_cumprod")
        return predicts, steps_of(schedule)
    if schedule is not None and not isinstance(schedule, int | float):
        raise ValueError(
            "the schedule of flow matching is the number that its clock runs to (default "
            f"{STEPS:g}), or a scheduler object; got {type(schedule).__name__}"
        )
    return predicts, StraightLine() if schedule is None else StraightLine(float(schedule))


def _of_diffusers(prediction: Any) -> str:
    if prediction not in _OF_DIFFUSERS:
        known = ", ".join(_OF_DIFFUSERS)
        raise ValueError(f"a scheduler's prediction_type is one of {known}; got {prediction!r}")
    return _OF_DIFFUSERS[prediction]


def _some(value: Tensor) -> str:
    if value.dim() != 1:
        return f"the shape {tuple(value.shape)}"
    numbers = [f"{number:.4g}" for number in value.tolist()]
    shown = numbers if len(numbers) < 5 else [*numbers[:2], "...", numbers[-1]]
    return f"{len(numbers)} numbers, {', '.join(shown)}" if numbers else "none"
