"""From hidden tokens to an image, some at a time: the most confident ones of a model come first."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import cos, floor, isfinite, pi
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from recombine.models.blocks import closeness
from recombine.models.heads import Codebook, GaussianMixture, vectors
from recombine.models.masked import TokenModel
from recombine.sample.heun import (
    HEUN,
    Progress,
    Sampler,
    SeededGenerator,
    seeded_noise,
    trajectory,
    unwatched,
)
from recombine.spelling import LATER


@dataclass(frozen=True)
class Unmask:
    """How tokens are revealed (Chang et al. 2022): along a cosine, the surest codes first.

    `noise` is how much chance decides which are surest, at the start: it falls linearly to
    nothing. Latents have no confidence: they are revealed in random order, as in MAR, and a
    diffusion head draws them by `descent`. With `even` as many are revealed at every step, so that
    as many steps as tokens reveal one each.

    Logits are divided by `temperature` before a code is drawn, at 0 it is the likeliest; a code is
    as sure as it is likely at 1. Of a mixture, component and Gaussian are each drawn from a power
    of their law; the noise that a diffusion head starts from is the root of the temperature wide:
    both are the power of a law that is normal. With `expected` nothing is drawn: a latent is the
    mean of its law, a code the one of `book` that is nearest to the mean of the codes' vectors.

    Keeping the surest draws and drawing the others anew favours likely codes: only with one step,
    or with so much noise that the order is random, do codes follow the predicted law itself.
    """

    steps: int = 12
    noise: float = 1.0
    temperature: float = 1.0
    descent: Sampler = HEUN
    even: bool = field(default=False, metadata={LATER: True})
    expected: bool = field(default=False, metadata={LATER: True})
    book: Codebook | None = field(default=None, metadata={LATER: True})

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"a sampler takes at least 1 step; got {self.steps}")
        if not (isfinite(self.noise) and self.noise >= 0):
            raise ValueError(f"noise is finite and not negative; got {self.noise}")
        if not 0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature is finite and not negative; got {self.temperature}")
        if self.expected and self.temperature != 1:
            raise ValueError(
                f"an expected vector is that of a temperature of 1; got {self.temperature}"
            )
        if self.descent.guidance is not None:
            raise ValueError(f"tokens descend without guidance; got {self.descent}")

    def generator(
        self,
        predictor: Callable[..., Any],
        shape: tuple[int, ...],
        batch: int = 256,
        watch: Progress = unwatched,
    ) -> SeededGenerator:
        """Return what draws tokens of this shape: ids, or latents in the condition's dtype."""
        check_shape(shape)

        def descent(condition: Tensor, seeds: Tensor) -> Iterator[Tensor]:
            steps = unmasking(predictor, shape, condition, self, seeds=seeds)
            return (revealed.tokens for revealed in steps)

        return SeededGenerator(descent, self.steps, batch, watch)

    @property
    def evaluations(self) -> int:
        """How often the network is called for an image."""
        return self.steps

    def left(self, step: int, tokens: int) -> int:
        """Return how many of so many tokens are hidden after a step; step 0 is the start."""
        if self.even:
            return tokens * (self.steps - step) // self.steps
        return floor(tokens * cos(pi / 2 * step / self.steps))


TWELVE = Unmask()
"""The twelve steps of the study."""


@dataclass(frozen=True)
class Revealed:
    """The state after a step; the values of hidden tokens are arbitrary."""

    step: int
    tokens: Shaped[Tensor, " batch *token"]
    hidden: Bool[Tensor, "batch side side"]


def unmasking(
    predictor: TokenModel,
    shape: tuple[int, ...],
    condition: Float[Tensor, "batch factor row"],
    sampler: Unmask = TWELVE,
    *,
    seeds: Int[Tensor, " batch"],
) -> Iterator[Revealed]:
    """Yield after each step on the way from all hidden to a sample.

    `shape` is (side, side) for ids and (latent, side, side) for latents.
    """
    check_shape(shape)
    dtype = torch.long if len(shape) == 2 else condition.dtype
    tokens = condition.new_zeros(len(seeds), *shape, dtype=dtype)
    seen = Revealed(0, tokens, tokens.new_ones(len(seeds), *shape[-2:], dtype=torch.bool))
    for _ in range(sampler.steps):
        seen = _further(predictor, seen, condition, sampler, seeds)
        yield seen


def check_shape(shape: tuple[int, ...]) -> None:
    """Raise unless this is the shape of an image's tokens."""
    if len(shape) not in (2, 3) or min(shape) < 1 or shape[-1] != shape[-2]:
        raise ValueError(f"tokens are (side, side) ids or (latent, side, side); got {shape}")


# Gradients are off here and not in `unmasking`: a generator would switch them off for its reader.
@torch.no_grad()
def _further(
    predictor: TokenModel, seen: Revealed, condition: Tensor, sampler: Unmask, seeds: Tensor
) -> Revealed:
    """Take the next step."""
    step, hidden = seen.step + 1, seen.hidden
    output = predictor(seen.tokens, hidden, condition).output
    places = hidden.shape[1:].numel()
    # From the least sure to the surest: those that stay hidden, those to reveal, those known.
    reveal = slice(sampler.left(step, places), sampler.left(step - 1, places))
    if seen.tokens.dim() == 3:
        if isinstance(output, GaussianMixture):
            raise ValueError("ids come from logits; the model predicts a mixture of Gaussians")
        drawn, sure = _codes(output.flatten(1, 2), sampler, step, seeds)
        now = _order(sure, hidden)[:, reveal]
        shown = seen.tokens.flatten(1).scatter(1, now, at(drawn, now))
    else:
        # Unit noise for the order of a token, for its value, and for its component if it has some.
        components = output.log_weights.shape[-1] if isinstance(output, GaussianMixture) else 0
        shape = (places, 1 + seen.tokens.shape[1] + components)
        draws = seeded_noise(seeds, shape, step=step, dtype=torch.float64)
        now = _order(draws[..., 0], hidden)[:, reveal]
        value = _latents(predictor, output, at(draws[..., 1:], now), now, sampler)
        index = now[:, None].expand(-1, value.shape[2], -1)
        value = value.transpose(1, 2).to(seen.tokens)
        shown = seen.tokens.flatten(2).scatter(2, index, value)
    covered = hidden.flatten(1).scatter(1, now, False)
    return Revealed(step, shown.view_as(seen.tokens), covered.view_as(hidden))


def _order(sure: Tensor, hidden: Tensor) -> Int[Tensor, "batch token"]:
    """Return the tokens from the least sure to the surest, those that are known last."""
    known = ~hidden.flatten(1)
    return sure.masked_fill(known, float("inf")).argsort(dim=1, stable=True)


def _codes(
    logits: Float[Tensor, "batch token code"], sampler: Unmask, step: int, seeds: Tensor
) -> tuple[Int[Tensor, "batch token"], Float[Tensor, "batch token"]]:
    """Draw a code for each token; return how sure each is as well."""
    places, codes = logits.shape[1:]
    noise = seeded_noise(seeds, (places, codes + 1), step=step, dtype=torch.float64)
    chance = gumbel(noise)
    likely = logits.double().log_softmax(-1)
    if sampler.expected:
        drawn = _nearest(likely.exp(), sampler.book)
    else:
        # The same as logits divided by the temperature, which may be 0.
        drawn = (likely + sampler.temperature * chance[..., :-1]).argmax(-1)
    sure = likely.gather(-1, drawn[..., None])[..., 0]
    return drawn, sure + sampler.noise * (1 - step / sampler.steps) * chance[..., -1]


def _nearest(
    law: Float[Tensor, "batch token code"], book: Codebook | None
) -> Int[Tensor, "batch token"]:
    """Return the code that is nearest to the mean vector of a law over codes."""
    if book is None:
        raise ValueError("expected vectors of codes need their book, such as Unmask(book=view)")
    places = vectors(book, law.device).to(law)
    if len(places) != law.shape[-1]:
        raise ValueError(f"a book of {len(places)} codes does not fit {law.shape[-1]} logits")
    return closeness(law @ places, places).argmax(-1)


def _latents(
    predictor: TokenModel,
    output: Tensor | GaussianMixture,
    draws: Tensor,
    now: Tensor,
    sampler: Unmask,
) -> Float[Tensor, "batch chosen latent"]:
    """Draw a value for each of the tokens to reveal, or return what is expected of it."""
    if isinstance(output, GaussianMixture):
        mixed = GaussianMixture(*(at(part.flatten(1, 2), now) for part in output))
        if sampler.expected:
            return (mixed.log_weights.exp()[..., None] * mixed.means).sum(-2)
        return from_mixture(mixed, draws, sampler.temperature)
    head = getattr(predictor, "head", None)
    if head is None:
        raise ValueError("latents come from a mixture or a diffusion head; the model has neither")
    # Tokens descend by themselves, as a batch.
    vector = at(output.flatten(1, 2), now).flatten(0, 1)
    value = draws.flatten(0, 1).to(vector) * sampler.temperature**0.5
    if sampler.expected:
        # With so much noise a denoiser has only its vector to go by.
        highest = value.new_full((len(value),), sampler.descent.highest)
        return head(value * sampler.descent.highest, highest, vector).view(draws.shape)
    for moment in trajectory(head, value, vector, sampler.descent):
        value = moment.x
    return value.view(draws.shape)


def at(
    value: Shaped[Tensor, " batch token *feature"], index: Int[Tensor, "batch chosen"]
) -> Shaped[Tensor, " batch chosen *feature"]:
    """Return the values of some tokens of each image."""
    index = index.reshape(*index.shape, *[1] * (value.dim() - 2))
    return value.gather(1, index.expand(-1, -1, *value.shape[2:]))


def gumbel(normal: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """Turn unit noise into Gumbel's: where log p + it is largest is a draw from p."""
    return -(-torch.special.log_ndtr(normal)).log()


def from_mixture(
    mixed: GaussianMixture, draws: Float[Tensor, "batch chosen draw"], temperature: float = 1.0
) -> Float[Tensor, "batch chosen latent"]:
    """Draw a value from each mixture, by given unit noise: of the value, then of the component."""
    latent = mixed.means.shape[-1]
    normal, chance = draws[..., :latent], gumbel(draws[..., latent:])
    component = (mixed.log_weights.double() + temperature * chance).argmax(-1)[..., None, None]
    component = component.expand(*normal.shape[:2], 1, latent)
    mean, log_scale = (
        part.gather(2, component)[:, :, 0] for part in (mixed.means, mixed.log_scales)
    )
    return mean + temperature**0.5 * log_scale.exp() * normal.to(mean)
