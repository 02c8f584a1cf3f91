"""Length is measured on generators whose answers are known, by a reader that makes no error."""

from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor

from recombine.measure import length as module
from recombine.measure.length import RADIUS, Outcome, Request, Rule, k_max, length, outcome
from recombine.measure.matching import partners
from recombine.measurement import Measurement, exact_binomial, student_t
from recombine.reader import Found

SIDE, CELL, MOST = 64, 8, 12
ALL = Rule(objects=3, labels=3, strict=True)
ONE = Rule(objects=3, labels=1, strict=False)


def pixels_of(images: Tensor) -> Found:
    """A reader that makes no error: an object is one pixel brighter than one half."""
    bright = (images[:, 0] > 0.5).flatten(1)
    width = int(bright.sum(dim=1).max())
    pixel = bright.byte().topk(width, dim=1).indices
    present = bright.gather(1, pixel)
    place = (torch.stack([pixel % SIDE, pixel // SIDE], dim=-1) + 0.5) / SIDE
    # The numbers of an absent object mean nothing.
    place[~present] = torch.nan
    return Found(place, torch.zeros(*present.shape, 1).long(), present.float(), present)


def pictured(condition: Tensor, generator: torch.Generator) -> Tensor:
    """A generator that makes no error: one bright pixel at every requested place."""
    del generator
    index, entry = condition[..., 2].nonzero(as_tuple=True)
    column, row = (condition[index, entry, :2] * SIDE).long().T
    images = torch.zeros(len(condition), SIDE, SIDE)
    images[index, row, column] = 1
    return images[:, None].repeat(1, 3, 1, 1)


def request_of(pixels: Tensor) -> Request:
    """Request objects at these pixels, given as (batch, object, column and row)."""
    place = (pixels + 0.5) / SIDE
    condition = torch.zeros(len(pixels), MOST, 3)
    condition[:, : pixels.shape[1], :2], condition[:, : pixels.shape[1], 2] = place, 1
    present = torch.ones(pixels.shape[:2], dtype=torch.bool)
    image = pictured(condition, torch.Generator())
    return Request(place, present, condition, image)


def requested(objects: Mapping[int, int], rng: torch.Generator) -> dict[int, Request]:
    """Request K objects so many times, each in a cell of its own, the corner left free."""
    requests = {}
    for k, samples in objects.items():
        cell = 1 + torch.rand(samples, 63, generator=rng).argsort(dim=1)[:, :k]
        pixels = torch.stack([cell % CELL, cell // CELL], dim=-1) * CELL + 3
        requests[k] = request_of(pixels)
    return requests


def measured(
    draw: Callable, rng: torch.Generator, rule: Rule = ALL, samples: int = 256, objects: int = 4
) -> dict[str, Measurement]:
    requests = requested(dict.fromkeys(range(objects + 1), samples), rng)
    return length(requests, draw, pixels_of, rule, rng).measurements


def one_too_many(condition: Tensor, generator: torch.Generator) -> Tensor:
    images = pictured(condition, generator)
    images[:, :, 0, 0] = 1
    return images


def one_short(condition: Tensor, generator: torch.Generator) -> Tensor:
    condition = condition.clone()
    last = condition[..., 2].sum(dim=1).long() - 1
    condition[torch.arange(len(condition)), last.clamp(min=0)] = 0
    return pictured(condition, generator)


def moved(pixels: int) -> Callable:
    def draw(condition: Tensor, generator: torch.Generator) -> Tensor:
        return pictured(condition, generator).roll(pixels, dims=3)

    return draw


# One K


def test_a_perfect_generator_is_at_the_ceiling(rng: torch.Generator):
    found = measured(pictured, rng)
    for k in range(1, 5):
        for name in ("success", "all_hit", "hit_rate"):
            assert found[f"{name}@{k}"].value == found[f"{name}_ceiling@{k}"].value == 1
            assert found[f"{name}@{k}"].n == 256
        assert found[f"count@{k}"].value == k
        assert found[f"extra@{k}"].value == 0
        assert found[f"extra_chance@{k}"].value > 0
    assert (found["k_max"].value, found["k_max@0.9"].value) == (4, 4)
    assert (found["beyond_objects"].value, found["beyond_labels"].value) == (1, 1)
    assert found["success_inside"].value == 1


def test_an_object_too_many_spoils_success_only_where_the_condition_names_all(rng: torch.Generator):
    strict = measured(one_too_many, rng)
    lenient = measured(one_too_many, rng, ONE)
    for k in range(1, 5):
        assert (strict[f"success@{k}"].value, strict[f"success_ceiling@{k}"].value) == (0, 1)
        assert strict[f"all_hit@{k}"].value == strict[f"hit_rate@{k}"].value == 1
        assert (strict[f"count@{k}"].value, strict[f"count_ceiling@{k}"].value) == (k + 1, k)
        assert (strict[f"extra@{k}"].value, strict[f"extra_ceiling@{k}"].value) == (1, 0)
        assert lenient[f"success@{k}"].value == 1
    assert (strict["k_max"].value, lenient["k_max"].value) == (0, 4)
    assert (strict["beyond_objects"].value, strict["beyond_labels"].value) == (-3, -3)
    assert (lenient["beyond_objects"].value, lenient["beyond_labels"].value) == (1, 3)


@pytest.mark.parametrize("rule", [ALL, ONE])
def test_an_object_too_few_is_a_failure_for_all(rule: Rule, rng: torch.Generator):
    found = measured(one_short, rng, rule, samples=16)
    for k in range(1, 5):
        assert found[f"success@{k}"].value == found[f"all_hit@{k}"].value == 0
        assert found[f"hit_rate@{k}"].value == pytest.approx((k - 1) / k)
        assert (found[f"count@{k}"].value, found[f"extra@{k}"].value) == (k - 1, 0)
    assert found["success_inside"].value == 0


def test_an_object_three_pixels_off_is_a_hit_and_one_four_pixels_off_is_not(rng: torch.Generator):
    assert measured(moved(3), rng, samples=16)["hit_rate@3"].value == 1
    assert measured(moved(-3), rng, samples=16)["hit_rate@3"].value == 1
    off = measured(moved(4), rng, samples=16)
    assert (off["hit_rate@3"].value, off["extra@3"].value, off["count@3"].value) == (0, 3, 3)
    assert RADIUS == 1 / 21


def test_no_object_is_reported_apart(rng: torch.Generator):
    strict, lenient = (measured(one_too_many, rng, rule, 16) for rule in (ALL, ONE))
    at_0 = {name for name in strict if name.endswith("@0")}
    assert at_0 == {"count@0", "count_ceiling@0", "success@0", "success_ceiling@0"}
    assert {name for name in lenient if name.endswith("@0")} == {"count@0", "count_ceiling@0"}
    assert (strict["success@0"].value, strict["success_ceiling@0"].value) == (0, 1)
    assert (strict["count@0"].value, lenient["count@0"].value) == (1, 1)
    assert measured(pictured, rng, samples=16)["success@0"].value == 1


def test_the_places_of_one_image_are_not_taken_for_independent():
    wanted, hits = torch.tensor([4, 4, 0, 4]), torch.tensor([4, 0, 0, 2])
    rate = Outcome(wanted, hits, hits, wanted, hits).hit_rate
    low, high = student_t([1.0, 0.0, 0.5])
    assert (low, high) == pytest.approx((-0.742, 1.742), abs=1e-3)
    assert rate == Measurement(0.5, 0.0, 1.0, n=3)
    wanted, hits = wanted[:2].repeat(50), hits[:2].repeat(50)
    some = Outcome(wanted, hits, hits, wanted, hits).hit_rate
    assert (some.low, some.high) == pytest.approx(student_t([1.0, 0.0] * 50))


def test_a_rate_over_images_has_its_exact_interval():
    wanted, hits = torch.tensor([2, 2, 2, 2]), torch.tensor([2, 2, 1, 2])
    what = Outcome(wanted, hits, torch.tensor([2, 3, 2, 1]), wanted, hits)
    assert what.all_hit == Measurement.rate(3, 4)
    assert what.success(strict=True) == Measurement.rate(2, 4)
    assert what.mean_count == Measurement.mean([2, 3, 2, 1])
    assert what.extra == Measurement.mean([0, 1, 1, -1])
    few = Outcome(wanted, hits, torch.tensor([0, 0, 0, 5]), wanted, hits).mean_count
    assert student_t([0, 0, 0, 5])[0] < 0
    assert (few.low, few.high) == (0.0, student_t([0, 0, 0, 5])[1])


def test_hits_are_counted_apart_where_another_requested_place_is_near():
    """Pixels 0 and 5 are nearer than two radii (6.1 pixels); 20 and 27 are not."""
    place = (torch.tensor([[0, 5, 20, 27], [0, 5, 20, 27]])[..., None] + 0.5) / SIDE
    place = torch.cat([place, torch.full_like(place, 0.5)], dim=-1)
    present = torch.tensor([[True] * 4, [True, False, True, True]])
    near = module.crowded(place, present, 2 * RADIUS)
    assert near.tolist() == [[True, True, False, False], [False] * 4]
    seen = torch.tensor([[True, False, True, True], [True, False, False, False]])
    found = Found(place, torch.zeros(2, 4, 1).long(), torch.ones(2, 4), seen)
    rates = outcome(found, place, present).by_room
    assert rates == {"near": Measurement.rate(1, 2), "clear": Measurement.rate(3, 5)}
    alone = outcome(found, place[:, 2:], present[:, 2:]).by_room
    assert alone == {"clear": Measurement.rate(2, 4)}


# Chance


@pytest.mark.parametrize("n", [2, 3, 10])
def test_nobody_is_their_own_partner_and_everybody_is_one(n: int, rng: torch.Generator):
    seen = set()
    for _ in range(200):
        partner = partners(n, rng)
        assert (partner != torch.arange(n)).all()
        assert sorted(partner.tolist()) == list(range(n))
        seen.add(tuple(partner.tolist()))
    assert len(seen) == (n - 1 if n < 4 else 200)


def at_columns(columns: list[int]) -> Request:
    return request_of(torch.tensor([[[column, 30]] for column in columns]))


@pytest.mark.parametrize(
    ("columns", "chance"), [([8] * 64, 1.0), (list(range(0, 64, 8)), 0.0), ([8, 40], 0.0)]
)
def test_chance_is_whether_another_scene_would_do_as_well(
    columns: list[int], chance: float, rng: torch.Generator
):
    found = length({1: at_columns(columns)}, pictured, pixels_of, ALL, rng).measurements
    assert found["success@1"].value == found["hit_rate@1"].value == 1
    assert found["success_chance@1"].value == found["hit_rate_chance@1"].value == chance


def test_absent_objects_are_shuffled_along_with_the_places(rng: torch.Generator):
    request = request_of(torch.tensor([[[8, 30], [60, 60]], [[8, 30], [40, 30]]]))
    request.present[0, 1], request.condition[0, 1], request.image[0, :, 60, 60] = False, 0, 0
    found = length({2: request}, pictured, pixels_of, ALL, rng).measurements
    assert found["success@2"].value == found["success_ceiling@2"].value == 1
    # The first draws one of two places; the second draws its one place, and another.
    assert found["hit_rate_chance@2"].value == 0.75
    assert found["all_hit_chance@2"].value == 0.5
    assert found["success_chance@2"].value == 0


def test_chance_is_of_the_samples_and_not_of_the_true_renders(rng: torch.Generator):
    def ignorant(condition: Tensor, generator: torch.Generator) -> Tensor:
        return pictured(condition[:1].expand_as(condition), generator)

    found = length({1: at_columns([8] * 63 + [40])}, ignorant, pixels_of, ALL, rng).measurements
    assert found["success@1"].value == found["success_chance@1"].value == 63 / 64


# K_max


def fewest(least: float, n: int) -> int:
    """The smallest number of successes that passes, by trying all of them."""
    return next(count for count in range(n + 1) if exact_binomial(count, n)[0] >= least)


def table(*successes: int, n: int = 256) -> dict[int, Measurement]:
    return {k: Measurement.rate(count, n) for k, count in enumerate(successes, start=1)}


def test_k_max_ends_where_the_lower_end_falls_below_one_half():
    enough = fewest(0.5, 256)
    assert enough == 145
    assert k_max(table(256, enough, enough - 1, 256)) == 2
    assert k_max(table(256, enough, enough, 0)) == 3
    assert k_max(table(enough - 1, 256)) == 0


def test_too_few_samples_have_no_k_max():
    assert k_max(table(255, 255, n=255)) is None
    rates = table(256, 256, 0, 256)
    assert k_max({**rates, 3: Measurement.rate(0, 255)}) is None
    # What comes after the first failure does not matter.
    assert k_max({**rates, 4: Measurement.rate(3, 4)}) == 2
    assert k_max(table(30, n=30), n=30) == 1


def test_a_gap_has_no_k_max():
    rates = table(256, 256, 0, 256)
    assert k_max({k: rates[k] for k in (2, 3)}) is None
    assert k_max({k: rates[k] for k in (1, 3)}) is None
    assert k_max({k: rates[k] for k in (1, 2, 4)}) is None
    assert k_max({k: rates[k] for k in (1, 2, 3)}) == 2
    assert k_max({}) is None
    assert k_max({0: rates[1]}) is None


def failing_at(share: Mapping[int, float]) -> Callable:
    """Draw K objects well in this share of the samples, and nothing in the others."""

    def draw(condition: Tensor, generator: torch.Generator) -> Tensor:
        images = pictured(condition, generator)
        count = condition[..., 2].sum(dim=1).long()
        for k, good in share.items():
            mine = (count == k).nonzero()[:, 0]
            images[mine[round(good * len(mine)) :]] = 0
        return images

    return draw


def test_k_max_has_the_range_that_the_samples_allow(rng: torch.Generator):
    found = measured(failing_at({2: 0.8, 3: 0.48, 4: 0.3}), rng)
    # At 3 one half lies inside the interval, at 4 it lies above.
    assert found["k_max"] == Measurement(2, 2, 3, n=256)
    assert found["k_max@0.25"] == Measurement(3, 3, 4, n=256)
    assert found["k_max@0.75"] == Measurement(1, 1, 2, n=256)
    assert found["k_max@0.9"] == Measurement(1, 1, 1, n=256)
    assert found["beyond_objects"] == Measurement(-1, -1, 0, n=256)


def test_success_inside_training_is_the_worst_of_it(rng: torch.Generator):
    draw = failing_at({1: 0.75, 2: 0.5, 4: 0.25})
    low, high = exact_binomial(8, 16)
    assert measured(draw, rng, ALL, 16)["success_inside"] == Measurement(0.5, low, high, n=16)
    assert measured(draw, rng, ONE, 16)["success_inside"].value == 0.75


def test_success_inside_training_is_relative_to_the_ceiling(rng: torch.Generator):
    request = requested({1: 8}, rng)[1]
    request.image[:2] = 0
    found = length({1: request}, failing_at({1: 0.5}), pixels_of, ALL, rng).measurements
    assert found["success_ceiling@1"].value == 0.75
    assert found["success_inside"].value == pytest.approx(0.5 / 0.75)
    assert found["success_inside"].low == pytest.approx(exact_binomial(4, 8)[0] / 0.75)
    request.image[:] = 0
    found = length({1: request}, pictured, pixels_of, ALL, rng).measurements
    assert found["success_inside"] == Measurement(0.0, None, None, n=8)


def test_with_few_samples_the_rates_are_there_and_k_max_is_not(rng: torch.Generator):
    found = measured(pictured, rng, samples=4)
    assert found["success@4"].n == 4
    assert not [name for name in found if name.startswith(("k_max", "beyond"))]
    outside = {k: each for k, each in requested({4: 3, 5: 3}, rng).items()}
    found = length(outside, pictured, pixels_of, ALL, rng).measurements
    assert "success_inside" not in found


# Places, images, batches


def test_places_and_sheets_are_of_the_first_samples(rng: torch.Generator):
    requests = requested({0: 9, 3: 9, 5: 9}, rng)
    requests[5].present[0, 2] = False
    found = length(requests, one_too_many, pixels_of, ONE, rng)
    assert found.arrays["requested@0"].shape == (4, 0, 2)
    assert found.arrays["requested@3"].dtype == torch.float16
    corner = [0.5 / SIDE] * 2
    for here, there, place in zip(
        found.arrays["requested@3"], found.arrays["detected@3"], requests[3].place, strict=False
    ):
        torch.testing.assert_close(here.float(), place, atol=3e-4, rtol=0)
        torch.testing.assert_close(sorted(there.tolist()), sorted([*here.tolist(), corner]))
    absent = found.arrays["requested@5"].isnan().all(dim=-1)
    assert absent.nonzero().tolist() == [[0, 2]]
    assert list(found.images) == ["objects3"]
    assert torch.equal(found.images["objects3"], one_too_many(requests[3].condition, rng)[:8])
    assert not found.curves


def test_all_k_are_drawn_in_a_few_equal_batches_and_keep_apart(
    rng: torch.Generator, monkeypatch: pytest.MonkeyPatch
):
    sizes = []

    def draw(condition: Tensor, generator: torch.Generator) -> Tensor:
        sizes.append(len(condition))
        return pictured(condition, generator)

    requests = requested({3: 10, 1: 12, 2: 14}, rng)
    monkeypatch.setattr(module, "BATCH", 16)
    found = length(requests, draw, pixels_of, ALL, rng).measurements
    assert sizes == [12, 12, 12]
    assert [found[f"success@{k}"].value for k in (1, 2, 3)] == [1, 1, 1]
    assert [found[f"success@{k}"].n for k in (1, 2, 3)] == [12, 14, 10]


def test_a_sample_is_read_as_it_is_shown(rng: torch.Generator):
    seen = []

    def reader(images: Tensor) -> Found:
        seen.append((float(images.min()), float(images.max())))
        return pixels_of(images)

    def glaring(condition: Tensor, generator: torch.Generator) -> Tensor:
        return 3 * pictured(condition, generator) - 1

    length(requested({1: 4}, rng), glaring, reader, ALL, rng)
    assert seen == [(0.0, 1.0), (0.0, 1.0)]


def test_the_same_generator_gives_the_same_numbers():
    def once() -> dict[str, Measurement]:
        return measured(pictured, torch.Generator().manual_seed(3), samples=8)

    assert once() == once()
