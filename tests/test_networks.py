"""One contract for every network and every way in: (x, clock, condition) -> an image like x."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from recombine.models.blocks import (
    TokenEmbedding,
    VectorEmbedding,
    modulated,
    parameters_of,
    rms,
    with_channels,
)
from recombine.models.dit import STUDY_DIT, DiT
from recombine.models.entry import Channels, FactorRows, Tokens, Vector
from recombine.models.local import STUDY_LOCAL, Cells, Local, Places
from recombine.models.masked import Masked
from recombine.models.unet import LARGE_UNET, STUDY_UNET, UNet
from recombine.training import Network

UNET = UNet(3, 16, width=16, multipliers=(1, 2), blocks=1, attention=(4, 8), patch=2, head=8)
DIT = DiT(2, 8, patch=2, width=16, layers=2, heads=2)
LOCAL = Local(3, 12, cells=6, window=2, width=16, blocks=1, embedding=16)
ENTRIES = [None, Vector(6), Channels(2), Tokens(3, 4)]
NETWORKS: list[UNet | DiT | Local] = [
    *(replace(UNET, entry=entry) for entry in ENTRIES),
    *(replace(DIT, entry=entry) for entry in (*ENTRIES, FactorRows(3, 2))),
    *(replace(LOCAL, entry=entry) for entry in (None, Cells(), Places(4))),
]
each_network = pytest.mark.parametrize(
    "declared", NETWORKS, ids=lambda value: f"{type(value).__name__}-{value.entry}"
)
TOLD = [declared for declared in NETWORKS if declared.entry is not None]
each_told_network = pytest.mark.parametrize(
    "declared", TOLD, ids=lambda value: f"{type(value).__name__}-{value.entry}"
)


def perturbed(declared: Network, dtype: torch.dtype = torch.float32) -> nn.Module:
    """Weights as after some training: none of them is zero."""
    torch.manual_seed(0)
    network = declared.build().to(dtype)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return network


def told(entry: object, batch: int, rng: torch.Generator) -> Tensor:
    """Some condition that the entry can read."""
    match entry:
        case Vector(width):
            return torch.randn(batch, width, generator=rng)
        case Channels(count):
            return torch.randn(batch, count, 4, 4, generator=rng)
        case Tokens(width, most):
            return torch.rand(batch, most, width, generator=rng).index_fill(
                2, torch.tensor([width - 1]), 1
            )
        case FactorRows(factors, features):
            rows = torch.randn(batch, factors, features + 1, generator=rng)
            said = rows.index_fill(2, torch.tensor([features]), 1)
            said[0, :, -1] = 0
            return said
        case Cells():
            return (torch.rand(batch, 6, 6, generator=rng) < 0.5).float()
        case Places(most):
            return torch.rand(batch, most, 3, generator=rng)
    return torch.zeros(batch, 1)


def asked(
    declared: UNet | DiT | Local, rng: torch.Generator, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor]:
    shape = (3, declared.channels, declared.size, declared.size)
    x = torch.randn(shape, generator=rng, dtype=dtype)
    clock = torch.tensor([-1.5, 0.0, 1.0], dtype=dtype)
    return x, clock, told(declared.entry, 3, rng).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@each_network
def test_the_answer_is_like_the_image(declared, dtype: torch.dtype, rng: torch.Generator):
    x, clock, condition = asked(declared, rng, dtype)
    answer = perturbed(declared, dtype)(x, clock, condition)
    assert answer.shape == x.shape
    assert answer.dtype == dtype
    assert answer.isfinite().all()


@each_network
def test_half_precision_changes_little(declared, rng: torch.Generator):
    network, question = perturbed(declared), asked(declared, rng)
    exact = network(*question)
    with torch.autocast("cpu", torch.bfloat16):
        answer = network(*question)
    assert answer.dtype == torch.float32
    assert (answer - exact).norm() < 0.05 * exact.norm()
    assert not torch.equal(answer, exact)


@each_network
def test_a_fresh_network_answers_with_zeros(declared, rng: torch.Generator):
    answer = declared.build()(*asked(declared, rng))
    assert torch.equal(answer, torch.zeros_like(answer))


@each_told_network
def test_a_condition_changes_its_own_image_only(declared, rng: torch.Generator):
    network, (x, clock, condition) = perturbed(declared), asked(declared, rng)
    other = torch.cat([condition[:1], told(declared.entry, 2, rng)])
    moved = (network(x, clock, other) - network(x, clock, condition)).flatten(1).norm(dim=1)
    assert moved[0] == 0
    assert (moved[1:] > 1e-3).all()


@each_network
def test_an_image_depends_on_the_noise_level(declared, rng: torch.Generator):
    network, (x, clock, condition) = perturbed(declared), asked(declared, rng)
    moved = network(x, clock + 0.05, condition) - network(x, clock, condition)
    assert (moved.flatten(1).norm(dim=1) > 1e-3).all()


@each_network
def test_the_noise_level_may_have_another_precision(declared, rng: torch.Generator):
    network, (x, clock, condition) = perturbed(declared, torch.float64), asked(declared, rng)
    answers = [network(x.double(), level, condition) for level in (clock, clock.double())]
    assert torch.equal(*answers)


def test_a_network_without_a_condition_accepts_any(rng: torch.Generator):
    x, clock, _ = asked(DIT, rng)
    answers = [perturbed(DIT)(x, clock, said) for said in (torch.zeros(3), torch.ones(3, 2, 2))]
    assert torch.equal(*answers)


@each_network
def test_gradients_reach_every_weight(declared, rng: torch.Generator):
    network = perturbed(declared)
    network(*asked(declared, rng)).square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        outputs = parameter.grad.reshape(len(parameter), -1)
        assert (outputs.abs().sum(dim=1) > 0).all(), name


@each_network
def test_a_row_does_not_depend_on_the_others(declared, rng: torch.Generator):
    network, question = perturbed(declared), asked(declared, rng)
    alone = torch.cat([network(*(part[[row]] for part in question)) for row in range(3)])
    torch.testing.assert_close(network(*question), alone, rtol=1e-5, atol=1e-5)


@each_network
def test_a_declared_network_is_a_value_that_can_be_written_down(declared):
    assert isinstance(declared, Network)
    again = eval(repr(declared))
    assert again == declared
    assert hash(again) == hash(declared)


@each_network
def test_no_network_looks_at_values(declared, rng: torch.Generator):
    # Tensors without values refuse to be branched on, as do captured graphs.
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        network, question = declared.build(), asked(declared, rng)
        answer = network(*question)
    assert answer.fake_mode is fake


@pytest.mark.parametrize(
    ("declared", "least", "most"),
    [
        (STUDY_UNET, 3e6, 4e6),
        (LARGE_UNET, 25e6, 60e6),
        (STUDY_DIT, 5e6, 6e6),
        (STUDY_LOCAL, 3e6, 4e6),
        (replace(STUDY_LOCAL, window=8), 8e6, 16e6),
    ],
)
def test_networks_have_the_size_that_studies_need(declared, least: float, most: float):
    assert least <= parameters_of(declared) <= most


@pytest.mark.parametrize(
    ("entry", "shape", "message"),
    [
        (Vector(6), (3, 5), r"Vector\(width=6, waves=0\) has the shape \(3, 6\); got \(3, 5\)"),
        (Vector(1), (3,), r"\(3, 1\); got \(3,\)"),
        (Channels(2), (3, 1, 4, 4), r"\(3, 2, height, width\); got \(3, 1, 4, 4\)"),
        (Channels(2), (3, 4, 4), r"\(3, 2, height, width\); got \(3, 4, 4\)"),
        (Tokens(3, 4), (3, 5, 3), r"\(3, at most 4, 3\); got \(3, 5, 3\)"),
        (Tokens(3, 4), (3, 4, 2), r"\(3, at most 4, 3\); got \(3, 4, 2\)"),
        (Tokens(3, 4), (3, 3), r"\(3, at most 4, 3\); got \(3, 3\)"),
    ],
)
def test_a_condition_of_the_wrong_shape_is_named(entry, shape, message: str, rng):
    for network in (replace(UNET, entry=entry).build(), replace(DIT, entry=entry).build()):
        x, clock, _ = asked(network.of, rng)
        with pytest.raises(ValueError, match=message):
            network(x, clock, torch.zeros(shape))


@pytest.mark.parametrize("declared", [UNET, DIT, LOCAL])
def test_an_image_of_the_wrong_size_is_named(declared):
    with pytest.raises(ValueError, match=r"reads images of the shape .*; got \(3, 5, 5\)"):
        declared.build()(torch.zeros(1, 3, 5, 5), torch.zeros(1), torch.zeros(1, 6, 6))


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: Vector(0), r"width is at least 1; got Vector\(width=0, waves=0\)"),
        (lambda: Tokens(1, 4), "a number and a flag at least; got width 1"),
        (lambda: replace(UNET, blocks=0), "blocks is at least 1"),
        (lambda: replace(UNET, multipliers=()), r"a positive multiplier; got \(\)"),
        (lambda: replace(UNET, multipliers=(1, 0)), r"a positive multiplier; got \(1, 0\)"),
        (lambda: replace(UNET, size=18), "18 pixels cannot be shrunk 4-fold"),
        (lambda: replace(UNET, attention=(16,)), r"some of the sides \(8, 4\); got \[16\]"),
        (lambda: replace(UNET, head=5), "16 channels cannot be cut into heads of 5"),
        (
            lambda: replace(UNET, attention=(), entry=Tokens(3, 4)),
            "condition tokens need attention",
        ),
        (
            lambda: replace(UNET, entry=FactorRows(3, 2)),
            r"no tokens .* got FactorRows\(factors=3, features=2\)",
        ),
        (
            lambda: FactorRows(0, 2),
            r"factors is at least 1; got FactorRows\(factors=0, features=2\)",
        ),
        (lambda: replace(DIT, patch=3), "a side of 8 has no whole patches of 3"),
        (lambda: replace(DIT, heads=3), "a multiple of 4 and of 3, the heads; got 16"),
        (lambda: replace(LOCAL, window=6), "reaches 0 to 5 cells to each side; got 6"),
        (lambda: replace(LOCAL, window=-1), "reaches 0 to 5 cells to each side; got -1"),
        (lambda: replace(LOCAL, size=13), "13 pixels cannot be cut into 6 cells"),
        (lambda: Places(0), "most is at least 1"),
    ],
)
def test_a_network_that_cannot_be_is_refused_when_declared(declare, message: str):
    with pytest.raises(ValueError, match=message):
        declare()


def test_a_vector_is_read_row_by_row_from_any_shape(rng: torch.Generator):
    grid, embed = torch.randn(2, 3, 4, generator=rng), VectorEmbedding(Vector(12), 8)
    assert torch.equal(embed(grid, torch.zeros(2)), embed(grid.flatten(1), torch.zeros(2)))


def test_channels_are_resized_to_the_nearest_pixel():
    grid = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    enlarged = with_channels(torch.zeros(1, 3, 4, 4), Channels(1), grid)[:, 3:]
    exact = grid[:, None].repeat_interleave(2, 2).repeat_interleave(2, 3)
    assert torch.equal(enlarged, exact)


@pytest.mark.parametrize("kind", [torch.bool, torch.int64])
def test_a_condition_takes_the_precision_of_the_image(kind: torch.dtype):
    x = torch.zeros(1, 1, 2, 2, dtype=torch.float64)
    condition, like = torch.ones(1, 2, 2, dtype=kind), x[:, 0, 0, 0]
    assert with_channels(x, Channels(1), condition).dtype == torch.float64
    assert VectorEmbedding(Vector(4), 8).double()(condition, like).dtype == torch.float64
    assert TokenEmbedding(Tokens(2, 2), 8).double()(condition, like)[0].dtype == torch.float64


TOKEN_NETWORKS = [replace(UNET, entry=Tokens(3, 4)), replace(DIT, entry=Tokens(3, 4))]


@pytest.mark.parametrize("declared", TOKEN_NETWORKS)
def test_absent_tokens_say_exactly_nothing(declared, rng: torch.Generator):
    network, (x, clock, condition) = perturbed(declared), asked(declared, rng)
    condition[:, 1:3, -1] = 0
    answers = []
    for held in (0.3, 1e30, torch.nan):
        condition[:, 1:3, :-1] = held
        answers.append(network(x, clock, condition))
    assert all(torch.equal(one, other) for one, other in pairwise(answers))
    shorter = network(x, clock, condition[:, [0, 3]])
    torch.testing.assert_close(shorter, answers[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("declared", TOKEN_NETWORKS)
def test_no_token_at_all_is_an_answerable_question(declared, rng: torch.Generator):
    network, (x, clock, condition) = perturbed(declared), asked(declared, rng)
    silent = condition.clone()
    silent[..., -1] = 0
    answer = network(x, clock, silent)
    assert answer.isfinite().all()
    torch.testing.assert_close(network(x, clock, condition[:, :0]), answer)
    assert not torch.allclose(network(x, clock, condition), answer)


@pytest.mark.parametrize("declared", TOKEN_NETWORKS)
def test_the_order_of_tokens_means_nothing(declared, rng: torch.Generator):
    network, (x, clock, condition) = perturbed(declared), asked(declared, rng)
    turned = network(x, clock, condition.flip(1))
    torch.testing.assert_close(turned, network(x, clock, condition), rtol=1e-5, atol=1e-5)


def test_factors_differ_and_absent_ones_say_nothing(rng: torch.Generator):
    declared = replace(DIT, entry=FactorRows(3, 2))
    network, (x, clock, condition) = perturbed(declared), asked(declared, rng)
    plain = network(x, clock, condition)
    assert not torch.allclose(network(x, clock, condition.flip(1)), plain)
    answers = []
    for held in (0.3, torch.nan):
        silent = condition.clone()
        silent[:, 1] = held
        silent[:, 1, -1] = 0
        answers.append(network(x, clock, silent))
    assert torch.equal(*answers)
    assert not torch.allclose(answers[0], plain)
    with pytest.raises(
        ValueError, match=r"features=2\) has the shape \(3, 3, 3\); got \(3, 2, 3\)"
    ):
        network(x, clock, condition[:, :2])


def test_factors_stand_among_the_tokens_as_the_naive_network_has_them(rng: torch.Generator):
    """The blocks see factors and image in one row, and the answer is of the image's part."""
    declared = replace(DIT, entry=FactorRows(3, 2))
    network, (x, clock, condition) = perturbed(declared), asked(declared, rng)
    patches = torch.nn.functional.pixel_unshuffle(x, 2).flatten(2).transpose(1, 2)
    row = torch.cat([network.factors(condition), network.inlet(patches) + network.where], dim=1)
    *each, last = network.modulation(network.embedding(clock)).split(network.shares, dim=1)
    states: list[Tensor] = []
    answer = network(x, clock, condition, states)
    for block, part, state in zip(network.blocks, each, states, strict=True):
        row = block(row, part)
        assert row.shape[1] == 3 + 16
        torch.testing.assert_close(state, row[:, 3:])
    ended = modulated(rms(row[:, 3:]), *last[:, None].chunk(2, dim=-1))
    grid = network.outlet(ended).transpose(1, 2).unflatten(2, (4, 4))
    torch.testing.assert_close(answer, torch.nn.functional.pixel_shuffle(grid, 2))


def test_waves_tell_places_apart_and_zeros_still_say_nothing():
    declared = UNet(3, 8, Vector(3, waves=4), width=32, multipliers=(1,), blocks=1, attention=())
    network = perturbed(declared)
    x, clock = torch.randn(2, 3, 8, 8), torch.zeros(2)
    near = torch.tensor([[0.50, 0.5, 1.0], [0.51, 0.5, 1.0]])
    answer = network(x[:1].expand_as(x), clock, near)
    plain = perturbed(replace(declared, entry=Vector(3)))(x[:1].expand_as(x), clock, near)
    assert (answer[0] - answer[1]).abs().max() > 3 * (plain[0] - plain[1]).abs().max()
    hears = network.embedding.condition
    assert not hears(torch.zeros(1, 3), torch.zeros(1)).any()
    assert hears.layer.in_features == 3 * (2 * 4 + 1)


def test_shifts_scales_and_gates_are_sums_over_factors():
    """Told by a vector, in a DiT and in a steered masked model: a new sum is of known moves."""
    told = torch.zeros(4, 3, 3)
    told[1, 0], told[2, 1], told[3, :2] = 1, 1, 1
    dit = perturbed(replace(DIT, entry=Vector(9)))
    of_dit = dit.modulation(dit.embedding(torch.ones(4), told.flatten(1)))
    masked = perturbed(Masked(side=2, features=2, width=16, layers=2, heads=2, adaln=True))
    for moves in (of_dit, torch.cat(masked.adaln(told), dim=1)):
        nothing, one, other, both = moves
        torch.testing.assert_close(both - nothing, (one - nothing) + (other - nothing))
        assert (one - nothing).abs().max() > 0.1
