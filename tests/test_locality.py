"""Locality is measured on laws and functions that are known to be local, or not."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from recombine.measure.locality import (
    FAINT,
    HIGH,
    OWN,
    RADIUS,
    Ablations,
    Gauge,
    at_places,
    high_noise,
    locality,
    own_and_all,
    shared,
)
from recombine.models.gaussian import GaussianLaw
from recombine.models.mixture import marks_one, scene_law

SIDE, CELL, BATCH = 16, 4, 4
CELLS = SIDE // CELL
LEVELS = (0.5, 5.0, 20.0)
AT = ((0, 0), (1, 2), (3, 1))
"""Requested cells, as row and column."""


def sigmas(levels: tuple[float, ...] = LEVELS) -> Tensor:
    return torch.tensor(levels).repeat_interleave(BATCH)


def scene(levels: tuple[float, ...] = LEVELS) -> tuple[Tensor, Tensor]:
    """Noisy images, and a condition that marks the requested cells."""
    batch = BATCH * len(levels)
    x = torch.randn(batch, 2, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    condition = torch.zeros(batch, CELLS, CELLS)
    for row, column in AT:
        condition[:, row, column] = 1
    return x, condition


def ablated(condition: Tensor, to: tuple[int, int] = (0, 3)) -> Ablations:
    """The requested places, and the condition without each, or with each moved to a free cell."""
    place = torch.tensor([[(column + 0.5) / CELLS, (row + 0.5) / CELLS] for row, column in AT])
    without = condition.repeat(len(AT), 1, 1, 1)
    for index, (row, column) in enumerate(AT):
        without[index, :, row, column] = 0
    moved = without.clone()
    moved[:, :, to[0], to[1]] = 1
    return Ablations(place.expand(len(condition), -1, 2), without, moved)


def spread_out(condition: Tensor) -> Tensor:
    """Each cell of a grid on all of its pixels."""
    return condition.repeat_interleave(CELL, 1).repeat_interleave(CELL, 2)[:, None]


def perfect(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
    """Looks at one pixel of x and the cell around it."""
    return x / (1 + sigma[:, None, None, None]) + spread_out(condition)


def ignorant(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
    """Ignores its condition, but for rounding."""
    return (x + condition.sum(dim=(1, 2))[:, None, None, None]) - condition.sum(dim=(1, 2))[
        :, None, None, None
    ]


def crosstalk(share: float):
    """A cell depends on each other one by so much of how it depends on its own."""

    def denoiser(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        everywhere = condition.sum(dim=(1, 2))[:, None, None, None]
        return x + (1 - share) * spread_out(condition) + share * everywhere

    return denoiser


def values(found) -> dict[str, float]:
    return {name: each.value for name, each in found.measurements.items()}


def test_a_perfectly_local_denoiser_has_locality_one_and_no_leak():
    x, condition = scene()
    found = values(locality(perfect, x, sigmas(), condition, ablated(condition)))
    for level in ("", "@0.5", "@5", "@20"):
        assert found[f"conditional_locality{level}"] == pytest.approx(1)
        assert found[f"conditional_locality_moved{level}"] == pytest.approx(1)
        assert found[f"pixel_locality{level}"] == pytest.approx(1)
    assert found["pixel_radius_95@20"] == 0


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_conditional_locality_is_the_share_of_the_own_object(share: float):
    x, condition = scene()
    found = locality(crosstalk(share), x, sigmas(), condition, ablated(condition))
    expected = 1 / (1 + (len(AT) - 1) * share)
    assert found.measurements["conditional_locality"].value == pytest.approx(expected, abs=1e-5)
    assert found.measurements["conditional_locality"].n == BATCH
    # Moving keeps the count, and the other places depended on nothing else.
    assert ("conditional_locality_moved" in found.undefined) == (share == 1)
    if share < 1:
        assert found.measurements["conditional_locality_moved"].value == pytest.approx(1)


def test_the_leak_is_the_share_that_lands_far_away():
    x, condition = scene()
    share = 0.25
    found = values(locality(crosstalk(share), x, sigmas(), condition, ablated(condition)))
    near = round(RADIUS * SIDE)
    leaks = []
    for row, column in AT:
        change = torch.full((SIDE, SIDE), share)
        change[row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL] = 1
        centre = row * CELL + CELL // 2, column * CELL + CELL // 2
        inside = torch.zeros(SIDE, SIDE, dtype=torch.bool)
        inside[
            max(centre[0] - near, 0) : centre[0] + near + 1,
            max(centre[1] - near, 0) : centre[1] + near + 1,
        ] = True
        leaks.append((change[~inside].sum(), change.sum()))
    far, whole = (sum(each) for each in zip(*leaks, strict=True))
    assert found["leak"] == pytest.approx(float(far / whole), abs=1e-5)
    assert found["leak@20"] == pytest.approx(float(far / whole), abs=1e-5)


def test_labelling_one_cell_of_a_scene_leaks_half_of_its_effect(rng: torch.Generator):
    """The law of Exp. 2: summed over other cells, the leak equals the own effect in size."""
    law, samples = scene_law((1, 2, 3), marks_one), 24
    cell = torch.randint(6, (samples,), generator=rng)
    condition = torch.eye(6, dtype=torch.float64)[cell]
    sigma = torch.full((samples,), 20.0, dtype=torch.float64)
    x = law.sample(condition, rng)
    x = x + 20 * torch.randn(x.shape, generator=rng, dtype=torch.float64)
    place = torch.stack([(cell % 3 + 0.5) / 3, (cell // 3 + 0.5) / 2], dim=-1)[:, None].double()
    found = locality(law, x, sigma, condition, Ablations(place, torch.zeros_like(condition)[None]))
    assert found.measurements["leak"].value == pytest.approx(0.5, abs=0.01)
    # One object has no other to be mistaken for: nothing to call local.
    assert "conditional_locality" not in found.measurements


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_a_law_may_be_local_in_pixels_and_not_in_conditions(beta: float, rng: torch.Generator):
    """T4: blocks are independent, but the mean of each is shifted by beta times all others."""
    side, blocks = 8, 4
    block = torch.arange(side) // (side // 2)
    which = (2 * block[:, None] + block).flatten()
    root = torch.randn(side**2, side**2, generator=rng, dtype=torch.float64)
    covariance = (root @ root.T / side**2) * (which[:, None] == which)
    shape = torch.rand(side**2, generator=rng, dtype=torch.float64) + 0.5

    def mean(condition: Tensor) -> Tensor:
        mixed = condition + beta * (condition.sum(dim=1, keepdim=True) - condition)
        return (mixed[:, which] * shape).unflatten(1, (1, side, side))

    law = GaussianLaw(mean, covariance)
    condition = torch.ones(3, blocks, dtype=torch.float64)
    without = condition - torch.eye(blocks, dtype=torch.float64)[:, None]
    centre = torch.tensor([[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]])
    place = centre.double().expand(3, -1, 2)
    sigma = torch.full((3,), 6.0, dtype=torch.float64)
    x = law.sample(condition, rng) + 6 * torch.randn(3, 1, side, side, generator=rng).double()
    found = values(locality(law, x, sigma, condition, Ablations(place, without), Gauge(lattice=0)))
    # Every block moves as its own condition moves it, by beta times that for the others.
    assert found["conditional_locality"] == pytest.approx(1 / (1 + (blocks - 1) * beta), abs=1e-9)
    # A place in the middle of a block of 4 x 4 does not depend on pixels 3 away.
    assert found["pixel_radius_95@6"] <= 2
    outside = torch.einsum(
        "bpq,pq->b", law.jacobian(x, sigma, condition).abs(), (which[:, None] != which).double()
    )
    assert outside.max() < 1e-10


def test_a_denoiser_that_ignores_its_condition_has_no_conditional_locality():
    x, condition = scene()
    for denoiser in (ignorant, lambda x, sigma, condition: x):
        found = locality(denoiser, x, sigmas(), condition, ablated(condition))
        for name in ("conditional_locality", "conditional_locality_moved", "leak"):
            assert not any(each.startswith(name) for each in found.measurements)
            assert "does not depend on its condition" in found.undefined[name]
        assert found.measurements["pixel_locality"].value == pytest.approx(1)


def test_a_share_is_undefined_where_there_is_next_to_nothing_to_share():
    def faint(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        strength = torch.where(sigma > 1, 1.0, 0.5 * FAINT)
        return x + strength[:, None, None, None] * spread_out(condition)

    x, condition = scene()
    found = locality(faint, x, sigmas(), condition, ablated(condition))
    assert "conditional_locality@0.5" not in found.measurements
    assert "0.0005 of its maximum" in found.undefined["conditional_locality@0.5"]
    assert found.measurements["conditional_locality@5"].value == pytest.approx(1)
    assert found.measurements["conditional_locality"].value == pytest.approx(1)
    assert "pixel_locality@0.5" in found.measurements


def test_high_noise_is_the_mean_over_its_levels_alone():
    levels = (1.0, 5.0, 12.0, 20.0, 21.0)

    def mixed(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        share = (sigma / 100)[:, None, None, None]
        everywhere = condition.sum(dim=(1, 2))[:, None, None, None]
        return x + spread_out(condition) * (1 - share) + share * everywhere

    x, condition = scene(levels)
    found = values(locality(mixed, x, sigmas(levels), condition, ablated(condition)))
    each = {level: 1 / (1 + 2 * level / 100) for level in levels}
    for level in levels:
        assert found[f"conditional_locality@{level:g}"] == pytest.approx(each[level], abs=1e-5)
    assert HIGH == (5, 20)
    mean = (each[5.0] + each[12.0] + each[20.0]) / 3
    assert found["conditional_locality"] == pytest.approx(mean, abs=1e-5)


def test_high_noise_is_relative_to_what_is_measured():
    assert high_noise([0.1, 0.3, 1.0]) == (0.25, 1.0)
    assert high_noise([0.1, 20.0]) == high_noise([80.0]) == HIGH
    x, condition = scene((0.5,))
    found = locality(perfect, x, sigmas((0.5,)), condition, ablated(condition))
    assert found.measurements["conditional_locality"].value == pytest.approx(1)
    assert found.measurements["conditional_locality@0.5"].value == pytest.approx(1)


def test_without_high_noise_no_level_stands_for_it():
    x, condition = scene((60.0,))
    found = locality(perfect, x, sigmas((60.0,)), condition, ablated(condition))
    assert "conditional_locality" not in found.measurements
    assert "from 5 to 20" in found.undefined["conditional_locality"]


@pytest.mark.parametrize("sigma", [0.5, torch.tensor(0.5), torch.tensor(0.5).double()])
def test_one_number_is_the_level_of_all_images(sigma: float | torch.Tensor):
    x, condition = scene((0.5,))
    given = locality(perfect, x, sigmas((0.5,)), condition, ablated(condition))
    found = locality(perfect, x, sigma, condition, ablated(condition))
    assert found.measurements == given.measurements


def test_pixel_locality_is_the_share_within_an_eighth_of_the_side():
    def wide(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        return F.avg_pool2d(x, 7, 1, 3)

    x, condition = scene()
    # One pixel of a lattice, in the middle: 5 x 5 of 7 x 7 pixels are near.
    found = values(locality(wide, x, sigmas(), condition, None, Gauge(lattice=1)))
    assert round(RADIUS * SIDE) == 2
    assert found["pixel_locality"] == pytest.approx(25 / 49, abs=1e-6)
    assert found["pixel_radius_50@5"] == 2
    assert found["pixel_radius_75@5"] == found["pixel_radius_95@5"] == 3
    assert not any(name.startswith(("conditional", "leak")) for name in found)


def test_the_requested_places_and_a_lattice_are_used():
    pixels = Gauge().pixels(2, 64, 32, torch.device("cpu"))
    assert pixels.shape == (2, 16, 2)
    assert pixels[0, :5].tolist() == [[8, 4], [8, 12], [8, 20], [8, 28], [24, 4]]
    assert Gauge(0).pixels(2, 64, 32, torch.device("cpu")).shape == (2, 0, 2)

    def corner(x: Tensor, sigma: Tensor, condition: Tensor) -> Tensor:
        """Local everywhere but in the cell of the first requested object."""
        far = torch.zeros_like(x)
        far[:, :, :CELL, :CELL] = x[:, :, -CELL:, -CELL:]
        keep = torch.ones(SIDE, SIDE)
        keep[:CELL, :CELL] = 0
        return x * keep + far

    x, condition = scene()
    alone = values(locality(corner, x, sigmas(), condition, ablated(condition), Gauge(0)))
    assert alone["pixel_locality"] == pytest.approx(2 / 3)


def test_own_pixels_are_those_around_a_place(rng: torch.Generator):
    assert OWN == 1 / 32
    moves = torch.rand(2, 3, 4, 4, generator=rng)
    own = torch.zeros(3, 2, 4, 4, dtype=torch.bool)
    own[:, 0, 0, :2], own[:, 1, 2:, 3] = True, True
    found = at_places(moves, own)
    for image in range(3):
        for number in range(2):
            first = moves[number, image, 0, :2].mean()
            second = moves[number, image, 2:, 3].mean()
            torch.testing.assert_close(found[image, :, number], torch.stack([first, second]))
    part, whole = own_and_all(found)
    torch.testing.assert_close(part, found[:, 0, 0] + found[:, 1, 1])
    torch.testing.assert_close(whole, found.sum(dim=(1, 2)))


def test_the_interval_of_a_share_holds_the_truth_as_often_as_it_says(rng: torch.Generator):
    hits = 0
    for _ in range(300):
        sums = []
        for share in (0.2, 0.6):
            whole = torch.rand(32, generator=rng) + 0.2
            sums.append((whole * share * 2 * torch.rand(32, generator=rng), whole))
        measured = shared(sums)
        hits += measured.low <= 0.4 <= measured.high
    assert 0.91 < hits / 300 < 0.985
    part, whole = sums[0]
    assert shared([sums[0]]).value == pytest.approx(float(part.sum() / whole.sum()))
    alone = shared([(part[:1], whole[:1])])
    assert (alone.low, alone.high, alone.n) == (None, None, 1)


def test_levels_may_come_in_any_order():
    x, condition = scene()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(1))
    plain = locality(crosstalk(0.3), x, sigmas(), condition, ablated(condition))
    mixed = locality(
        crosstalk(0.3), x[order], sigmas()[order], condition[order], ablated(condition)[order]
    )
    for name, each in plain.measurements.items():
        assert mixed.measurements[name].value == pytest.approx(each.value, abs=1e-5)


def test_the_ablations_of_some_images_keep_their_order(rng: torch.Generator):
    whole = Ablations(
        *(torch.rand(size, generator=rng) for size in ((5, 2, 2), (2, 5, 3), (2, 5, 3)))
    )
    some = whole[torch.tensor([3, 1])]
    assert torch.equal(some.place, whole.place[[3, 1]])
    assert torch.equal(some.without, whole.without[:, [3, 1]])
    assert torch.equal(some.moved, whole.moved[:, [3, 1]])


def test_bad_input_is_refused_in_one_clear_line():
    x, condition = scene()
    good = ablated(condition)
    outside = replace(good, place=good.place + 1)
    with pytest.raises(ValueError, match="object 0 of image 0 is at .*outside the image"):
        locality(perfect, x, sigmas(), condition, outside)
    with pytest.raises(ValueError, match="sigma is positive and finite; got nan"):
        locality(perfect, x, sigmas() * torch.nan, condition)
    with pytest.raises(ValueError, match=r"as many images; got \{0.5: 3, 5.0: 4, 20.0: 4\}"):
        locality(perfect, x[1:], sigmas()[1:], condition[1:])
    with pytest.raises(ValueError, match="x holds 12 images; places are of 4"):
        locality(perfect, x, sigmas(), condition, good[torch.arange(4)])
    with pytest.raises(ValueError, match=r"3 objects .* in 12 images, so `without` has the shape"):
        replace(good, without=good.without[:2])
    with pytest.raises(ValueError, match="1 image or more; got none"):
        locality(perfect, x[:0], sigmas()[:0], condition[:0])
    with pytest.raises(ValueError, match="0 pixels to a side, or more; got -1"):
        Gauge(-1)
