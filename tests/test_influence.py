"""Influence is measured on laws and networks whose Jacobian is known exactly."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from recombine.bench.locality import one_by_one
from recombine.denoiser import Preconditioned
from recombine.measure.influence import (
    denoised_images,
    distances,
    object_influence,
    pixel_influence,
    pixels_at,
    profile,
    radius_holding,
)
from recombine.models.entry import Vector
from recombine.models.gaussian import Constant, GaussianLaw
from recombine.models.local import Local
from recombine.models.unet import UNet

CHANNELS, HEIGHT, WIDTH = 2, 3, 4
SIGMA = torch.tensor([0.3, 2.0], dtype=torch.float64)


def correlated(rng: torch.Generator) -> GaussianLaw:
    """A Gaussian in which every number depends on every other."""
    size = CHANNELS * HEIGHT * WIDTH
    root = torch.randn(size, size, generator=rng, dtype=torch.float64)
    mean = torch.zeros(CHANNELS, HEIGHT, WIDTH, dtype=torch.float64)
    return GaussianLaw(Constant(mean), root @ root.T / size)


def drawn(rng: torch.Generator, batch: int = 2) -> Tensor:
    return torch.randn(batch, CHANNELS, HEIGHT, WIDTH, generator=rng, dtype=torch.float64)


def blocks(jacobian: Tensor, channels: int, height: int, width: int) -> Tensor:
    """The norm of each block of channels of a Jacobian: (batch, pixel, height, width)."""
    shape = (channels, height * width, channels, height * width)
    norm = jacobian.unflatten(2, shape[2:]).unflatten(1, shape[:2]).square().sum(dim=(1, 3)).sqrt()
    return norm.unflatten(2, (height, width))


def silence(batch: int = 2) -> Tensor:
    return torch.zeros(batch, 1, dtype=torch.float64)


def kernel_three(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
    """Averages over 3 x 3 pixels, in each channel alone."""
    return F.avg_pool2d(x, 3, 1, 1)


class Counting(torch.nn.Module):
    """A small network that notes the sizes of the batches it is called with."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1).double()
        self.batches: list[int] = []

    def forward(self, x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        self.batches.append(len(x))
        return torch.tanh(self.layer(x)) + condition[:, :, None, None]


# Pixels


@pytest.mark.parametrize("at_once", [1, 3, 24, 100])
def test_pixel_influence_is_the_exact_jacobian(at_once: int, rng: torch.Generator):
    law, x = correlated(rng), drawn(rng)
    exact = blocks(law.jacobian(x, SIGMA, silence()), CHANNELS, HEIGHT, WIDTH)
    measured = pixel_influence(law, x, SIGMA, silence(), at_once=at_once)
    assert measured.shape == (2, HEIGHT * WIDTH, HEIGHT, WIDTH)
    torch.testing.assert_close(measured, exact, atol=1e-12, rtol=1e-10)


def test_an_influence_that_is_not_symmetric_is_read_from_input_to_output(rng: torch.Generator):
    def down(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        return x.roll(1, dims=2) + 0 * x

    pixel = torch.tensor([[1, 2]])
    (influence,) = pixel_influence(down, drawn(rng), SIGMA, silence(), pixel)[0]
    # Two channels, each passed on once: the norm of the identity.
    expected = torch.zeros(HEIGHT, WIDTH, dtype=torch.float64)
    expected[0, 2] = 2**0.5
    torch.testing.assert_close(influence, expected)


def test_pixels_may_differ_from_image_to_image(rng: torch.Generator):
    law, x = correlated(rng), drawn(rng)
    every = pixel_influence(law, x, SIGMA, silence())
    pixels = torch.tensor([[[0, 1], [2, 3]], [[1, 0], [0, 0]]])
    measured = pixel_influence(law, x, SIGMA, silence(), pixels, at_once=3)
    expected = torch.stack([every[0, [1, 11]], every[1, [4, 0]]])
    torch.testing.assert_close(measured, expected)


def unet() -> torch.nn.Module:
    network = UNet(3, 16, Vector(4), width=16, multipliers=(1, 2), attention=(8,), head=16)
    return Preconditioned(network.build())


def local() -> torch.nn.Module:
    return Preconditioned(Local(3, 16, cells=4, window=1, width=16).build())


@pytest.mark.parametrize(("make", "shape"), [(unet, (4,)), (local, (4, 4))])
def test_the_influence_in_a_network_equals_one_backward_pass_per_number(
    make: Callable[[], torch.nn.Module], shape: tuple[int, ...], rng: torch.Generator
):
    network = make()
    for parameter in network.parameters():
        parameter.data.add_(0.1 * torch.randn(parameter.shape, generator=rng))
    x, condition = torch.randn(1, 3, 16, 16, generator=rng), torch.ones(1, *shape)
    pixels = torch.tensor([[0, 0], [7, 9], [15, 3]])
    call = (network, x, torch.ones(1), condition)
    with torch.no_grad():
        measured = pixel_influence(*call, pixels, at_once=2)
    torch.testing.assert_close(measured, one_by_one(*call, pixels), atol=1e-6, rtol=1e-4)
    assert measured.max() > 0
    assert all(parameter.grad is None for parameter in network.parameters())


def test_it_is_measured_inside_inference_mode_too(rng: torch.Generator):
    law = correlated(rng)
    with torch.inference_mode():
        x = drawn(rng)
        inside = pixel_influence(law, x, SIGMA, silence())
    torch.testing.assert_close(inside, pixel_influence(law, x.clone(), SIGMA, silence()))


def saved_bytes(work: Callable[[], object]) -> int:
    """The most memory that was held for backward passes at a time."""
    held, most = 0, 0

    class Held:
        def __init__(self, tensor: Tensor) -> None:
            nonlocal held, most
            self.tensor, self.bytes = tensor.detach(), tensor.numel() * tensor.element_size()
            held += self.bytes
            most = max(most, held)

        def __del__(self) -> None:
            nonlocal held
            held -= self.bytes

    with torch.autograd.graph.saved_tensors_hooks(Held, lambda kept: kept.tensor):
        work()
    return most


def test_memory_obeys_its_argument(rng: torch.Generator):
    x, sigma, condition = drawn(rng, 5), SIGMA[:1].expand(5), silence(5)

    def held(at_once: int) -> tuple[int, int]:
        network = Counting()
        most = saved_bytes(lambda: pixel_influence(network, x, sigma, condition, at_once=at_once))
        return max(network.batches), most

    one = saved_bytes(
        lambda: Counting()(x[:1].requires_grad_(), sigma[:1], condition[:1]).sum().backward()
    )
    for at_once in (1, 2, 7, 30, 1000):
        batch, most = held(at_once)
        assert batch <= at_once
        assert most <= at_once * one
    # Room is used where there is some, and never for more copies than there are pixels.
    assert held(30)[0] == 30
    assert held(1000)[0] == 5 * HEIGHT * WIDTH


def test_each_image_goes_through_the_denoiser_once_for_all_of_its_pixels(rng: torch.Generator):
    network = Counting()
    pixel_influence(network, drawn(rng, 4), SIGMA[:1].expand(4), silence(4), at_once=4)
    assert network.batches == [4]


# Objects


def test_object_influence_is_the_change_of_the_mean(rng: torch.Generator):
    """A Gaussian's denoised image moves by sigma^2 / (C + sigma^2) times what its mean does."""
    weights = torch.randn(5, CHANNELS, HEIGHT, WIDTH, generator=rng, dtype=torch.float64)
    law = GaussianLaw(
        lambda condition: torch.einsum("bt,tchw->bchw", condition, weights),
        correlated(rng).covariance,
    )
    x = drawn(rng)
    condition = torch.ones(2, 5, dtype=torch.float64)
    changed = condition - torch.eye(5, dtype=torch.float64)[:, None]
    found = object_influence(law, x, SIGMA, condition, changed, at_once=1)
    left = torch.eye(CHANNELS * HEIGHT * WIDTH, dtype=torch.float64) - law.jacobian(
        x, SIGMA, condition
    )
    moves = torch.einsum("bpq,tq->tbp", left, weights.flatten(1))
    expected = moves.unflatten(2, (CHANNELS, HEIGHT, WIDTH)).norm(dim=2)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-10)


def test_images_are_denoised_images_in_parts_and_in_order(rng: torch.Generator):
    network, x = Counting(), drawn(rng, 5)
    sigma = SIGMA[:1].expand(5)
    whole = denoised_images(network, x, sigma, silence(5), at_once=2)
    assert network.batches == [2, 2, 1]
    torch.testing.assert_close(whole, network(x, sigma, silence(5)).detach())
    assert not whole.requires_grad


# Places and distances


def test_a_place_is_x_and_y_and_a_pixel_is_row_and_column():
    place = torch.tensor([[[0.0, 0.0], [0.99, 0.0], [0.26, 0.7]]])
    assert pixels_at(place, HEIGHT, WIDTH)[0].tolist() == [[0, 0], [0, 3], [2, 1]]


def test_a_place_just_below_one_is_still_a_pixel():
    nearly = torch.nextafter(torch.tensor(1.0), torch.tensor(0.0)).expand(1, 1, 2)
    assert pixels_at(nearly, 63, 63)[0, 0].tolist() == [62, 62]


def test_distances_are_the_larger_of_two_steps():
    away = distances(torch.tensor([[[1, 0]]]), HEIGHT, WIDTH)[0, 0]
    assert away.tolist() == [[1, 1, 2, 3], [0, 1, 2, 3], [1, 1, 2, 3]]


def test_a_profile_counts_the_pixels_that_exist():
    rings = profile(torch.ones(1, 2, 5, 5), torch.tensor([[[2, 2], [0, 4]]]))[0]
    assert rings.tolist() == [[1, 8, 16, 0, 0], [1, 3, 5, 7, 9]]


@pytest.mark.parametrize(
    ("share", "radius"), [(0.3, 0), (0.4, 0), (0.5, 2), (0.7, 2), (0.75, 3), (0.95, 3)]
)
def test_a_radius_is_the_smallest_that_holds_the_share(share: float, radius: int):
    rings = torch.tensor([[4.0, 0.0, 3.0, 3.0, 0.0]], dtype=torch.float64)
    assert radius_holding(rings, share).tolist() == [radius]


# Bad input


def test_bad_input_is_refused_in_one_clear_line(rng: torch.Generator):
    x, condition = drawn(rng), silence()

    def cut(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        return x[:, :1]

    def frozen(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        with torch.no_grad():
            return 2 * x

    weight = torch.ones(1, requires_grad=True, dtype=torch.float64)

    def ignorant(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        return weight * x.detach()

    with pytest.raises(ValueError, match=r"the shape of x, \(24, 2, 3, 4\); got \(24, 1, 3, 4\)"):
        pixel_influence(cut, x, SIGMA, condition)
    with pytest.raises(ValueError, match=r"shape of x, \(2, 2, 3, 4\); got \(2, 1, 3, 4\)"):
        object_influence(cut, x, SIGMA, condition, condition[None])
    for denoiser in (frozen, ignorant):
        with pytest.raises(ValueError, match="no gradient of the denoised image reaches x"):
            pixel_influence(denoiser, x, SIGMA, condition)
    with pytest.raises(ValueError, match="sigma is positive and finite; got nan"):
        pixel_influence(kernel_three, x, SIGMA * torch.nan, condition)
    with pytest.raises(ValueError, match="sigma is positive and finite; got inf, inf"):
        object_influence(kernel_three, x, SIGMA * torch.inf, condition, condition[None])
    with pytest.raises(ValueError, match=r"pixel \[0, 4\] is outside an image of 3 rows, 4 col"):
        pixel_influence(kernel_three, x, SIGMA, condition, torch.tensor([[0, 0], [0, 4]]))
    with pytest.raises(ValueError, match="at_once is at least 1 image; got 0"):
        pixel_influence(kernel_three, x, SIGMA, condition, at_once=0)
    with pytest.raises(ValueError, match=r"have one axis more, the object; got \(2, 2, 2\)"):
        object_influence(kernel_three, x, SIGMA, condition, torch.zeros(2, 2, 2))
    with pytest.raises(ValueError, match=r"object 1 of image 0 is at \(1, 0.3\), outside the im"):
        pixels_at(torch.tensor([[[0.1, 0.2], [1.0, 0.3]]]), HEIGHT, WIDTH)
