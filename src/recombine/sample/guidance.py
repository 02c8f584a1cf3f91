"""Other ways to use a condition than as it was trained: guidance, and factors one at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

import torch
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
        check_weight(self.weight)

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


@dataclass(frozen=True)
class SummedScores:
    """Sum what each factor alone changes: composable diffusion (Liu et al. 2022).

    The denoised image is D_null + `weight` * sum_i (D_i - D_null), where D_i is given factor i and
    no other. It samples the product of p(x | factor i) / p(x) and p(x), exactly at every noise
    level where factors act on independent parts. Conditions have a row for each factor; the model
    must have seen all but one of them as null in training (`condition.FactorDropout`).
    """

    null: Callable[[Tensor], Tensor]
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_weight(self.weight)

    def __call__(self, denoiser: Denoiser) -> Denoiser:
        """Return the composed denoiser; it calls the other one once a factor and once more."""

        def summed(
            x: Float[Tensor, " batch *image"],
            sigma: Float[Tensor, " batch"],
            condition: Shaped[Tensor, " batch *condition"],
        ) -> Float[Tensor, " batch *image"]:
            if condition.dim() != 3:
                raise ValueError(
                    "scores are summed over factors, of conditions of the shape (batch, factor, "
                    f"row); got {tuple(condition.shape)}"
                )
            null = null_of(self.null, condition)
            without = denoiser(x, sigma, null)
            change = torch.zeros_like(without)
            for factor in range(condition.shape[1]):
                alone = null.clone()
                alone[:, factor] = condition[:, factor]
                change = change + denoiser(x, sigma, alone) - without
            return without + self.weight * change

        return summed


def check_weight(weight: float) -> None:
    """Raise unless a weight is finite and not negative."""
    if not (isfinite(weight) and weight >= 0):
        raise ValueError(f"a weight of guidance is finite and not negative; got {weight}")
