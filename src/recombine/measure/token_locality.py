"""On which visible tokens does a prediction of a masked model depend, and do factors act alone?

Declared before any run. A visible token is replaced by that of another image, all else stays. How
far the prediction moves is, for codes, the total variation distance of the two laws, from 0 to 1;
for latents, the distance of the two mean predictions. What rounding may have moved is 0.
Tokens are numbered row by row; a distance is the larger of the steps down and across.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from math import inf, isqrt
from typing import Any, ClassVar, TypeAlias

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from recombine.measure.influence import distances
from recombine.measure.masked import (
    SEED,
    half_hidden,
    masked_objective,
    next_value,
    rendered,
    scenes_of,
)
from recombine.measure.matching import partners
from recombine.measure.subject import Findings, Subject
from recombine.measurement import Measurement
from recombine.scene import Concepts
from recombine.split import Split
from recombine.worlds.shapes2d import BINARY

CHUNK = 256
"""Images that go through a model at a time by default; memory grows with it."""
ROUNDING = 100
"""A move of fewer last digits than this is rounding."""

Predictor: TypeAlias = Callable[..., Any]
"""(tokens, hidden, condition) -> a prediction; its `output` is logits of ids, and of latents a
vector or a mixture (with `log_weights` and `means`) for each token. The vector need not be a mean:
in MAR it is the condition of its head."""


@dataclass(frozen=True)
class TokenLocality:
    """Measure from how far away predictions depend on tokens, and whether factors act alone.

    Of each composition there are so many `samples`. A token is changed to that of an image drawn
    from all of them; a factor of the condition to its next value. Beside locality stands what it is
    if all changed tokens have the same influence (`even`).
    """

    split: Split = BINARY
    samples: int = 32
    seed: int = SEED
    radius: int = 1

    name: ClassVar[str] = "token_locality"

    def __post_init__(self) -> None:
        if self.samples < 1 or self.radius < 1:
            raise ValueError(
                "token locality needs 1 sample or more, and a radius of 1 or more; "
                f"got {self.samples} and {self.radius}"
            )

    def __call__(self, subject: Subject, generator: torch.Generator) -> Findings:
        """Render, hide, change tokens and factors, and see what moves."""
        masked_objective(self.name, subject, self.split)
        tokens, condition = rendered(subject, self.split.compositions, self.samples, self.seed)
        hidden = half_hidden(len(tokens), tokens.shape[-1], generator).to(tokens.device)
        other = tokens[partners(len(tokens), generator).to(tokens.device)]
        call = (tokens, hidden, condition)
        influence = token_influence(subject.precise, *call, other)
        even = even_influence(tokens, hidden, other)
        interaction = self._interactions(subject, call)
        found: dict[str, Measurement | None] = {}
        for level in self.split.levels:
            mine = self._at(level).to(tokens.device)
            found[f"token_locality@level{level}"] = token_locality(influence[mine], self.radius)
            found[f"token_locality_even@level{level}"] = token_locality(even[mine], self.radius)
            found[f"factor_interaction@level{level}"] = over_images(interaction[mine])
        why = "no prediction moves as tokens, or factors, change"
        return Findings(
            {name: each for name, each in found.items() if each is not None},
            undefined={name: why for name, each in found.items() if each is None},
        )

    def _interactions(
        self, subject: Subject, call: tuple[Tensor, Tensor, Tensor]
    ) -> Float[Tensor, " batch"]:
        """Return the mean over pairs of factors of how far they do not act by themselves."""
        factors, changed = self.split.factors, []
        written: dict[Concepts, Tensor] = {}
        for at in range(len(factors)):
            others = [next_value(which, factors, at) for which in self.split.compositions]
            for which in set(others) - written.keys():
                scenes = scenes_of(subject, (which,), self.samples, self.seed)
                written[which] = subject.training.conditioner.encode(scenes)
            changed.append(call[2].clone())
            changed[at][:, at] = torch.cat([written[which] for which in others])[:, at]
        pairs = combinations(changed, 2)
        found = [factor_interaction(subject.precise, *call, a, b) for a, b in pairs]
        return torch.stack(found).nanmean(dim=0)

    def _at(self, level: int) -> Bool[Tensor, " batch"]:
        """Return which images are of a level."""
        mine = [which in self.split.at(level) for which in self.split.compositions]
        return torch.tensor(mine).repeat_interleave(self.samples)

    def tiny(self) -> "TokenLocality":
        """Return the same measurement with one sample of each composition."""
        return replace(self, samples=1)


@torch.no_grad()
def token_influence(
    predictor: Predictor,
    tokens: Shaped[Tensor, " batch *token"],
    hidden: Bool[Tensor, "batch side side"],
    condition: Shaped[Tensor, " batch *condition"],
    other: Shaped[Tensor, " others *other"],
    chunk: int = CHUNK,
) -> Float[Tensor, "batch changed predicted"]:
    """Return how far each hidden token's prediction moves as each visible one becomes `other`'s.

    Of tokens that are hidden, and on the predictions of visible ones, the influence is 0.
    """
    ids, covered = not tokens.is_floating_point(), hidden.flatten(1)
    read = partial(torch.softmax, dim=-1) if ids else _mean
    before = _predictions(predictor, (tokens, hidden, condition), read, chunk)
    found = before.new_zeros(*covered.shape, covered.shape[1])
    image, cell = (~covered).nonzero(as_tuple=True)
    for of, at in zip(image.split(chunk), cell.split(chunk), strict=True):
        call = (_swapped(tokens[of], other[of], at), hidden[of], condition[of])
        after = _predictions(predictor, call, read, chunk)
        found[of, at] = torch.where(covered[of], _moved(before[of], after, ids), 0)
    return found


def even_influence(
    tokens: Shaped[Tensor, " batch *token"],
    hidden: Bool[Tensor, "batch side side"],
    other: Shaped[Tensor, " others *other"],
) -> Float[Tensor, "batch changed predicted"]:
    """Return what it is if every changed token has the same influence: the value at chance."""
    differs = tokens != other
    differs = (differs if differs.dim() == 3 else differs.any(dim=1)) & ~hidden
    return (differs.flatten(1)[:, :, None] & hidden.flatten(1)[:, None]).float()


def token_locality(
    influence: Float[Tensor, "batch changed predicted"], radius: int = 1
) -> Measurement | None:
    """Return the share of influence from at most so many cells away: 1 is local, mean over images.

    An image without any influence has no share and is not counted; if there is none, the share is
    undefined: None.
    """
    side = isqrt(influence.shape[1])
    line = torch.arange(side, device=influence.device)
    cells = torch.cartesian_prod(line, line)[None]
    near = distances(cells, side, side).flatten(2) <= radius
    within = torch.where(near, influence, 0).double().sum(dim=(1, 2))
    # 0 / 0 is not a number, and so not counted.
    return over_images(within / influence.double().sum(dim=(1, 2)), most=1.0)


@torch.no_grad()
def factor_interaction(
    predictor: Predictor,
    tokens: Shaped[Tensor, " batch *token"],
    hidden: Bool[Tensor, "batch side side"],
    condition: Float[Tensor, "batch factor row"],
    rows_a: Float[Tensor, "first factors_a row_a"],
    rows_b: Float[Tensor, "second factors_b row_b"],
    chunk: int = CHUNK,
) -> Float[Tensor, " batch"]:
    """Return |l_ab - l_a - l_b + l| / (|l_a - l| + |l_b - l|): 0 if changes of factors add up.

    Lengths are over all hidden tokens of an image. `rows_a` is the condition with one factor
    changed, `rows_b` with another. l are log-probabilities less their mean over codes: they add up
    if the laws multiply, whatever those are divided by. Of latents l is the mean prediction. NaN
    where neither change by itself moves the prediction.
    """
    together = torch.where((rows_a != condition).any(dim=-1, keepdim=True), rows_a, rows_b)
    read = _mean if tokens.is_floating_point() else _centred
    plain, alone_a, alone_b, joint = (
        _predictions(predictor, (tokens, hidden, rows), read, chunk)
        for rows in (condition, rows_a, rows_b, together)
    )
    covered = hidden.flatten(1)
    alone = _length(alone_a - plain, covered) + _length(alone_b - plain, covered)
    left = _length(joint - alone_a - alone_b + plain, covered)
    unmoved = alone <= _last_digits(plain) * _length(plain, covered)
    return torch.where(unmoved, torch.nan, left / alone)


def over_images(values: Float[Tensor, " batch"], most: float = inf) -> Measurement | None:
    """Return the mean over images that have a value, from 0 to `most`; None if there is none."""
    # Sums in another order may round to more than the whole.
    numbers = values[~values.isnan()].clamp(max=most).tolist()
    return Measurement.mean(numbers).clipped(most=most) if numbers else None


def _predictions(
    predictor: Predictor, call: Sequence[Tensor], read: Callable[[Any], Tensor], chunk: int
) -> Float[Tensor, "batch cell number"]:
    """Return what is read from the predictions, token by token: some numbers for each."""
    parts = zip(*(each.split(chunk) for each in call), strict=True)
    return torch.cat([read(predictor(*part).output) for part in parts]).flatten(1, 2)


def _centred(output: Any) -> Tensor:
    """Return log-probabilities less their mean: what all are divided by falls out."""
    return output - output.mean(dim=-1, keepdim=True)


def _mean(output: Any) -> Tensor:
    """Return the mean prediction."""
    if not hasattr(output, "log_weights"):
        return output
    return (output.log_weights.exp()[..., None] * output.means).sum(dim=-2)


def _swapped(tokens: Tensor, other: Tensor, cell: Tensor) -> Tensor:
    """Return images with the token of one cell each from the other image."""
    here = torch.nn.functional.one_hot(cell, tokens.shape[-1] ** 2).bool()
    here = here.view(-1, *[1] * (tokens.dim() - 3), *tokens.shape[-2:])
    return torch.where(here, other, tokens)


def _moved(before: Tensor, after: Tensor, ids: bool) -> Float[Tensor, "batch cell"]:
    """Return how far predictions moved; 0 if that may be rounding."""
    away = after - before
    far = away.abs().sum(dim=-1) / 2 if ids else away.norm(dim=-1)
    scale = torch.ones_like(far) if ids else before.norm(dim=-1)
    return torch.where(far > _last_digits(before) * scale, far, 0)


def _length(
    away: Float[Tensor, "batch cell number"], covered: Bool[Tensor, "batch cell"]
) -> Float[Tensor, " batch"]:
    return torch.where(covered[..., None], away, 0).flatten(1).norm(dim=1)


def _last_digits(prediction: Tensor) -> float:
    return ROUNDING * torch.finfo(prediction.dtype).eps
