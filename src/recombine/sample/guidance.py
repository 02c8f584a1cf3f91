"""Classifier-free guidance: a stronger condition than the model was trained with."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

from jaxtyping import Float, Shaped
from torch import Tensor

from recombine.denoiser import Denoiser, null_of


@dataclass(frozen=True)
class Guidance:
    """Extrapolate from the unconditional to the conditional denoised image by `weight`.

    Ho and Salimans 2022. At 1 the condition acts as it was trained; above, samples are more typical
    of it and less varied. `null` makes null conditions (`torch.zeros_like` for a grid): the model
    must have seen them in training.
    """

    null: Callable[[Tensor], Tensor]
    weight: float

    def __post_init__(self) -> None:
        if not (isfinite(self.weight) and self.weight >= 0):
            raise ValueError(f"a weight of guidance is finite and not negative; got {self.weight}")

    def __call__(self, denoiser: Denoiser) -> Denoiser:
        """Return the guided denoiser; it calls the other one twice."""

        def guided(
            x: Float[Tensor, " batch *image"],
            sigma: Float[Tensor, " batch"],
            condition: Shaped[Tensor, " batch *condition"],
        ) -> Float[Tensor, " batch *image"]:
            null = null_of(self.null, condition)
            with_it, without = (denoiser(x, sigma, each) for each in (condition, null))
            return without + self.weight * (with_it - without)

        return guided
