"""Any network that predicts noise, velocity, image or flow, as a denoiser."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from recombine.denoiser import (
    Conditions,
    Images,
    Levels,
    check_answer,
    check_call,
    denoised_from_noise,
    denoised_from_velocity,
    per_image,
)
from recombine.pipelines.schedule import Schedule, read


class Wrapped(nn.Module):
    """A denoiser (x, sigma, condition) -> image, where x = image + sigma * noise.

    Inside, a network (x_t, t) -> prediction in the scale and with the clock of its schedule.
    """

    def __init__(
        self,
        network: Callable[..., Any],
        predicts: str,
        schedule: Schedule,
        condition: bool | str = False,
        whole_steps: bool = False,
    ) -> None:
        super().__init__()
        self.network = network
        self.predicts, self.schedule = predicts, schedule
        self.condition, self.whole_steps = condition, whole_steps

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest noise level that the network knows."""
        return self.schedule.ends

    def forward(self, x: Images, sigma: Levels, condition: Conditions) -> Images:
        check_call(x, sigma, condition)
        clock = self.schedule.clock(sigma)
        seen = per_image(self.schedule.shrunk(sigma), x) * x
        answer = self._answer(seen, clock.round() if self.whole_steps else clock, condition)
        check_answer(answer, x)
        return self._denoised(answer.to(x.dtype), x, seen, sigma)

    def _answer(self, seen: Tensor, clock: Tensor, condition: Tensor) -> Tensor:
        clock = clock.long() if self.whole_steps else clock
        if isinstance(self.condition, str):
            answer = self.network(seen, clock, **{self.condition: condition})
        else:
            answer = self.network(seen, clock, *[condition] * self.condition)
        # Pipelines answer with an object or a tuple.
        answer = answer[0] if isinstance(answer, tuple) else getattr(answer, "sample", answer)
        if not isinstance(answer, torch.Tensor):
            kind = type(answer).__name__
            raise ValueError(f"a network answers with a tensor, or has it as .sample; got {kind}")
        if seen.requires_grad and torch.is_grad_enabled() and not answer.requires_grad:
            raise ValueError(
                "the network's answer has no gradient to x: is it made under torch.no_grad, or "
                "detached?"
            )
        return answer

    def _denoised(self, answer: Images, x: Images, seen: Images, sigma: Levels) -> Images:
        if self.predicts == "epsilon":
            return denoised_from_noise(answer, x, sigma)
        if self.predicts == "v":
            return denoised_from_velocity(answer, x, sigma)
        if self.predicts == "sample":
            return answer
        # The flow is noise - image, and x_s = image + s * flow.
        return seen - per_image(sigma / (1 + sigma), x) * answer

    def __repr__(self) -> str:
        kind = type(self.network).__name__
        return f"Wrapped({kind} that predicts {self.predicts}, {type(self.schedule).__name__})"


def wrap(
    network: Callable[..., Any],
    predicts: str | None = None,
    schedule: Any = None,
    condition: bool | str = False,
    whole_steps: bool = False,
) -> Wrapped:
    """Return the denoiser that a network makes; it predicts "epsilon", "v", "sample" or "flow".

    `schedule` is a tensor of `alphas_cumprod`, or a scheduler of diffusers, which also says what is
    predicted; for "flow" it is the number that the clock runs to. The network is called as
    network(x_t, t), t a fraction of a step where sigma lies between two (`whole_steps` rounds);
    with `condition=True` the condition is its third argument, with a name a keyword
    (`condition="class_labels"`).
    """
    if not callable(network):
        raise ValueError(f"a network is called as network(x, t); got {type(network).__name__}")
    return Wrapped(network, *read(predicts, schedule), condition, whole_steps)
