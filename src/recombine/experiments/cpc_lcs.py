"""Does a law compose exactly when its scores are local?

    recombine run cpc_lcs          # less than a minute on one core
    recombine run cpc_lcs --tiny   # does it run at all?

Every statement of the theory (docs/experiments/cpc_lcs.md) is checked on laws whose scores are
closed forms. Where theory says 0 the number is the largest residual found; where it says that a
law is not local the number is how far from it. A statement is broken when a residual exceeds the
tolerance declared for it here, or when something that cannot be 0 is.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from recombine.denoiser import unit_noise
from recombine.experiment import Findings, Watched
from recombine.measure.divergence import (
    Normal,
    Pair,
    Split,
    Table,
    characteristic,
    divergence_split,
    local_loss,
    over_noise,
    ratio_bound,
    violations,
)
from recombine.measure.factorization import (
    Blocks,
    InFeatures,
    condition_leak,
    cosines,
    coupling,
    denoised_jacobian,
    factorization,
    score_jacobian,
)
from recombine.measure.influence import pixel_influence
from recombine.measure.locality import shared
from recombine.measure.statement import broken, exactly, nonzero, residual
from recombine.measurement import Measurement
from recombine.models import laws
from recombine.models.projection import LEVELS, KnownLaw, Law, alone, marginal, mean_image

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

Statement: TypeAlias = Iterator[tuple[str, Measurement]]


@dataclass(frozen=True)
class Factorizing:
    """Check every statement on every law that it is about."""

    question: str
    headline: tuple[str, ...] = ("statements_broken",)
    draws: int = 4
    """Noisy images of each law, condition and noise level, and as many from anywhere."""
    scenes: int = 20_000
    """Scenes of T5 to average over."""
    eta: tuple[float, ...] = (0.5, 0.9)
    """Couplings of T8."""
    every: int = 1
    """Ask a law at every so-manieth of its noise levels."""
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
        found: dict[str, Measurement] = {}
        for done, part in enumerate(parts, start=1):
            found |= dict(part())
            watch(done, len(parts))
        curve = [(level, _leak_ratio(self.scenes, level, generator)) for level in OVER]
        points = [[level, each.value, each.low, each.high] for level, each in curve]
        curves: dict[str, list] = {"leak_ratio": points, "leak_limit": [-laws.leak_limit()]}
        return Findings({"statements_broken": broken(found.values()), **found}, curves)

    def _parts(self, generator: torch.Generator) -> list[Callable[[], Statement]]:
        asked = [replace(law, levels=law.levels[:: self.every]) for law in laws.known_laws()]
        local = [partial(_local, known, self.draws, generator) for known in asked]
        drawn = [partial(each, generator) for each in (_retold, _random_splits)]
        drawn.append(partial(_any_bounded, self.random, generator))
        scenes = partial(_scenes, self.scenes, generator)
        signs = [partial(_bounded, eta, generator) for eta in self.eta]
        planes = [partial(_on_a_plane, eta) for eta in self.eta if self.integrals]
        fixed = [_heard_change, _divergences, _told_cell, _losses, _features]
        return [*local, *drawn, *fixed, scenes, *signs, *planes]


def _points(
    known: KnownLaw, level: float, draws: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw noisy images of a law and, as a local score is local at every x, others."""
    condition = known.conditions.repeat_interleave(2 * draws, dim=0)
    x = known.law.sample(condition, generator)
    x = x + level * unit_noise(x, generator)
    x[::2] = 2 * unit_noise(x[::2], generator)
    return x, x.new_full((len(x),), level), condition


def _local(known: KnownLaw, draws: int, generator: torch.Generator) -> Statement:
    """CPC <=> LCS, at one noise level <=> at all of them; influence is the closed form."""
    rows, images, count = [], 0, len(known.blocks)
    for level in known.levels:
        asked = _points(known, level, draws, generator)
        found = factorization(known.score, Blocks(known.blocks), *asked, known.projection)
        apart = (_influence(known.law, *asked) - known.law.jacobian(*asked).abs()).abs()
        each = (found.gap, found.coupling, found.leak, apart)
        rows.append([value.max().item() for value in each])
        images += len(asked[0])
    gap, joined, leak, apart = (max(each) for each in zip(*rows, strict=True))
    local, expected = sum(row[0] <= ZERO for row in rows), len(rows) * known.composes
    yield f"lcs_residual@{known.name}", _judged(gap, images, known.composes)
    yield f"coupling@{known.name}", _judged(joined, images, known.pixel_local)
    yield f"leak@{known.name}", _judged(leak, images, known.condition_local)
    yield f"levels_with_lcs@{known.name}", exactly(local, expected, len(rows))
    yield f"influence_residual@{known.name}", residual(apart, images, INFLUENCE)
    if known.composes or known.name.startswith("L2"):
        told = torch.eye(count, dtype=torch.float64)
        value = _cosine(known.law, known.unconditional or known.law, told)
        yield f"cosine@{known.name}", residual(value, count, ZERO)


def _judged(value: float, n: int, zero: bool) -> Measurement:
    return residual(value, n, ZERO) if zero else nonzero(value, n)


def _influence(law: Law, x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
    """Measure influence as on any model: the pixels of a law are an image of one column."""

    def denoiser(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        return law(x.flatten(1), sigma, condition).reshape(x.shape)

    return pixel_influence(denoiser, x[:, None, :, None], sigma, condition, at_once=4096)[..., 0]


def _cosine(law: Law, none: Law, told: Float[Tensor, "block block"]) -> float:
    """Return the largest cosine of what two conditions add to the mean."""
    means = torch.stack([mean_image(law, row) for row in told])
    every = cosines(means, mean_image(none, 0 * told[0]))
    return every[~torch.eye(len(told), dtype=torch.bool)].abs().max().item()


def _heard_change() -> Statement:
    """T4 is local in pixels and not in conditions: its score changes as the formula says."""
    known, worst = laws.shifted_gaussian(), 0.0
    told = known.conditions[-1:]
    for level in known.levels:
        x, sigma = told.new_zeros(1, known.blocks.shape[1]), told.new_full((1,), level)
        for block, more in enumerate(torch.eye(3).to(told)):
            change = known.score(x, sigma, told + more) - known.score(x, sigma, told)
            formula = laws.shifted_change(level, block)
            # Relative to the largest: with little noise scores are large.
            worst = max(worst, ((change[0] - formula).abs().max() / formula.abs().max()).item())
    yield "score_change_residual@T4", residual(worst, 3 * len(known.levels), ZERO)


def _retold(generator: torch.Generator) -> Statement:
    """T4n hears how many are told of, not what: "depends only on" would call it local."""
    known, worst = laws.counted_gaussian(), 0.0
    for level in known.levels:
        x, sigma, told = _points(known, level, 1, generator)
        leak, _ = condition_leak(known.score, Blocks(known.blocks), x, sigma, told, -told)
        worst = max(worst, leak.max().item())
    yield "retold_leak@T4n", residual(worst, 2 * len(known.conditions) * len(known.levels), ZERO)


def _divergences() -> Statement:
    """KL splits into three terms and is the integral over noise of the distance of scores."""
    for rho, printed in laws.COUPLED_DIVERGENCE.items():
        known = laws.coupled_gaussian(rho)
        law, own = _normals(known)
        value = divergence_split(law, own).whole
        apart = max(abs(value - printed), abs(value - laws.coupled_divergence(rho)))
        yield f"kl_residual@{known.name}", residual(apart, 1, PRINTED)
    for known in (*map(laws.coupled_gaussian, laws.COUPLED_DIVERGENCE), laws.shifted_gaussian()):
        law, own = _normals(known)
        yield from _integrated(known.name, divergence_split(law, own), law, law.product(own))
    table = Table(laws.sign_table(0.5))
    split = divergence_split(
        table, [(each, table.marginal(each)) for each in laws.signs(0.5).blocks]
    )
    yield "split_residual@T8", residual(split.residual, 1, SPLIT)


def _told_cell() -> Statement:
    """T5 with one object told: all of the divergence is what is not known of the other cells."""
    told = torch.eye(laws.CELLS, dtype=torch.float64)[0]
    law, silence, mine = Table(laws.scene_table(told)), Table(laws.scene_table(0 * told)), told > 0
    split = divergence_split(law, [(mine, law.marginal(mine))], (~mine, silence.marginal(~mine)))
    yield "split_residual@T5_one", residual(split.residual, 1, SPLIT)
    yield "dependence@T5_one", residual(abs(split.dependence), 1, SPLIT)
    yield "background_leak@T5_one", nonzero(split.background_leak, 1)


def _normals(known: KnownLaw) -> tuple[Normal, list[tuple[Tensor, Normal]]]:
    """Return a normal law told 1 of every block, and the law of each block told of alone."""
    told, covariance = known.conditions[-1:], known.law.covariance
    assert isinstance(covariance, Tensor)
    law = Normal(known.law.mean(told)[0], covariance)
    single = [Normal(known.law.mean(alone(told, j))[0], covariance) for j in range(len(told[0]))]
    return law, [
        (pixels, each.marginal(pixels)) for pixels, each in zip(known.blocks, single, strict=True)
    ]


def _integrated(name: str, split: Split, law: Normal, other: Normal) -> Statement:
    integral = over_noise(lambda variance: law.noisy(variance).fisher(other.noisy(variance)))
    yield f"split_residual@{name}", residual(split.residual, 1, SPLIT)
    yield f"kl_minus_integral@{name}", residual(abs(split.whole - integral), 1, INTEGRAL)


def _random_splits(generator: torch.Generator) -> Statement:
    """The split on laws of no structure: blocks {0} and {1}, background {2}."""
    eye = torch.eye(3, dtype=torch.bool)
    chance = unit_noise(torch.zeros(4, 3, 3, 3).double(), generator).exp()
    table, *others = (Table(each / each.sum()) for each in chance)
    first, second, rest = (
        (mask, law.marginal(mask)) for mask, law in zip(eye, others, strict=True)
    )
    split = divergence_split(table, [first, second], rest)
    yield "split_residual@3x3x3", residual(split.residual, 1, SPLIT)
    root = unit_noise(torch.zeros(4, 3, 4).double(), generator)
    law, *single = (Normal(each[:, 3], each[:, :3] @ each[:, :3].mT + eye) for each in root)
    own = [(mask, each.marginal(mask)) for mask, each in zip(eye, single, strict=True)]
    split = divergence_split(law, own[:2], own[2])
    yield from _integrated("random", split, law, law.product(own))


def _losses() -> Statement:
    """What the best local denoiser loses is how far the scores are apart (T7)."""
    known = laws.paired_gaussian()
    for level, printed in laws.MMSE_GAP.items():
        apart, lost = local_loss(_normals(known)[0], 0, known.blocks[0], level)
        yield f"score_gap_residual@T7_{level:g}", residual(abs(apart - printed), 1, PRINTED)
        yield f"mmse_minus_score_gap@T7_{level:g}", residual(abs(lost - apart), 1, ZERO)


def _features() -> Statement:
    """T6: features that compose do so at every noise level if the map to them is orthogonal."""
    for name, turn in (("rotation", laws.rotation()), ("shear", laws.shear())):
        known, told = laws.feature_gaussian(turn), torch.ones(1, 2).double()
        near, worst, covariance = Blocks(known.blocks).near(told), 0.0, known.law.covariance
        assert isinstance(covariance, Tensor)
        for level in (1e-6, 0.3, 1.0, 3.0):
            asked = turn.new_zeros(1, 4), turn.new_full((1,), level), told
            value = coupling(score_jacobian(InFeatures(known.score, turn), *asked), near).item()
            noisy = turn @ (covariance + level**2 * torch.eye(4).to(turn)) @ turn.mT
            formula = coupling(torch.linalg.inv(noisy)[None], near).item()
            worst = max(worst, abs(value - formula))
            zero = name == "rotation" or level < 1e-3
            yield f"feature_coupling@{name}_{level:g}", _judged(value, 1, zero)
        yield f"feature_coupling_residual@{name}", residual(worst, 4, ZERO)
        means = torch.stack([mean_image(known.law, row) for row in torch.eye(2).double()])
        in_pixels, in_features = (cosines(each, 0 * each[0]) for each in (means, means @ turn.mT))
        yield f"cosine_in_features@{name}", residual(in_features[0, 1].abs().item(), 1, ZERO)
        yield f"cosine_in_pixels@{name}", _judged(in_pixels[0, 1].abs().item(), 1, name != "shear")


def _scenes(count: int, generator: torch.Generator) -> Statement:
    """T5 and T5b: telling of one object speaks against all other cells."""
    told, cells = torch.eye(laws.CELLS, dtype=torch.float64)[0], range(laws.CELLS)
    chance = [
        torch.stack([table.select(cell, 1).sum() for cell in cells])
        for table in (laws.scene_table(told), laws.scene_table(0 * told))
    ]
    change = chance[0] - chance[1]
    far = (change[1:] / change[0] - laws.leak_limit()).abs().max().item()
    yield "signed_leak_residual@T5_one", residual(far, laws.CELLS - 1, PRINTED)
    for level in laws.COUPLING_ONE_MARKED:
        x, first, present = laws.labelled_scenes(count, level, generator)
        sigma, apart = x.new_full((count,), level), 1 - torch.eye(laws.CELLS).to(x)
        inner = denoised_jacobian(laws.scene_all_marked().score, x, sigma, present)
        yield (
            f"cells_coupled@T5_all_{level:g}",
            residual((inner * apart).abs().max().item(), count, ZERO),
        )
        inner = score_jacobian(laws.scene_one_marked().score, x, sigma, first).abs()
        most = (inner * apart).amax(dim=(1, 2)) / (inner * (1 - apart)).amax(dim=(1, 2))
        yield f"cells_coupled@T5_one_{level:g}", Measurement.mean(most.tolist())
    for level in laws.LEAK_ONE_MARKED:
        ratio = _leak_ratio(count, level, generator)
        if level == 10:
            near = abs(ratio.value + laws.leak_limit()) <= LIMIT
            words = f"proved, within {LIMIT:g} of 1 / {laws.CELLS - 1}" if near else "broken: far"
            ratio = replace(ratio, verdict=words)
        yield f"leak_ratio@T5_one_{level:g}", ratio


def _leak_ratio(count: int, level: float, generator: torch.Generator) -> Measurement:
    """Return the change of the score at another cell over that at the cell that is told."""
    x, first, _ = laws.labelled_scenes(count, level, generator)
    score, sigma = laws.scene_one_marked().score, x.new_full((count,), level)
    moved = (score(x, sigma, first) - score(x, sigma, 0 * first)).abs()
    own, others = (moved * first).sum(dim=1), (moved * (1 - first)).sum(dim=1)
    return shared([(others / (laws.CELLS - 1), own)])


def _bounded(eta: float, generator: torch.Generator) -> Statement:
    """T8: a ratio of laws within [1 - eta, 1 + eta] bounds how far their scores are apart."""
    laws_apart = laws.signs(eta).law, laws.signs(0.0).law
    ends = 1 - eta, 1 + eta
    asked = [_against(*laws_apart, *ends, level, generator) for level in LEVELS]
    yield from _bound(f"T8_{eta:g}", asked)


def _any_bounded(count: int, generator: torch.Generator) -> Statement:
    """The bound on random laws: eight images of three pixels, weights changed at random."""
    asked = []
    for level in LEVELS * count:
        image, logs = unit_noise(torch.zeros(8, 5).double(), generator).split((3, 2), dim=1)
        q, p = logs[:, 0].softmax(dim=0), logs.sum(dim=1).softmax(dim=0)
        ends = (p / q).min().item(), (p / q).max().item()
        pair = laws.atoms(image.tanh(), p), laws.atoms(image.tanh(), q)
        asked.append(_against(*pair, *ends, level, generator))
    yield from _bound("random", asked)


def _against(
    p: Law, q: Law, low: float, high: float, level: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return how far two scores are apart at noisy images of either law, and their bound."""
    told = torch.zeros(20, 1).double()
    x = torch.cat([law.sample(told, generator) for law in (p, q)])
    x = x + level * unit_noise(x, generator)
    asked = x, x.new_full((len(x),), level), torch.zeros(len(x), 1)
    spread = (level**2 * q.jacobian(*asked).diagonal(dim1=1, dim2=2)).clamp(min=0).sqrt()
    gap = (p.score(*asked) - q.score(*asked)).abs()
    return gap.flatten(), ratio_bound(spread, level, low, high).flatten()


def _bound(name: str, asked: list[tuple[Tensor, Tensor]]) -> Statement:
    gap, bound = (torch.cat(each) for each in zip(*asked, strict=True))
    yield f"bound_violations@{name}", exactly(violations(gap, bound), 0, len(gap))
    largest = (gap / bound)[bound > 1e-6].max().item()
    yield f"bound_largest_ratio@{name}", residual(largest, len(gap), 1 + 1e-9)


def _on_a_plane(eta: float) -> Statement:
    """The same of a law that is not normal: the two coupled pixels of T8."""
    law, product = laws.sign_pair(eta)
    pair, near = Pair(law), marginal(law, torch.tensor([True, False]))
    apart, lost = pair.local_loss(near, 1.0)
    yield f"mmse_minus_score_gap@T8_{eta:g}", residual(abs(lost - apart), 1, ZERO)
    # Of noisy images: noise only multiplies, so what does not factorize shows at every level.
    weight, (x, *_) = pair.points(0.25)
    frequency = torch.cartesian_prod(*[torch.linspace(-2, 2, 5).double()] * 2)
    seen = characteristic(x, weight, frequency) * (frequency.square().sum(dim=1) / 8).exp()
    clean = frequency.cos().prod(dim=1) - eta * frequency.sin().prod(dim=1)
    yield (
        f"denoised_characteristic@T8_{eta:g}",
        residual((seen - clean).abs().max().item(), 25, ZERO),
    )
    chances = (Table(each.log_weight(torch.zeros(1, 1))[0].exp()) for each in (law, product))
    divergence = next(chances).divergence(next(chances))
    integral = over_noise(partial(pair.fisher, product), span=(0.015, 1e5))
    yield f"kl_minus_integral@T8_{eta:g}", residual(abs(divergence - integral), 1, INTEGRAL)


base = Factorizing("Does a law compose exactly when its scores are local?")
