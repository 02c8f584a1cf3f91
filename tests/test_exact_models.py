"""Every law keeps the same contract: density, score, denoiser and Jacobian are one thing."""

from itertools import product

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

from recombine.denoiser import Denoiser, per_image, score
from recombine.models.gaussian import Constant, GaussianLaw, Spectrum, spectrum
from recombine.models.mixture import MixtureLaw, marks_all, marks_one, scene_law

SIGMA = torch.tensor([0.002, 0.3, 1.0, 80.0], dtype=torch.float64)
SHAPE = (1, 2, 3)


def covariances(count: int, pixels: int = 6) -> Tensor:
    root = torch.randn(count, pixels, pixels, generator=torch.Generator().manual_seed(1)).double()
    return root @ root.mT / pixels + 0.05 * torch.eye(pixels, dtype=torch.float64)


def told_mean(condition: Tensor) -> Tensor:
    return condition.reshape(-1, *SHAPE)


def told_covariance(condition: Tensor) -> Tensor:
    return covariances(1) * (1 + condition.abs().sum(dim=1))[:, None, None]


def told_weight(condition: Tensor) -> Tensor:
    return condition[:, :3]


def three_means(condition: Tensor) -> Tensor:
    return torch.stack([condition, -condition, 2 * condition.flip(1)], dim=1).reshape(-1, 3, *SHAPE)


LAWS = {
    "gaussian": GaussianLaw(told_mean, covariances(1)[0]),
    "gaussian with told covariance": GaussianLaw(told_mean, told_covariance),
    "mixture": MixtureLaw(told_weight, three_means, covariances(1)[0]),
    "mixture with own covariances": MixtureLaw(told_weight, three_means, covariances(3)),
    "scenes, everything told": scene_law(SHAPE, marks_all),
    "scenes, one told": scene_law(SHAPE, marks_one),
}
Law = GaussianLaw | MixtureLaw
each_law = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())


def conditions(law: Law) -> Tensor:
    """Return four conditions that every law can be told, or random numbers where it may."""
    if law in list(LAWS.values())[4:]:
        return torch.eye(6, dtype=torch.float64)[[0, 3, 3, 5]]
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(2)).double()


def twin(law: Law, sigma: Tensor, condition: Tensor):
    """Return the law of flat noisy images as torch knows it, for one condition."""
    blur = sigma**2 * torch.eye(6, dtype=torch.float64)
    mean = law.mean(condition[None])[0]
    if isinstance(law, GaussianLaw):
        shared = isinstance(law.covariance, Tensor)
        covariance = law.covariance if shared else law.covariance(condition[None])[0]
        return MultivariateNormal(mean.flatten(), covariance + blur)
    parts = MultivariateNormal(mean.flatten(1), law.covariance + blur)
    return MixtureSameFamily(Categorical(logits=law.log_weight(condition[None])[0]), parts)


def noisy(law: Law, rng: torch.Generator) -> Tensor:
    clean = law.sample(conditions(law), rng)
    return clean + per_image(SIGMA, clean) * torch.randn(clean.shape, generator=rng).double()


@each_law
def test_a_law_is_a_denoiser(law: Law):
    assert isinstance(law, Denoiser)


@each_law
def test_the_log_density_agrees_with_torchs(law: Law, rng: torch.Generator):
    x, told = noisy(law, rng), conditions(law)
    expected = [
        twin(law, *rest).log_prob(x.flatten()) for x, *rest in zip(x, SIGMA, told, strict=True)
    ]
    torch.testing.assert_close(law.log_density(x, SIGMA, told), torch.stack(expected))


@each_law
def test_the_score_is_the_gradient_of_the_log_density(law: Law, rng: torch.Generator):
    x, told = noisy(law, rng).requires_grad_(), conditions(law)
    (expected,) = torch.autograd.grad(law.log_density(x, SIGMA, told).sum(), x)
    torch.testing.assert_close(law.score(x, SIGMA, told), expected, rtol=1e-8, atol=1e-10)


@each_law
def test_the_denoised_image_reads_as_the_score(law: Law, rng: torch.Generator):
    x, told = noisy(law, rng), conditions(law)
    read = score(law(x, SIGMA, told), x, SIGMA)
    torch.testing.assert_close(read, law.score(x, SIGMA, told), rtol=1e-7, atol=1e-8)


@each_law
def test_the_jacobian_is_the_denoisers_derivative(law: Law, rng: torch.Generator):
    x, told = noisy(law, rng), conditions(law)
    for row in range(4):
        one = slice(row, row + 1)
        expected = torch.autograd.functional.jacobian(
            lambda x, one=one: law(x, SIGMA[one], told[one]), x[one]
        ).reshape(6, 6)
        exact = law.jacobian(x[one], SIGMA[one], told[one])[0]
        torch.testing.assert_close(exact, expected, rtol=1e-8, atol=1e-10)


@each_law
def test_samples_have_the_mean_and_covariance_that_much_noise_reveals(law: Law, rng):
    told = conditions(law)[1:2]
    blurred = torch.tensor([1e4], dtype=torch.float64)
    nothing = torch.zeros(1, *SHAPE).double()
    mean = law(nothing, blurred, told).flatten()
    covariance = blurred**2 * law.jacobian(nothing, blurred, told)[0]
    samples = law.sample(told.expand(40_000, -1), rng).flatten(1)
    torch.testing.assert_close(samples.mean(dim=0), mean, rtol=0, atol=0.03)
    torch.testing.assert_close(samples.T.cov(), covariance, rtol=0.05, atol=0.05)


@each_law
def test_the_same_generator_draws_the_same_samples(law: Law):
    first, second = (
        law.sample(conditions(law), torch.Generator().manual_seed(5)) for _ in range(2)
    )
    assert torch.equal(first, second)


@each_law
def test_single_precision_is_enough_from_little_to_much_noise(law: Law, rng: torch.Generator):
    x, told = noisy(law, rng), conditions(law)
    for ask in (law, law.score, law.log_density, law.jacobian):
        rough = ask(x.float(), SIGMA.float(), told.float())
        assert rough.dtype == torch.float32
        exact = ask(x.float().double(), SIGMA.float().double(), told.float().double())
        torch.testing.assert_close(rough.double(), exact, rtol=2e-3, atol=2e-3)


@each_law
def test_far_from_every_image_the_answer_is_still_finite(law: Law):
    x = torch.full((4, *SHAPE), 300.0)
    for ask in (law, law.score, law.log_density, law.jacobian):
        assert ask(x, SIGMA.float(), conditions(law).float()).isfinite().all()


def test_a_flat_direction_is_denoised_to_the_mean():
    law = GaussianLaw(Constant(torch.zeros(2)), torch.diag(torch.tensor([1.0, 0.0])))
    denoised = law(torch.tensor([[2.0, 2.0]]), torch.ones(1), torch.zeros(1))
    torch.testing.assert_close(denoised, torch.tensor([[1.0, 0.0]]))


def test_blocks_told_apart_are_heard_apart(rng: torch.Generator):
    """T2 of the fact sheet: three blocks, each a mixture of two set by its own condition."""
    choices = torch.tensor(list(product([0, 1], repeat=3)))
    places = torch.randn(3, 2, 3, generator=rng, dtype=torch.float64)
    shared = torch.block_diag(*covariances(3, pixels=3))

    def means(told: Tensor) -> Tensor:
        blocks = [places[j, choices[:, j]] * (1 + told[:, j, None, None]) for j in range(3)]
        return torch.cat(blocks, dim=-1)

    def weights(told: Tensor) -> Tensor:
        return (told[:, None] * choices).sum(dim=-1)

    law = MixtureLaw(weights, means, shared)
    told = torch.rand(4, 3, generator=rng, dtype=torch.float64)
    x, sigma = torch.randn(4, 9, generator=rng).double(), torch.tensor([0.05, 0.3, 2, 50]).double()
    elsewhere = torch.block_diag(*[torch.ones(3, 3)] * 3) == 0
    assert law.jacobian(x, sigma, told)[:, elsewhere].abs().max() < 1e-12
    changed = told.clone()
    changed[:, 0] += 1
    change = (law.score(x, sigma, changed) - law.score(x, sigma, told)).abs()
    assert change[:, 3:].max() < 1e-10
    assert change[:, :3].min() > 1e-6


def test_a_mean_that_hears_other_conditions_moves_the_score_as_computed(rng: torch.Generator):
    """T4 of the fact sheet: pixel-local, not condition-local."""
    blocks, beta = covariances(2, pixels=2), 0.3
    delta = torch.tensor([1.0, -2.0], dtype=torch.float64)

    def mean(told: Tensor) -> Tensor:
        return torch.cat([(told + beta * told.flip(1))[:, [j]] * delta for j in range(2)], dim=1)

    law = GaussianLaw(mean, torch.block_diag(*blocks))
    x, sigma = torch.randn(1, 4, generator=rng).double(), torch.tensor([0.7]).double()
    before, after = (
        law.score(x, sigma, torch.tensor([[1.0, told]]).double())[0, :2] for told in (0.0, 1.0)
    )
    noisy_block = blocks[0] + 0.49 * torch.eye(2, dtype=torch.float64)
    torch.testing.assert_close(after - before, beta * torch.linalg.solve(noisy_block, delta))


@pytest.mark.parametrize(
    ("sigma", "gap"), [(0.3, 0.398834958770), (1.0, 0.049450549451), (3.0, 0.000361300682)]
)
def test_the_price_of_locality_is_the_gap_of_the_best_errors(sigma: float, gap: float):
    """T7 of the fact sheet; the best error is sigma^2 times the trace of the Jacobian."""
    covariance = torch.eye(4, dtype=torch.float64)
    covariance[0, 2] = covariance[2, 0] = 0.6
    level = torch.tensor([sigma], dtype=torch.float64)

    def best_error(law: GaussianLaw) -> Tensor:
        nothing = law.mean(level)
        return level**2 * law.jacobian(nothing, level, level)[0, 0, 0]

    nothing = torch.zeros(4, dtype=torch.float64)
    local = GaussianLaw(Constant(nothing[:2]), covariance[:2, :2])
    gap_found = (best_error(local) - best_error(GaussianLaw(Constant(nothing), covariance))).item()
    assert gap_found / sigma**4 == pytest.approx(gap, abs=1e-9)


def test_a_condition_under_which_nothing_is_possible_is_named():
    never = MixtureLaw(lambda told: told.log(), Constant(torch.zeros(2, 2)), torch.eye(2))
    with pytest.raises(ValueError, match="no component of this law is possible under condition 1"):
        never.sample(torch.tensor([[1.0, 0.0], [0.0, 0.0]]), torch.Generator())


@pytest.mark.usefixtures("unhooked")
def test_impossible_covariances_are_named():
    zero = Constant(torch.zeros(2))
    with pytest.raises(ValueError, match=r"square matrix; got \(2, 3\)"):
        GaussianLaw(zero, torch.ones(2, 3))
    with pytest.raises(ValueError, match="finite and symmetric"):
        GaussianLaw(zero, torch.tensor([[1.0, 0.5], [0.0, 1.0]]))
    with pytest.raises(ValueError, match="finite and symmetric"):
        spectrum(torch.full((2, 2), torch.nan))
    with pytest.raises(ValueError, match="no negative variance; got -1"):
        GaussianLaw(zero, torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    with pytest.raises(ValueError, match="shape .pixel, pixel. or"):
        MixtureLaw(zero, zero, torch.ones(2))


@pytest.mark.usefixtures("unhooked")
def test_images_of_another_shape_are_named():
    law = GaussianLaw(Constant(torch.zeros(2)), torch.eye(2))
    with pytest.raises(ValueError, match=r"have the shape \(2,\); x: \(1, 3\)"):
        law(torch.zeros(1, 3), torch.ones(1), torch.zeros(1))
    with pytest.raises(ValueError, match="an image of 2 pixels needs as many variances; .* has 3"):
        GaussianLaw(Constant(torch.zeros(2)), torch.eye(3))(
            torch.zeros(1, 2), torch.ones(1), torch.zeros(1)
        )
    with pytest.raises(ValueError, match="condition has 1 rows"):
        law(torch.zeros(1, 2), torch.ones(1), torch.zeros(4))
    mixture = MixtureLaw(Constant(torch.zeros(3)), Constant(torch.zeros(2, 4)), torch.eye(4))
    with pytest.raises(ValueError, match=r"disagree: \[2, 3\] components"):
        mixture(torch.zeros(1, 4), torch.ones(1), torch.zeros(1))


def test_a_spectrum_rebuilds_its_covariance():
    covariance = covariances(3)
    axes = spectrum(covariance)
    assert isinstance(axes, Spectrum)
    torch.testing.assert_close(axes.matrix(axes.variance), covariance)
