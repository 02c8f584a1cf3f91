"""A Gaussian's trajectory is known in closed form, so the sampler has nowhere to hide."""

import ast
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist

import pytest
import torch
from torch import Tensor

import recombine.sample
from recombine.denoiser import Denoiser
from recombine.draw import bits
from recombine.models.gaussian import Constant, GaussianLaw, spectrum
from recombine.models.mixture import MixtureLaw
from recombine.sample.guidance import Guidance
from recombine.sample.heun import (
    HEUN,
    QUICK_LOWEST,
    QUICK_STEPS,
    Sampler,
    Solver,
    anew,
    heun,
    multistep,
    quick,
    seeded_noise,
    trajectory,
)
from recombine.spelling import spelled

SEEDS = torch.arange(12) * 1_000_003


def correlated() -> GaussianLaw:
    distance = (torch.arange(4)[:, None] - torch.arange(4)).abs()
    return GaussianLaw(Constant(torch.ones(1, 2, 2).double()), 0.25 * 0.6 ** distance.double())


class Pixelwise:
    """The exact denoiser of independent pixels whose mean is told; it counts its calls."""

    calls = 0

    def __call__(self, x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        self.calls += 1
        level = sigma[:, None, None, None] ** 2
        mean = condition[:, None, None, None].to(x)
        return mean + (x - mean) * 0.25 / (0.25 + level)


def final(denoiser: Denoiser, start: Tensor, told: Tensor, sampler: Sampler) -> Tensor:
    *_, last = trajectory(denoiser, start, told, sampler)
    return last.x


def published(denoiser: Denoiser, x: Tensor, told: Tensor, levels: list[float]) -> Tensor:
    """DPM-Solver++(2M) as its paper writes it: algorithm 2, with alpha 1 and lambda -log sigma."""
    time = [-math.log(level) for level in levels]

    def data(x: Tensor, i: int) -> Tensor:
        return denoiser(x, torch.full((len(x),), levels[i], dtype=x.dtype), told)

    buffer = [data(x, 0)]
    h = [math.nan, *(later - now for now, later in pairwise(time))]
    x = levels[1] / levels[0] * x - math.expm1(-h[1]) * buffer[0]
    for i in range(2, len(levels)):
        buffer.append(data(x, i - 1))
        r = h[i - 1] / h[i]
        direction = (1 + 1 / (2 * r)) * buffer[i - 1] - 1 / (2 * r) * buffer[i - 2]
        x = levels[i] / levels[i - 1] * x - math.expm1(-h[i]) * direction
    return x


def largest_error(sampler: Sampler) -> float:
    """Compare at the lowest level: the last step to zero is Euler's and has an error of its own."""
    law, start = correlated(), seeded_noise(SEEDS, (1, 2, 2), dtype=torch.float64)
    *_, before, _ = trajectory(law, start, start, sampler)
    axes, mean = spectrum(law.covariance), law.mean(start)
    highest, lowest = (axes.variance + level**2 for level in (sampler.highest, sampler.lowest))
    offset = axes.along((start * sampler.highest - mean).flatten(1))
    exact = mean + axes.back(offset * (lowest / highest).sqrt()).reshape(start.shape)
    return (before.x - exact).abs().max().item()


@pytest.mark.parametrize("steps", [32, 64])
def test_twice_the_steps_make_a_quarter_of_heuns_error(steps: int):
    once, twice = (largest_error(Sampler(n)) for n in (steps, 2 * steps))
    assert once / twice == pytest.approx(4, rel=0.15)


def test_twice_the_steps_make_a_quarter_of_the_multistep_error():
    """Asymptotically: its first step is of first order, over a step that shrinks."""
    errors = [largest_error(Sampler(n, solver=multistep)) for n in (64, 128, 256)]
    for once, twice in pairwise(errors):
        assert once / twice == pytest.approx(4, rel=0.1)


def test_multistep_is_the_published_algorithm():
    law, start = correlated(), seeded_noise(SEEDS, (1, 2, 2), dtype=torch.float64)
    sampler = Sampler(6, lowest=0.05, solver=multistep)
    levels = sampler.levels().tolist()
    *_, before, last = trajectory(law, start, start, sampler)
    expected = published(law, start * levels[0], start, levels[:-1])
    torch.testing.assert_close(before.x, expected, rtol=1e-12, atol=1e-12)
    # The step to no noise ends in the denoised image itself.
    sigma = torch.full((len(start),), levels[-2], dtype=torch.float64)
    torch.testing.assert_close(last.x, law(expected, sigma, start), rtol=1e-12, atol=1e-12)
    assert not torch.allclose(before.x, final(law, start, start, replace(sampler, solver=heun)))


@pytest.mark.parametrize(("solver", "calls"), [(heun, 13), (multistep, 7)])
def test_evaluations_are_counted(solver: Solver, calls: int):
    denoiser, sampler = Pixelwise(), Sampler(7, solver=solver)
    final(denoiser, torch.ones(2, 1, 2, 2), torch.zeros(2), sampler)
    assert denoiser.calls == sampler.evaluations == calls


def test_the_quick_sampler_takes_few_steps_and_keeps_what_else_is_declared():
    guidance = Guidance(torch.zeros_like, 3.0)
    declared = Sampler(18, highest=40.0, guidance=guidance)
    assert quick(declared) == replace(declared, steps=QUICK_STEPS, lowest=QUICK_LOWEST)
    assert quick(declared).evaluations * 2.5 < declared.evaluations
    assert quick(Sampler(3, lowest=0.5)) == Sampler(3, lowest=0.5)


def test_a_declared_sampler_is_spelled_as_before():
    assert "solver" not in spelled(Sampler(18))
    assert "solver=multistep" in spelled(Sampler(18, solver=multistep))


def test_what_is_kept_is_not_drawn_again():
    kept: dict[tuple[int, ...], dict[str, Tensor]] = {}
    denoiser, told = Pixelwise(), torch.linspace(-1, 1, 12)

    def keep(of: Sequence[Tensor], work: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        key = tuple(number for each in of for number in each.tolist())
        kept[key] = kept[key] if key in kept else work()
        return kept[key]

    draw = replace(Sampler(2).generator(denoiser, (1, 2, 2), batch=5), keep=keep)
    first = draw.seeded(told, SEEDS)
    calls = denoiser.calls
    assert [len(key) for key in kept] == [10, 10, 4]
    assert torch.equal(draw.seeded(told, SEEDS), first)
    assert denoiser.calls == calls
    for other in ((told, SEEDS + 1), (told + 1, SEEDS)):
        assert torch.equal(draw.seeded(*other), replace(draw, keep=anew).seeded(*other))
    assert torch.equal(replace(draw, keep=anew).seeded(told, SEEDS), first)


def test_the_default_sampler_is_accurate_to_a_few_hundredths_of_a_deviation():
    assert largest_error(HEUN) < 0.05 * 0.5


def test_a_mixtures_quantiles_survive_the_descent():
    """In one dimension the flow keeps every point's quantile, so its end is known exactly."""
    mean, weight = torch.tensor([[-1.0], [0.5]]).double(), torch.tensor([0.3, 0.7]).double()
    law = MixtureLaw(Constant(weight.log()), Constant(mean), 0.04 * torch.eye(1).double())

    def quantile(x: Tensor, sigma: float) -> Tensor:
        spread = (0.04 + sigma**2) ** 0.5
        return (weight * torch.special.ndtr((x - mean.T) / spread)).sum(dim=1)

    start = torch.linspace(-2, 2, 9, dtype=torch.float64)[:, None]
    sample = final(law, start, start, Sampler(steps=64))
    torch.testing.assert_close(quantile(sample, 0.0), quantile(80 * start, 80.0), rtol=0, atol=2e-3)


def test_levels_fall_evenly_in_their_root():
    levels = Sampler(steps=5, highest=32.0, lowest=1.0, bend=5.0).levels()
    expected = torch.tensor([2, 1.75, 1.5, 1.25, 1]).double() ** 5
    torch.testing.assert_close(levels, torch.cat([expected, torch.zeros(1)]))
    assert HEUN.levels()[[0, -2, -1]].tolist() == pytest.approx([80, 0.002, 0])
    assert Sampler(steps=1).levels().tolist() == pytest.approx([80, 0])


def test_every_step_can_be_watched():
    start, told = torch.ones(2, 1, 2, 2), torch.zeros(2)
    sampler = Sampler(steps=6)
    moments = list(trajectory(Pixelwise(), start, told, sampler))
    assert [moment.step for moment in moments] == [1, 2, 3, 4, 5, 6]
    assert [moment.sigma for moment in moments] == sampler.levels()[1:].tolist()
    before, after = moments[2:4]
    sigma = torch.full((2,), before.sigma)
    torch.testing.assert_close(after.denoised, Pixelwise()(before.x, sigma, told))


def test_a_denoiser_is_called_no_more_than_needed():
    denoiser = Pixelwise()
    path = trajectory(denoiser, torch.ones(2, 1, 2, 2), torch.zeros(2))
    assert denoiser.calls == 0
    next(path)
    assert denoiser.calls == 2
    assert len(list(path)) == 31
    assert denoiser.calls == 63


def test_watching_leaves_gradients_as_they_were():
    weight = torch.ones((), requires_grad=True)
    path = trajectory(lambda x, *_: weight * x, torch.ones(1, 2), torch.ones(1), Sampler(2))
    moment = next(path)
    assert torch.is_grad_enabled()
    assert not moment.x.requires_grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_sample_does_not_depend_on_its_batch(dtype: torch.dtype):
    told = torch.linspace(-1, 1, 12, dtype=dtype)
    whole = Sampler(steps=4).generator(Pixelwise(), (3, 5, 7))
    expected = whole.seeded(told, SEEDS)
    for batch in (1, 5, 8):
        assert torch.equal(replace(whole, batch=batch).seeded(told, SEEDS), expected)
    turned = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    assert torch.equal(whole.seeded(told[turned], SEEDS[turned]), expected[turned])
    assert not torch.equal(whole.seeded(told, SEEDS + 1), expected)


def test_a_generator_draws_from_the_law_it_was_given():
    draw = Sampler(steps=48).generator(correlated(), (1, 2, 2), batch=8_000)
    told = torch.zeros(8_000, dtype=torch.float64)
    samples = draw(told, torch.Generator().manual_seed(0)).flatten(1)
    torch.testing.assert_close(samples.T.cov(), correlated().covariance, rtol=0, atol=0.015)
    torch.testing.assert_close(samples.mean(dim=0), torch.ones(4).double(), rtol=0, atol=0.02)


def test_the_generator_decides_the_samples():
    draw, told = Sampler(2).generator(Pixelwise(), (1, 2, 2)), torch.zeros(3)
    first, again, other = (draw(told, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first[0], first[1])


def test_a_sample_has_the_precision_of_its_start_or_condition():
    for dtype in (torch.float32, torch.float64):
        start = torch.ones(1, 1, 2, 2, dtype=dtype)
        assert final(correlated(), start, start, Sampler(4)).dtype == dtype
        draw = Sampler(4).generator(Pixelwise(), (1, 2, 2))
        assert draw.seeded(torch.zeros(12, dtype=dtype), SEEDS).dtype == dtype
    assert draw.seeded(torch.zeros(12, dtype=torch.int64), SEEDS).dtype == torch.float32


def test_seeded_noise_is_the_quantile_of_hashed_bits():
    """A naive twin in whole numbers, and a fingerprint: stored seeds keep their samples."""
    seeds = torch.tensor([0, 7, 2**62])
    found = seeded_noise(seeds, (2,), step=3, dtype=torch.float64)
    hashed = bits(0x5A3B1E, seeds, torch.tensor([6, 7])).tolist()
    expected = [
        [NormalDist().inv_cdf(((number % 2**64 >> 12) + 0.5) / 2**52) for number in row]
        for row in hashed
    ]
    assert found.tolist() == [pytest.approx(row, abs=1e-9) for row in expected]
    assert found[0].tolist() == pytest.approx([0.053098739657, 1.442020116698], abs=1e-9)


def test_sampling_imports_nothing_of_training():
    """A shipped model can be sampled where no training code is."""
    files = Path(recombine.sample.__file__).parent.glob("*.py")
    imported = {
        node.module
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom)
    }
    chapters = {name.split(".")[1] for name in imported if name.startswith("recombine.")}
    assert chapters == {"denoiser", "draw", "models", "sample", "spelling"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": 0}, "at least 1 step; got 0"),
        ({"lowest": 0.0}, "positive lowest; got 80.0 and 0.0"),
        ({"highest": 0.001}, "got 0.001 and 0.002"),
        ({"highest": float("inf")}, "got inf"),
        ({"lowest": float("nan")}, "got 80.0 and nan"),
        ({"bend": 0.0}, "bend is positive; got 0"),
    ],
)
def test_bad_samplers_are_named(wrong: dict[str, float], message: str):
    with pytest.raises(ValueError, match=message):
        Sampler(**wrong)


@pytest.mark.usefixtures("unhooked")
def test_missing_seeds_and_wrong_shapes_are_named():
    start, told = torch.ones(2, 1, 2, 2), torch.zeros(2)
    with pytest.raises(ValueError, match="2 conditions need as many seeds; got 12"):
        HEUN.generator(Pixelwise(), (1, 2, 2)).seeded(told, SEEDS)
    with pytest.raises(ValueError, match="a batch holds at least 1 image; got 0"):
        HEUN.generator(Pixelwise(), (1, 2, 2), batch=0)
    with pytest.raises(ValueError, match=r"shape of x, \(2, 1, 2, 2\); got \(2, 2, 2\)"):
        next(trajectory(lambda x, *_: x[:, 0], start, told))


def test_every_step_of_every_batch_is_watched(rng: torch.Generator):
    heard: list[tuple[float, int]] = []

    def denoiser(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        return torch.zeros_like(x)

    watched = Sampler(steps=2).generator(denoiser, (1, 2, 2), 2, lambda *told: heard.append(told))
    images = watched(torch.zeros(3, 1), rng)
    assert len(images) == 3
    assert heard == [(1.0, 3), (2.0, 3), (2.5, 3), (3.0, 3)]
