"""Listen more closely than one was taught to: guidance without a classifier."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

from jaxtyping import Float, Shaped
from torch import Tensor

from recombine.denoiser import Denoiser, null_of


@dataclass(frozen=True)
class Guidance:
    """Go `weight` times as far from what is guessed with nothing told to what is guessed when told.

    Ho and Salimans 2022. At 1 samples are as told; above, they are more typical of what is told
    and less varied. `null` turns conditions into the ones that say nothing (`torch.zeros_like`
    for a grid): the model must have met them in training.
    """

    null: Callable[[Tensor], Tensor]
    weight: float

    def __post_init__(self) -> None:
        if not (isfinite(self.weight) and self.weight >= 0):
            raise ValueError(f"a weight of guidance is finite and not negative; got {self.weight}")

    def __call__(self, denoiser: Denoiser) -> Denoiser:
        """Return the denoiser that is guided; it asks the other one twice."""

        def guided(
            x: Float[Tensor, " batch *image"],
            sigma: Float[Tensor, " batch"],
            condition: Shaped[Tensor, " batch *told"],
        ) -> Float[Tensor, " batch *image"]:
            null = null_of(self.null, condition)
            told, untold = (denoiser(x, sigma, each) for each in (condition, null))
            return untold + self.weight * (told - untold)

        return guided
