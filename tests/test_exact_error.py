"""The error against an exact denoiser, on denoisers whose error is known."""

from dataclasses import dataclass

import pytest
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from recombine.measure.exact import ExactError, relative
from recombine.studies.toy import CENTRES, Clouds
from recombine.worlds.circles import Circles
from subjects import Model, training


@dataclass(frozen=True)
class OffBy:
    """The exact denoiser, with its distance from the mean stretched."""

    factor: float

    def __call__(
        self,
        x: Float[Tensor, " batch *image"],
        sigma: Float[Tensor, " batch"],
        condition: Shaped[Tensor, " batch *condition"],
    ) -> Float[Tensor, " batch *image"]:
        mean = torch.tensor(CENTRES).mean(dim=0).reshape(2, 1, 1)
        return mean + self.factor * (Clouds().law(x, sigma, condition) - mean)


@pytest.mark.parametrize(("factor", "error"), [(1.0, 0.0), (0.0, 1.0), (1.25, 0.25), (0.5, 0.5)])
def test_the_relative_error_is_what_it_is_called(factor: float, error: float):
    subject = Model(training(world=Clouds()), denoiser=OffBy(factor))
    found = ExactError(points=256)(subject, torch.Generator().manual_seed(0))
    assert len(found.measurements) == 5
    for measured in found.measurements.values():
        assert measured.value == pytest.approx(error, abs=1e-5)
        assert measured.low <= measured.value <= measured.high


def test_the_error_is_measured_at_noisy_points_of_the_law(rng: torch.Generator):
    seen: dict[float, Tensor] = {}

    def noting(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        seen.setdefault(round(sigma[0].item(), 3), x.flatten(1))
        return x

    measure = ExactError()
    measure(Model(training(world=Clouds()), denoiser=noting), rng)
    clean = Clouds().law.sample(torch.zeros(1 << 14, 4), rng).flatten(1).float()
    for level in measure.levels:
        expected = clean.T.cov() + level**2 * torch.eye(2)
        torch.testing.assert_close(seen[level].T.cov(), expected, atol=0.05, rtol=0.05)


def test_the_interval_of_a_relative_error_holds_the_truth_as_often_as_it_says(rng: torch.Generator):
    hits = 0
    for _ in range(400):
        spread = torch.randn(200, generator=rng).square()
        error = 0.04 * spread * torch.rand(200, generator=rng) * 2
        measured = relative(error, spread)
        hits += measured.low <= 0.2 <= measured.high
    assert 0.91 < hits / 400 < 0.985


def test_the_kept_scores_of_the_exact_denoiser_agree():
    subject = Model(training(world=Clouds()), denoiser=OffBy(1.0))
    kept = ExactError()(subject, torch.Generator()).arrays
    torch.testing.assert_close(kept["learned_score"], kept["exact_score"], atol=1e-3, rtol=1e-3)
    assert len(kept["place"]) == len(kept["exact_score"]) == 17**2
    sigma = torch.full((17**2,), ExactError().shown)
    truth = Clouds().law.score(kept["place"][:, :, None, None], sigma, torch.zeros(17**2, 4))
    torch.testing.assert_close(kept["exact_score"], truth.flatten(1).float(), atol=1e-4, rtol=1e-4)


def test_a_world_without_a_law_is_refused():
    with pytest.raises(ValueError, match="on worlds whose law is known; got Circles"):
        ExactError()(Model(training(world=Circles())), torch.Generator())
