"""Does a law compose exactly when its scores are local?

    recombine run laws          # less than a minute on one core
    recombine run laws --tiny   # does it run at all?

Every statement of the theory (docs/studies/laws.md) is checked on laws whose scores are closed
forms. Where theory says 0 the number is the largest residual found; where it says that a law is
not local the number is how far it is from that. A statement is broken when a residual exceeds the
tolerance declared for it here, or when something that cannot be 0 is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.denoiser import unit_noise
from recombine.measure.divergence import (
    DiscreteLaw,
    DivergenceSplit,
    Normal,
    Pair,
    characteristic,
    divergence_split,
    local_loss,
    over_noise,
    ratio_bound,
    violations,
)
from recombine.measure.factorization import (
    Blocks,
    condition_leak,
    cosines,
    coupling,
    denoised_jacobian,
    factorization,
    score_jacobian,
    score_of_features,
)
from recombine.measure.influence import pixel_influence
from recombine.measure.locality import shared
from recombine.measure.statement import Statement, exactly, nonzero, violated, zero
from recombine.measure.subject import Findings
from recombine.measurement import Measurement
from recombine.models import laws
from recombine.models.projection import LEVELS, KnownLaw, Law, alone, marginal, mean_image
from recombine.study import Watched, study

ZERO = 1e-10
"""Most that leak, coupling and the gap to the local score may be where theory says 0,"""
INFLUENCE = 1e-6
"""that measured influence may be from the closed form,"""
INTEGRAL = 1e-8
"""that an integral over noise may be from KL,"""
PRINTED = 1e-9
"""that a number may be from the one the fact sheet prints,"""
SPLIT = 1e-12
"""that KL may be from the sum of its terms,"""
LIMIT = 0.02
"""and T5b from its limit at sigma = 10."""
OVER = tuple(0.3 * 2 ** (step / 2) for step in range(13))
"""Noise levels of the curve of T5b."""

Statements: TypeAlias = Iterator[Statement]


@dataclass(frozen=True)
class Factorizing:
    """Check every statement on every law that it is about."""

    draws: int = 4
    """Noisy images of each law, condition and noise level, and as many from anywhere."""
    scenes: int = 20_000
    """Scenes of T5 to average over."""
    eta: tuple[float, ...] = (0.5, 0.9)
    """Couplings of T8."""
    every: int = 1
    """Check a law at every so-manieth of its noise levels."""
    random: int = 30
    """Pairs of random laws whose bound is checked, of each noise level."""
    integrals: bool = True
    """Also integrate over laws that are not normal, which takes the most time."""

    def __post_init__(self) -> None:
        if min(self.draws, self.every, self.random) < 1 or self.scenes < 2:
            raise ValueError(f"expected draws, every, random >= 1 and scenes >= 2; got {self}")
        if not all(0 < eta < 1 for eta in self.eta):
            raise ValueError(f"couplings eta lie strictly between 0 and 1; got {self.eta}")

    def tiny(self) -> "Factorizing":
        """Return the same statements on fewer images."""
        few = replace(self, draws=1, scenes=200, every=3, random=2)
        return replace(few, eta=self.eta[:1], integrals=False)

    def __call__(self, generator: torch.Generator, watch: Watched) -> Findings:
        """Compute on the CPU, as the laws are small."""
        parts = self._parts(generator)
        found: list[Statement] = []
        for done, part in enumerate(parts, start=1):
            found += part
            watch(done, len(parts))
        ratios = [(level, _leak_ratio(self.scenes, level, generator)) for level in OVER]
        curves = {
            "leak_ratio": [
                [at, each.value, each.low or 0.0, each.high or 0.0] for at, each in ratios
            ],
            "leak_limit": [[at, -laws.leak_limit()] for at in (OVER[0], OVER[-1])],
        }
        wrong = [each for each in found if each.holds is False]
        alarms = tuple(f"{each.name} is {each.measurement.value:g}" for each in wrong)
        named = {each.name: each.measurement for each in found}
        return Findings({"statements_broken": violated(found), **named}, curves, alarms=alarms)

    def _parts(self, generator: torch.Generator) -> list[Statements]:
        every = [replace(law, levels=law.levels[:: self.every]) for law in laws.known_laws()]
        return [
            *(_local(known, self.draws, generator) for known in every),
            *(_changed_conditions(generator), _random_splits(generator)),
            _any_bounded(self.random, generator),
            *(_score_change(), _divergences(), _one_marked(), _losses(), _features()),
            _scenes(self.scenes, generator),
            *(_bounded(eta, generator) for eta in self.eta),
            *(_on_a_plane(eta) for eta in self.eta if self.integrals),
        ]


def _points(
    known: KnownLaw, level: float, draws: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw noisy images of a law and, as a local score is local at every x, others."""
    condition = known.conditions.repeat_interleave(2 * draws, dim=0)
    x = known.law.sample(condition, generator)
    x = x + level * unit_noise(x, generator)
    x[::2] = 2 * unit_noise(x[::2], generator)
    return x, x.new_full((len(x),), level), condition


def _local(known: KnownLaw, draws: int, generator: torch.Generator) -> Statements:
    """CPC <=> LCS, at one noise level <=> at all of them; influence is the closed form."""
    rows, images, count = [], 0, len(known.blocks)
    for level in known.levels:
        at = _points(known, level, draws, generator)
        found = factorization(known.score, Blocks(known.blocks), *at, known.projection)
        apart = (_influence(known.law, *at) - known.law.jacobian(*at).abs()).abs()
        each = (found.gap, found.coupling, found.leak, apart)
        rows.append([value.max().item() for value in each])
        images += len(at[0])
    gap, joined, leak, apart = (max(each) for each in zip(*rows, strict=True))
    local, expected = sum(row[0] <= ZERO for row in rows), len(rows) * known.composes
    yield _judged(f"lcs_residual@{known.name}", gap, images, known.composes)
    yield _judged(f"coupling@{known.name}", joined, images, known.pixel_local)
    yield _judged(f"leak@{known.name}", leak, images, known.condition_local)
    yield exactly(f"levels_with_lcs@{known.name}", local, expected, len(rows))
    yield zero(f"influence_residual@{known.name}", apart, images, INFLUENCE)
    if known.composes or known.name.startswith("L2"):
        conditions = torch.eye(count, dtype=torch.float64)
        value = _cosine(known.law, known.unconditional or known.law, conditions)
        yield zero(f"cosine@{known.name}", value, count, ZERO)


def _judged(name: str, value: float, n: int, vanishes: bool) -> Statement:
    return zero(name, value, n, ZERO) if vanishes else nonzero(name, value, n)


def _influence(law: Law, x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
    """Measure influence as on any model: the pixels of a law are an image of one column."""

    def denoiser(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        return law(x.flatten(1), sigma, condition).reshape(x.shape)

    return pixel_influence(denoiser, x[:, None, :, None], sigma, condition, at_once=4096)[..., 0]


def _cosine(law: Law, none: Law, conditions: Float[Tensor, "block block"]) -> float:
    """Return the largest cosine of what two conditions add to the mean."""
    means = torch.stack([mean_image(law, row) for row in conditions])
    every = cosines(means, mean_image(none, 0 * conditions[0]))
    return every[~torch.eye(len(conditions), dtype=torch.bool)].abs().max().item()


def _score_change() -> Statements:
    """T4 is local in pixels and not in conditions: its score changes as the formula says."""
    known, worst = laws.shifted_gaussian(), 0.0
    condition = known.conditions[-1:]
    for level in known.levels:
        x, sigma = condition.new_zeros(1, known.blocks.shape[1]), condition.new_full((1,), level)
        for block, more in enumerate(torch.eye(3).to(condition)):
            change = known.score(x, sigma, condition + more) - known.score(x, sigma, condition)
            formula = laws.shifted_change(level, block)
            # Relative to the largest: with little noise scores are large.
            worst = max(worst, ((change[0] - formula).abs().max() / formula.abs().max()).item())
    yield zero("score_change_residual@T4", worst, 3 * len(known.levels), ZERO)


def _changed_conditions(generator: torch.Generator) -> Statements:
    """T4n depends on how many blocks are conditioned, not on which: it is local in that sense."""
    known, worst = laws.counted_gaussian(), 0.0
    for level in known.levels:
        x, sigma, condition = _points(known, level, 1, generator)
        blocks = Blocks(known.blocks)
        leak, _ = condition_leak(known.score, blocks, x, sigma, condition, -condition)
        worst = max(worst, leak.max().item())
    yield zero("changed_leak@T4n", worst, 2 * len(known.conditions) * len(known.levels), ZERO)


def _divergences() -> Statements:
    """KL splits into three terms and is the integral over noise of the distance of scores."""
    for rho, printed in laws.COUPLED_DIVERGENCE.items():
        known = laws.coupled_gaussian(rho)
        law, own = _normals(known)
        value = divergence_split(law, own).whole
        apart = max(abs(value - printed), abs(value - laws.coupled_divergence(rho)))
        yield zero(f"kl_residual@{known.name}", apart, 1, PRINTED)
    for known in (*map(laws.coupled_gaussian, laws.COUPLED_DIVERGENCE), laws.shifted_gaussian()):
        law, own = _normals(known)
        yield from _integrated(known.name, divergence_split(law, own), law, law.product(own))
    table, blocks = DiscreteLaw(laws.sign_table(0.5)), laws.signs(0.5).blocks
    split = divergence_split(table, [(each, table.marginal(each)) for each in blocks])
    yield zero("split_residual@T8", split.residual, 1, SPLIT)


def _one_marked() -> Statements:
    """T5 with one object marked: all of the divergence is what is not known of the other cells."""
    mark = torch.eye(laws.CELLS, dtype=torch.float64)[0]
    law, without = DiscreteLaw(laws.scene_table(mark)), DiscreteLaw(laws.scene_table(0 * mark))
    mine, others = mark > 0, mark == 0
    split = divergence_split(law, [(mine, law.marginal(mine))], (others, without.marginal(others)))
    yield zero("split_residual@T5_one", split.residual, 1, SPLIT)
    yield zero("dependence@T5_one", abs(split.dependence), 1, SPLIT)
    yield nonzero("background_leak@T5_one", split.background_leak, 1)


def _normals(known: KnownLaw) -> tuple[Normal, list[tuple[Tensor, Normal]]]:
    """Return a normal law given 1 for every block, and each block's law given its own alone."""
    condition, covariance = known.conditions[-1:], laws.constant_covariance(known.law)
    law = Normal(known.law.mean(condition)[0], covariance)
    means = [known.law.mean(alone(condition, j))[0] for j in range(len(known.blocks))]
    single = [Normal(mean, covariance) for mean in means]
    own = zip(known.blocks, single, strict=True)
    return law, [(pixels, each.marginal(pixels)) for pixels, each in own]


def _integrated(name: str, split: DivergenceSplit, law: Normal, other: Normal) -> Statements:
    integral = over_noise(lambda variance: law.noisy(variance).fisher(other.noisy(variance)))
    yield zero(f"split_residual@{name}", split.residual, 1, SPLIT)
    yield zero(f"kl_minus_integral@{name}", abs(split.whole - integral), 1, INTEGRAL)


def _random_splits(generator: torch.Generator) -> Statements:
    """The split on laws of no structure: blocks {0} and {1}, background {2}."""
    eye = torch.eye(3, dtype=torch.bool)
    chance = unit_noise(torch.zeros(4, 3, 3, 3).double(), generator).exp()
    table, *others = (DiscreteLaw(each / each.sum()) for each in chance)
    first, second, rest = [(m, law.marginal(m)) for m, law in zip(eye, others, strict=True)]
    split = divergence_split(table, [first, second], rest)
    yield zero("split_residual@3x3x3", split.residual, 1, SPLIT)
    root = unit_noise(torch.zeros(4, 3, 4).double(), generator)
    law, *single = (Normal(each[:, 3], each[:, :3] @ each[:, :3].mT + eye) for each in root)
    own = [(mask, each.marginal(mask)) for mask, each in zip(eye, single, strict=True)]
    split = divergence_split(law, own[:2], own[2])
    yield from _integrated("random", split, law, law.product(own))


def _losses() -> Statements:
    """What the best local denoiser loses is how far the scores are apart (T7)."""
    known = laws.paired_gaussian()
    for level, printed in laws.MMSE_GAP.items():
        apart, lost = local_loss(_normals(known)[0], 0, known.blocks[0], level)
        yield zero(f"score_gap_residual@T7_{level:g}", abs(apart - printed), 1, PRINTED)
        yield zero(f"mmse_minus_score_gap@T7_{level:g}", abs(lost - apart), 1, ZERO)


def _features() -> Statements:
    """T6: features that compose do so at every noise level if the map to them is orthogonal."""
    for name, turn in (("rotation", laws.rotation()), ("shear", laws.shear())):
        known, condition = laws.feature_gaussian(turn), torch.ones(1, 2).double()
        near, worst = Blocks(known.blocks).near(condition), 0.0
        covariance = laws.constant_covariance(known.law)
        score = partial(score_of_features, known.score, turn)
        for level in (1e-6, 0.3, 1.0, 3.0):
            at = turn.new_zeros(1, 4), turn.new_full((1,), level), condition
            value = coupling(score_jacobian(score, *at), near).item()
            noisy = turn @ (covariance + level**2 * torch.eye(4).to(turn)) @ turn.mT
            formula = coupling(torch.linalg.inv(noisy)[None], near).item()
            worst = max(worst, abs(value - formula))
            vanishes = name == "rotation" or level < 1e-3
            yield _judged(f"feature_coupling@{name}_{level:g}", value, 1, vanishes)
        yield zero(f"feature_coupling_residual@{name}", worst, 4, ZERO)
        means = torch.stack([mean_image(known.law, row) for row in torch.eye(2).double()])
        in_pixels, in_features = (cosines(each, 0 * each[0]) for each in (means, means @ turn.mT))
        yield zero(f"cosine_in_features@{name}", in_features[0, 1].abs().item(), 1, ZERO)
        yield _judged(f"cosine_in_pixels@{name}", in_pixels[0, 1].abs().item(), 1, name != "shear")


def _scenes(count: int, generator: torch.Generator) -> Statements:
    """T5 and T5b: to mark one object makes objects in all other cells less likely."""
    mark, cells = torch.eye(laws.CELLS, dtype=torch.float64)[0], range(laws.CELLS)
    with_mark, without = laws.scene_table(mark), laws.scene_table(0 * mark)
    change = torch.stack(
        [with_mark.select(cell, 1).sum() - without.select(cell, 1).sum() for cell in cells]
    )
    far = (change[1:] / change[0] - laws.leak_limit()).abs().max().item()
    yield zero("signed_leak_residual@T5_one", far, laws.CELLS - 1, PRINTED)
    for level in laws.COUPLING_ONE_MARKED:
        x, first, present = laws.labelled_scenes(count, level, generator)
        sigma, apart = x.new_full((count,), level), 1 - torch.eye(laws.CELLS).to(x)
        inner = denoised_jacobian(laws.scene_all_marked().score, x, sigma, present)
        worst = (inner * apart).abs().max().item()
        yield zero(f"cells_coupled@T5_all_{level:g}", worst, count, ZERO)
        inner = score_jacobian(laws.scene_one_marked().score, x, sigma, first).abs()
        most = (inner * apart).amax(dim=(1, 2)) / (inner * (1 - apart)).amax(dim=(1, 2))
        yield Statement(f"cells_coupled@T5_one_{level:g}", Measurement.mean(most.tolist()))
    for level in laws.LEAK_ONE_MARKED:
        ratio = _leak_ratio(count, level, generator)
        near = abs(ratio.value + laws.leak_limit()) <= LIMIT if level == 10 else None
        yield Statement(f"leak_ratio@T5_one_{level:g}", ratio, near)


def _leak_ratio(count: int, level: float, generator: torch.Generator) -> Measurement:
    """Return the change of the score at another cell over that at the marked one."""
    x, first, _ = laws.labelled_scenes(count, level, generator)
    score, sigma = laws.scene_one_marked().score, x.new_full((count,), level)
    moved = (score(x, sigma, first) - score(x, sigma, 0 * first)).abs()
    own, others = (moved * first).sum(dim=1), (moved * (1 - first)).sum(dim=1)
    return shared([(others / (laws.CELLS - 1), own)])


def _bounded(eta: float, generator: torch.Generator) -> Statements:
    """T8: a ratio of laws within [1 - eta, 1 + eta] bounds how far their scores are apart."""
    pair = laws.signs(eta).law, laws.signs(0.0).law
    ends = 1 - eta, 1 + eta
    yield from _bound(f"T8_{eta:g}", [_against(*pair, *ends, level, generator) for level in LEVELS])


def _any_bounded(count: int, generator: torch.Generator) -> Statements:
    """The bound on random laws: eight images of three pixels, weights changed at random."""
    found = []
    for level in LEVELS * count:
        image, logs = unit_noise(torch.zeros(8, 5).double(), generator).split((3, 2), dim=1)
        q, p = logs[:, 0].softmax(dim=0), logs.sum(dim=1).softmax(dim=0)
        ends = (p / q).min().item(), (p / q).max().item()
        pair = laws.atoms(image.tanh(), p), laws.atoms(image.tanh(), q)
        found.append(_against(*pair, *ends, level, generator))
    yield from _bound("random", found)


def _against(
    p: Law, q: Law, low: float, high: float, level: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return how far two scores are apart at noisy images of either law, and their bound."""
    nothing = torch.zeros(20, 1).double()
    x = torch.cat([law.sample(nothing, generator) for law in (p, q)])
    x = x + level * unit_noise(x, generator)
    at = x, x.new_full((len(x),), level), torch.zeros(len(x), 1)
    spread = (level**2 * q.jacobian(*at).diagonal(dim1=1, dim2=2)).clamp(min=0).sqrt()
    gap = (p.score(*at) - q.score(*at)).abs()
    return gap.flatten(), ratio_bound(spread, level, low, high).flatten()


def _bound(name: str, found: list[tuple[Tensor, Tensor]]) -> Statements:
    gap, bound = (torch.cat(each) for each in zip(*found, strict=True))
    yield exactly(f"bound_violations@{name}", violations(gap, bound), 0, len(gap))
    largest = (gap / bound)[bound > 1e-6].max().item()
    yield zero(f"bound_largest_ratio@{name}", largest, len(gap), 1 + 1e-9)


def _on_a_plane(eta: float) -> Statements:
    """The same of a law that is not normal: the two coupled pixels of T8."""
    law, product = laws.sign_pair(eta)
    pair, near = Pair(law), marginal(law, torch.tensor([True, False]))
    apart, lost = pair.local_loss(near, 1.0)
    yield zero(f"mmse_minus_score_gap@T8_{eta:g}", abs(lost - apart), 1, ZERO)
    # Of noisy images: noise only multiplies, so what does not factorize shows at every level.
    weight, (x, *_) = pair.points(0.25)
    frequency = torch.cartesian_prod(*[torch.linspace(-2, 2, 5).double()] * 2)
    seen = characteristic(x, weight, frequency) * (frequency.square().sum(dim=1) / 8).exp()
    clean = frequency.cos().prod(dim=1) - eta * frequency.sin().prod(dim=1)
    worst = (seen - clean).abs().max().item()
    yield zero(f"denoised_characteristic@T8_{eta:g}", worst, 25, ZERO)
    chances = (DiscreteLaw(each.log_weight(torch.zeros(1, 1))[0].exp()) for each in (law, product))
    divergence = next(chances).divergence(next(chances))
    integral = over_noise(partial(pair.fisher, product), span=(0.015, 1e5))
    yield zero(f"kl_minus_integral@T8_{eta:g}", abs(divergence - integral), 1, INTEGRAL)


STUDY = study(
    "Does a law compose exactly when its scores are local?",
    Factorizing(),
    {},
    headline=("statements_broken",),
    cost="a minute on one core",
)
