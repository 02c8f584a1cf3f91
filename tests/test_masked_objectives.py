"""What is hidden of tokens, losses that count the hidden ones alone, and what they come to."""

from dataclasses import replace
from math import log, pi
from statistics import NormalDist

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

import recombine.denoiser
from masked_models import CODES, DENOISING, MIXTURE, conditions, each_objective, tokens_of
from recombine.models.heads import GaussianMixture
from recombine.models.masked import Masked, Predicted
from recombine.objectives.diffusion import Diffusion, Dropout
from recombine.objectives.masked import (
    Corruption,
    MaskedCrossEntropy,
    MaskedDiffusion,
    MaskedMixture,
    MostHidden,
    hide,
    log_density,
)
from recombine.share import SharedDraws
from subjects import perturbed


def test_the_share_that_is_hidden_follows_its_law(rng: torch.Generator):
    share = hide(torch.empty(20_000, 32, 32), rng).float().mean((1, 2))
    for most in (0.1, 0.3, 0.5, 0.8):
        # arccos(u) / (pi / 2) <= p means u >= cos(pi p / 2).
        exact = 1 - torch.tensor(pi / 2 * most).cos()
        assert (share <= most).float().mean().item() == pytest.approx(exact.item(), abs=0.015)


def test_most_are_hidden_as_the_normal_law_has_it(rng: torch.Generator):
    """Of 1 + sigma z, z below 0 and above (least - 1) / sigma: mean and quantiles are known."""
    declared, law, high = MostHidden(0.4, 0.3), NormalDist(1, 0.3), 0.5
    low = law.cdf(0.4)
    share = hide(torch.empty(20_000, 32, 32), rng, declared).float().mean((1, 2))
    mean = 1 - 0.3**2 * (law.pdf(1) - law.pdf(0.4)) / (high - low)
    assert share.mean().item() == pytest.approx(mean, abs=0.003)
    for most in (0.5, 0.7, 0.9):
        exact = (law.cdf(most) - low) / (high - low)
        assert (share <= most).float().mean().item() == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        *(({"least": least}, f"got {least}") for least in (-0.1, 1.0, float("nan"))),
        *(({"spread": spread}, f"got {spread}") for spread in (0.0, -1.0, float("inf"))),
    ],
)
def test_a_least_share_is_a_share_and_a_spread_is_positive(wrong: dict[str, float], message: str):
    with pytest.raises(ValueError, match=message):
        MostHidden(**wrong)


@each_objective
def test_an_objective_hides_the_declared_share(declared, objective, rng: torch.Generator):
    tokens = tokens_of(declared, 500, rng)
    drawn = replace(objective, portion=MostHidden(0.9)).corrupted(tokens, rng)
    assert drawn.hidden.float().mean().item() == pytest.approx(0.95, abs=0.02)


def test_something_is_always_hidden(rng: torch.Generator):
    hidden = hide(torch.empty(50_000, 2, 2), rng)
    assert hidden.any(2).any(1).all()
    assert (hidden.sum((1, 2)) == 1).any()


def test_tokens_are_hidden_independently_given_the_share(rng: torch.Generator):
    """All 16 would be visible in .7^16 = .003 of images; there one is hidden."""
    hidden = hide(torch.empty(100_000, 4, 4), rng, lambda draw: 0 * draw + 0.3)
    hidden = hidden.flatten(1).double()
    torch.testing.assert_close(hidden.mean(0), torch.full((16,), 0.3).double(), atol=6e-3, rtol=0)
    assert (torch.corrcoef(hidden.T) - torch.eye(16)).abs().max() < 0.015


def test_log_density_is_that_of_torch(rng: torch.Generator):
    mixed = GaussianMixture(
        torch.randn(6, 5, generator=rng).double().log_softmax(-1),
        torch.randn(6, 5, 3, generator=rng).double(),
        torch.randn(6, 5, 3, generator=rng).double(),
    )
    value = torch.randn(6, 3, generator=rng).double()
    each = Independent(Normal(mixed.means, mixed.log_scales.exp()), 1)
    twin = MixtureSameFamily(Categorical(logits=mixed.log_weights), each)
    torch.testing.assert_close(log_density(mixed, value), twin.log_prob(value))


def test_losses_are_means_over_hidden_tokens(rng: torch.Generator):
    hidden = torch.rand(2, 4, 4, generator=rng) < 0.4
    ids, logits = tokens_of(CODES, 2, rng), torch.randn(2, 4, 4, 8, generator=rng)
    naive = [
        -logits[place].log_softmax(0)[ids[place]] for place in map(tuple, hidden.nonzero().tolist())
    ]
    loss = MaskedCrossEntropy().loss(Predicted(logits, ()), ids, Corruption(hidden))
    torch.testing.assert_close(loss, torch.stack(naive).mean())

    latents = tokens_of(MIXTURE, 2, rng)
    mixed = GaussianMixture(
        *(torch.randn(2, 4, 4, 1, *rest, generator=rng) for rest in ((), (3,), (3,)))
    )
    mixed = mixed._replace(log_weights=torch.zeros(2, 4, 4, 1))
    law = Normal(mixed.means[..., 0, :], mixed.log_scales[..., 0, :].exp())
    exact = -law.log_prob(latents.movedim(1, -1))[hidden].mean()
    loss = MaskedMixture().loss(Predicted(mixed, ()), latents, Corruption(hidden))
    torch.testing.assert_close(loss, exact)


def test_a_denoising_loss_weighs_the_error_of_each_draw(rng: torch.Generator):
    objective = MaskedDiffusion(draws=3, diffusion=Diffusion(sigma_data=0.4))
    latents = tokens_of(DENOISING, 4, rng)
    drawn = objective.corrupted(latents, rng)
    noisy, sigma = drawn.noisy
    assert noisy.shape == (4, 3, 4, 4, 3)
    clean = latents.movedim(1, -1)[:, None]
    by = torch.rand(4, 3, 4, 4, 1, generator=rng)
    loss = objective.loss(Predicted(torch.empty(0), (), denoised=clean + by), latents, drawn)
    weight = (sigma**2 + 0.16) / (0.4 * sigma) ** 2
    exact = (weight * by[..., 0] ** 2).mean(1)[drawn.hidden].mean()
    torch.testing.assert_close(loss, exact)


def test_noise_is_of_its_level_and_levels_are_log_normal(rng: torch.Generator):
    latents = torch.randn(500, 3, 4, 4, generator=rng)
    objective = MaskedDiffusion(draws=2, diffusion=Diffusion(-0.5, 1.2))
    noisy, sigma = objective.corrupted(latents, rng).noisy
    unit = (noisy - latents.movedim(1, -1)[:, None]) / sigma[..., None]
    assert unit.std().item() == pytest.approx(1, rel=0.01)
    assert abs(unit.mean().item()) < 0.01
    assert sigma.log().mean().item() == pytest.approx(-0.5, abs=0.03)
    assert sigma.log().std().item() == pytest.approx(1.2, rel=0.02)
    assert sigma.unique().numel() > 0.99 * sigma.numel()


def test_the_best_denoising_loss_on_normal_latents_is_one(rng: torch.Generator):
    latents = 0.5 * torch.randn(2000, 2, 3, 3, generator=rng)

    def exact(tokens, hidden, condition, noisy, sigma):
        share = 0.25 / (0.25 + sigma**2)
        return Predicted(torch.empty(0), (), denoised=share[..., None] * noisy)

    loss = MaskedDiffusion()(exact, latents, conditions(2000, rng), generator=rng)
    assert loss.item() == pytest.approx(1, rel=0.02)


@each_objective
def test_visible_tokens_do_not_count(declared, objective, rng: torch.Generator):
    seen = tokens_of(declared, 3, rng)
    drawn = objective.corrupted(seen, rng)
    answer = declared.build()(seen, drawn.hidden, conditions(3, rng), *drawn.noisy)
    parts = answer.output if isinstance(answer.output, GaussianMixture) else (answer.output,)
    denoised = answer.denoised is not None
    parts = (answer.denoised,) if denoised else parts
    for gradient in torch.autograd.grad(objective.loss(answer, seen, drawn), parts):
        per_token = gradient.movedim(1, -1) if denoised else gradient
        counted = per_token.abs().reshape(3, 4, 4, -1).sum(-1) > 0
        assert torch.equal(counted, drawn.hidden)


@each_objective
def test_the_model_gets_tokens_hidden_tokens_and_condition(declared, objective, rng):
    calls, model = [], declared.build()
    model.register_forward_pre_hook(lambda _module, inputs: calls.append(inputs))
    seen, condition = tokens_of(declared, 3, rng), conditions(3, rng)
    loss = objective(model, seen, condition, generator=torch.Generator().manual_seed(5))
    again = objective.corrupted(seen, torch.Generator().manual_seed(5))
    (given,) = calls
    expected = (seen, again.hidden, condition, *again.noisy)
    assert all(map(torch.equal, given, expected))
    assert len(given) == len(expected)
    assert loss.shape == ()


@each_objective
def test_the_quality_of_a_prediction_is_minus_the_loss_of_its_image(declared, objective, rng):
    model, condition = perturbed(declared.build(), 0.2), conditions(3, rng)
    seen = tokens_of(declared, 3, rng)
    drawn = objective.corrupted(seen, torch.Generator().manual_seed(5))
    noisy = objective.noisy_tokens(seen, torch.Generator().manual_seed(5))
    predicted = model(seen, drawn.hidden, condition, *noisy)
    quality = objective.prediction_quality(predicted, seen, drawn.hidden, *noisy)
    for image in range(3):
        one = slice(image, image + 1)
        parts = Corruption(drawn.hidden[one], tuple(each[one] for each in drawn.noisy))
        alone = model(seen[one], parts.hidden, condition[one], *parts.noisy)
        loss = objective.loss(alone, seen[one], parts)
        torch.testing.assert_close(-quality[image], loss, rtol=1e-4, atol=1e-5)


@each_objective
def test_a_step_looks_at_no_number(declared, objective, monkeypatch: pytest.MonkeyPatch):
    """Fake tensors have none: what a CUDA graph cannot capture raises here."""
    # Inside a graph the levels are not checked either.
    monkeypatch.setattr(recombine.denoiser, "_readable", lambda value: False)
    with FakeTensorMode(allow_non_fake_inputs=True):
        rng = torch.Generator().manual_seed(0)
        model = declared.build()
        seen, condition = tokens_of(declared, 3, rng), conditions(3, rng)
        objective(model, seen, condition, generator=rng).backward()


@each_objective
def test_processes_share_the_draws_of_one(declared, objective, rng: torch.Generator):
    seen = tokens_of(declared, 6, rng)
    whole = objective.corrupted(seen, torch.Generator().manual_seed(5))
    for process in range(2):
        with SharedDraws(process, 2):
            own = objective.corrupted(seen[process::2], torch.Generator().manual_seed(5))
        assert torch.equal(own.hidden, whole.hidden[process::2])
        for one, other in zip(own.noisy, whole.noisy, strict=True):
            assert torch.equal(one, other[process::2])


def test_a_denoising_objective_is_declared_well():
    with pytest.raises(ValueError, match="at least 1 noise level; got 0"):
        MaskedDiffusion(draws=0)
    with pytest.raises(ValueError, match="neither dropped nor weighed"):
        MaskedDiffusion(diffusion=Diffusion(dropout=Dropout(torch.zeros_like)))


def trained(declared: Masked, objective, batch, steps: int) -> nn.Module:
    model, rng = declared.build(), torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        seen, condition = batch(64, rng)
        loss = objective(model, seen, condition, generator=rng)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model


def halves(batch: int, rng: torch.Generator) -> Tensor:
    """Conditions on the first factor, 0 or 1, and not on the second."""
    value = torch.randint(2, (batch,), generator=rng).float()
    row = torch.stack([value, torch.ones(batch)], dim=1)
    return torch.stack([row, torch.zeros(batch, 2)], dim=1)


def striped(batch: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Columns of one code each, of the first four or the last four codes by the condition."""
    condition = halves(batch, rng)
    base = torch.randint(4, (batch, 1, 4), generator=rng).expand(-1, 4, -1)
    return base + 4 * condition[:, 0, 0].long()[:, None, None], condition


def test_cross_entropy_approaches_the_entropy_of_the_law(rng: torch.Generator):
    objective = MaskedCrossEntropy()
    model = trained(CODES, objective, striped, 200)
    seen, condition = striped(512, rng)
    drawn = objective.corrupted(seen, rng)
    with torch.no_grad():
        loss = objective.loss(model(seen, drawn.hidden, condition), seen, drawn).item()
    # A hidden token is known if one of its column is seen; otherwise it is one of four codes.
    unknown = drawn.hidden.all(1, keepdim=True).expand_as(seen)[drawn.hidden]
    exact = log(4) * unknown.float().mean().item()
    assert exact < 0.75
    assert exact - 0.05 < loss < exact + 0.1
