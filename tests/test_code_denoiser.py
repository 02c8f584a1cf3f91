"""A denoiser with logits over codes: the laws it knows in closed form, and how it is trained."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from recombine.models.blocks import closeness
from recombine.models.code_denoiser import CodeDenoiser, CodeDenoiserModule
from recombine.models.dit import DiT
from recombine.models.entry import Vector
from recombine.models.tokenizer import Autoencoder
from recombine.objectives.codes import CodeDiffusion
from recombine.objectives.diffusion import Diffusion, Dropout
from recombine.objectives.jepa import Jepa
from recombine.views import Latents, tokenizer

SIDE = 3
VQ, KL = Autoencoder(width=32), Autoencoder(width=32, codes=None)


@dataclass(frozen=True)
class Corners:
    """Codes at four places of the plane, not evenly far apart."""

    def vectors(self) -> Tensor:
        return torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0], [1.5, 2.5]])


LAW = torch.tensor([0.1, 0.2, 0.3, 0.4])


def denoiser(prior: Tensor | None = None) -> CodeDenoiserModule:
    """A fresh network, which knows how often each code is if a prior is given."""
    made = CodeDenoiser(
        DiT(2, SIDE, entry=Vector(2), width=8, layers=1, heads=2), Corners()
    ).build()
    if prior is not None:
        with torch.no_grad():
            made.outlet.bias.copy_(prior.log())
    return made


def drawn(law: Tensor, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw codes by a law, and return their vectors as well."""
    ids = torch.multinomial(law, batch * SIDE**2, True, generator=generator)
    ids = ids.view(batch, SIDE, SIDE)
    return ids, Corners().vectors()[ids].movedim(-1, 1)


def posterior(x: Tensor, sigma: Tensor, law: Tensor) -> Tensor:
    """The twin: Bayes' rule, vector by vector, in double precision."""
    found = torch.empty(len(x), len(law), SIDE, SIDE, dtype=torch.float64)
    for image in range(len(x)):
        for row in range(SIDE):
            for column in range(SIDE):
                for code, vector in enumerate(Corners().vectors().double()):
                    away = (x[image, :, row, column].double() - vector).square().sum()
                    likely = law[code].double().log() - away / (2 * sigma[image].double() ** 2)
                    found[image, code, row, column] = likely
    return found.softmax(1)


@pytest.mark.parametrize("law", [None, LAW])
def test_logits_that_know_the_law_make_the_exact_denoiser(law: Tensor | None, rng: torch.Generator):
    x, sigma = 2 * torch.randn(3, 2, SIDE, SIDE, generator=rng), torch.tensor([0.3, 1.0, 20.0])
    believed = torch.full((4,), 0.25) if law is None else law
    expected = posterior(x, sigma, believed)
    mean = torch.einsum("bcij,cd->bdij", expected, Corners().vectors().double())
    guess = denoiser(law)(x, sigma, torch.zeros(3, 2))
    torch.testing.assert_close(guess, mean.float(), rtol=1e-4, atol=1e-5)


def test_its_surprise_is_that_of_the_true_code(rng: torch.Generator):
    ids, clean = drawn(LAW, 3, rng)
    sigma = torch.tensor([0.2, 1.0, 5.0])
    x = clean + sigma[:, None, None, None] * torch.randn(clean.shape, generator=rng)
    nats = denoiser(LAW)(x, sigma, torch.zeros(3, 2), clean)
    expected = -posterior(x, sigma, LAW).gather(1, ids[:, None])[:, 0].log()
    torch.testing.assert_close(nats, expected.float(), rtol=1e-3, atol=1e-4)


def test_losses_draw_the_same_and_weigh_levels_as_declared(rng: torch.Generator):
    """The twin, image by image: the same levels and noise, whatever is made of the answers."""
    _, clean = drawn(LAW, 8, rng)
    made, told = denoiser(LAW), torch.zeros(8, 2)
    draws = torch.Generator().manual_seed(1)
    levels = Diffusion(sigma_data=1.0)
    sigma = levels.levels(clean, draws)
    x = clean + sigma[:, None, None, None] * torch.randn(clean.shape, generator=draws)
    squares, nats = torch.zeros(8), torch.zeros(8)
    for at in range(8):
        one = x[at : at + 1], sigma[at : at + 1], told[at : at + 1]
        squares[at] = (made(*one) - clean[at]).square().mean()
        nats[at] = made(*one, clean[at : at + 1]).mean()
    weights = 1 / sigma**2 + 1
    for loss, expected in (
        (CodeDiffusion(), nats.mean()),
        (CodeDiffusion(cross_entropy=False), (weights * squares).mean()),
        (CodeDiffusion(cross_entropy=False, weighed=False), squares.mean()),
    ):
        found = loss(made, clean, told, generator=torch.Generator().manual_seed(1))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_mixed_precision_does_not_reach_the_logits(rng: torch.Generator):
    """At the lowest noise a difference of 1 is 125,000 nats, and every code is itself."""
    _, clean = drawn(LAW, 2, rng)
    sigma = torch.full((2,), 0.002)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        guess = denoiser(LAW)(clean + 0.002, sigma, torch.zeros(2, 2))
    torch.testing.assert_close(guess, clean, rtol=0, atol=1e-6)


def test_logits_are_added_in_full_precision(rng: torch.Generator):
    """Of two codes 0.01 of a nat apart among logits of 40, bf16 would make no difference."""
    made = denoiser()
    with torch.no_grad():
        made.outlet.bias.copy_(torch.tensor([40.0, 40.01, 40.02, 40.03]))
    x, sigma = torch.randn(1, 2, SIDE, SIDE, generator=rng), torch.full((1,), 1e5)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        guess = made(x, sigma, torch.zeros(1, 2))
    expected = torch.tensor([0.0, 0.01, 0.02, 0.03]).softmax(0) @ Corners().vectors()
    torch.testing.assert_close(guess[0, :, 1, 1], expected, rtol=0, atol=1e-4)


def test_every_code_of_the_shipped_book_is_itself():
    """None lies on another: the code of a clean vector is the one it was made of."""
    vectors = Latents("tokenizer_vq", VQ).vectors()
    assert torch.equal(closeness(vectors, vectors).argmax(-1), torch.arange(len(vectors)))


def test_the_network_sees_vectors_of_about_unit_size_at_every_level(rng: torch.Generator):
    made, sizes = denoiser(), []
    made.network.register_forward_pre_hook(lambda _, args: sizes.append(args[0].std().item()))
    clean = torch.randn(200, 2, SIDE, SIDE, generator=rng)
    for level in (0.01, 1.0, 50.0):
        sigma = torch.full((200,), level)
        x = clean + level * torch.randn(clean.shape, generator=rng)
        made(x, sigma, torch.zeros(200, 2))
    assert sizes == pytest.approx([1.0] * 3, abs=0.05)


def test_a_logit_depends_on_the_condition_and_on_all_noisy_vectors(rng: torch.Generator):
    """The network depends on the noisy vectors and the condition, as the DiT that it is."""
    made = denoiser()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.3)
    x, sigma = torch.randn(2, 2, SIDE, SIDE, generator=rng), torch.full((2,), 3.0)
    told = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    same = made(x[:1].expand(2, -1, -1, -1), sigma, told)
    assert not torch.allclose(same[0], same[1])
    other = x.clone()
    other[:, :, 0, 0] += 1
    assert not torch.allclose(
        made(x, sigma, told)[:, :, 2, 2], made(other, sigma, told)[:, :, 2, 2]
    )


def test_a_view_of_code_vectors_knows_the_vectors_that_a_model_sees():
    view = Latents("tokenizer_vq", VQ)
    ids = torch.tensor([[[0, 7], [100, 255]]])
    network = tokenizer(view.name, VQ, torch.device("cpu"))
    seen = network.vectors(ids) / view.spread
    torch.testing.assert_close(view.vectors()[ids].movedim(-1, 1), seen)
    with pytest.raises(ValueError, match="tokenizer_kl has latents"):
        Latents("tokenizer_kl", KL).vectors()


def test_wrong_use_is_refused():
    with pytest.raises(ValueError, match="a patch of 1; got 2"):
        CodeDenoiser(DiT(2, 4, patch=2, width=8, heads=2), Corners())
    with pytest.raises(ValueError, match="the codes have 2 numbers each; .* vectors of 3"):
        CodeDenoiser(DiT(3, 4, width=8, heads=2), Corners()).build()
    with pytest.raises(ValueError, match="CodeDiffusion trains a CodeDenoiser; got DiTModule"):
        CodeDiffusion().wrap(DiT(2, 4, width=8, heads=2).build())
    for objective in (Diffusion(), Jepa()(Diffusion())):
        with pytest.raises(ValueError, match="got CodeDenoiserModule|is a denoiser already"):
            objective.wrap(denoiser())
    with pytest.raises(ValueError, match="no condition is dropped"):
        CodeDiffusion(diffusion=Diffusion(dropout=Dropout(torch.zeros_like)))
