"""Factors as labels or as actual values, and what becomes of them when some go untold."""

from dataclasses import replace

import pytest
import torch

from recombine.condition import (
    Conditioner,
    FactorDropout,
    FactorValues,
    Labels,
    all_objects,
    no_object,
)
from recombine.scene import Scenes
from recombine.worlds.shapes2d import COLOURS, PAPER

LABELS, ACTUAL = Labels((2, 2, 2)), FactorValues()


@pytest.fixture
def scenes() -> Scenes:
    return PAPER.scenes(torch.arange(400), seed=0)


def test_labels_write_a_one_for_each_value(scenes: Scenes):
    written = LABELS(scenes)
    assert written.shape == (400, 3, 3)
    assert torch.equal(written[..., :2].argmax(dim=-1), scenes.concepts[:, 0])
    assert torch.equal(written[..., :2].sum(dim=-1), torch.ones(400, 3))
    assert (written[..., 2] == 1).all()


def test_labels_hold_the_factor_with_most_values():
    scenes = replace(PAPER.scenes(torch.arange(1), 0), concepts=torch.tensor([[[1, 4]]]))
    assert Labels((2, 5))(scenes).tolist() == [[[0, 1, 0, 0, 0, 1], [0, 0, 0, 0, 1, 1]]]


def test_actual_values_are_those_of_the_picture(scenes: Scenes):
    written = ACTUAL(scenes)
    assert written.shape == (400, 3, 4)
    assert torch.equal(written[:, 0, :2].argmax(dim=-1), scenes.concepts[:, 0, 0])
    assert torch.equal(written[:, 1, 0], scenes.size[:, 0])
    assert torch.equal(written[:, 2, :3], scenes.colour[:, 0])
    assert not written[:, 1, 1:3].any()
    # Canonical scenes say the canonical values.
    still = ACTUAL(PAPER.means.scenes(torch.arange(40), seed=1))
    assert set(still[:, 1, 0].tolist()) == set(PAPER.radii.flatten().tolist())
    assert {tuple(row) for row in still[:, 2, :3].tolist()} == {
        tuple(torch.tensor(COLOURS[name]).tolist()) for name in PAPER.colours
    }


def many(batch: int, rng: torch.Generator) -> Scenes:
    """Scenes of four shapes, four sizes and six colours, each of its own size and colour."""
    counts = (4, 4, 6)
    concepts = [torch.randint(count, (batch, 1), generator=rng) for count in counts]
    return replace(
        PAPER.scenes(torch.arange(batch), seed=0),
        concepts=torch.stack(concepts, dim=2),
        size=1 + torch.rand(batch, 1, generator=rng),
        colour=torch.rand(batch, 1, 3, generator=rng),
    )


@pytest.mark.parametrize(("values", "features"), [((4, 4, 6), 4), ((2, 9, 9), 3), ((7, 4, 6), 7)])
def test_rows_of_actual_values_hold_any_number_of_shapes(values, features, rng: torch.Generator):
    scenes, encode = many(200, rng), FactorValues(values)
    shapes = scenes.concepts[:, 0, 0] % values[0]
    scenes.concepts[:, 0, 0] = shapes
    written = encode(scenes)
    assert written.shape == (200, 3, features + 1)
    assert encode.features == features
    for row, shape, size, colour in zip(
        written, shapes, scenes.size[:, 0], scenes.colour[:, 0], strict=True
    ):
        expected = torch.zeros(3, features + 1)
        expected[0, shape], expected[1, 0], expected[2, :3] = 1, size, colour
        expected[:, -1] = 1
        assert torch.equal(row, expected)
    # Which label size and colour have is not in the condition.
    other = scenes.concepts.clone()
    other[..., 1:] = 0
    assert torch.equal(encode(replace(scenes, concepts=other)), written)


@pytest.mark.parametrize("encode", [Labels((4, 4, 6)), FactorValues((4, 4, 6))])
def test_of_many_concepts_a_dropped_factor_is_null_and_a_hazard_is_a_value(encode, rng):
    scenes = many(4000, rng)
    given = encode(scenes)
    kept = FactorDropout(all_objects, encode)(scenes, rng)
    dropped = kept[..., -1] == 0
    assert not kept[dropped].any()
    assert torch.equal(kept[~dropped], given[~dropped])
    assert (dropped.float().mean(0) - 0.1).abs().max() < 4 * (0.09 / 4000) ** 0.5
    wrong = FactorDropout(all_objects, encode, share=1.0, as_zero=True)(scenes, rng)
    first = torch.zeros_like(given)
    first[..., -1] = 1
    first[:, 0, 0] = 1
    if isinstance(encode, Labels) and not isinstance(encode, FactorValues):
        first[..., 0] = 1
    assert torch.equal(wrong, first)
    requested = FactorDropout(all_objects, encode, when_sampling=True)
    assert (requested.for_sampling(given, rng)[..., -1] == 0).any()
    assert FactorDropout(all_objects, encode).for_sampling(given, rng) is given


@pytest.mark.parametrize("encode", [LABELS, ACTUAL])
def test_absent_objects_have_no_factors_in_the_condition(encode: Labels, scenes: Scenes):
    assert not Conditioner(no_object, encode)(scenes, torch.Generator()).any()


@pytest.mark.parametrize("encode", [LABELS, ACTUAL])
def test_each_factor_is_dropped_by_itself_a_tenth_of_the_time(encode: Labels):
    scenes = PAPER.scenes(torch.arange(20_000), seed=0)
    told = encode(scenes)
    kept = FactorDropout(all_objects, encode)(scenes, torch.Generator().manual_seed(0))
    dropped = kept[..., -1] == 0
    assert torch.equal(kept[~dropped], told[~dropped])
    assert not kept[dropped].any()
    rates = dropped.float().mean(dim=0)
    # Four standard deviations of 20,000 draws.
    assert (rates - 0.1).abs().max() < 4 * (0.09 / 20_000) ** 0.5
    both = (dropped[:, 0] & dropped[:, 2]).float().mean()
    assert abs(both - 0.01) < 4 * (0.01 * 0.99 / 20_000) ** 0.5


def test_nothing_is_dropped_when_sampling_but_by_mistake(scenes: Scenes):
    generator = torch.Generator().manual_seed(0)
    told = LABELS(scenes)
    assert Conditioner(all_objects, LABELS).for_sampling(told, generator) is told
    assert FactorDropout(all_objects, LABELS).for_sampling(told, generator) is told
    wrong = FactorDropout(all_objects, LABELS, when_sampling=True).for_sampling(told, generator)
    assert 0 < (wrong[..., -1] == 0).float().mean() < 0.2


def test_the_mistake_of_writing_zero_says_something_wrong_to_the_whole_batch(scenes: Scenes):
    generator = torch.Generator().manual_seed(0)
    for encode in (LABELS, ACTUAL):
        told, all_or_none = encode(scenes), 0
        wrong = FactorDropout(all_objects, encode, share=0.5, as_zero=True)
        for _ in range(20):
            kept = wrong(scenes, generator)
            assert (kept[..., -1] == 1).all()
            changed = (kept != encode(scenes)).any(dim=-1)
            for factor in range(3):
                zeroed = torch.equal(kept[:, factor], encode.zero(told)[:, factor])
                assert zeroed or not changed[:, factor].any()
                all_or_none += zeroed
        assert 15 < all_or_none < 45
    assert LABELS.zero(told[..., :3])[0].tolist() == [[1, 0, 1]] * 3
    assert ACTUAL.zero(told)[0].tolist() == [[1, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1]]


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_that_cannot_be_is_refused(share: float):
    with pytest.raises(ValueError, match="dropped factors lies in"):
        FactorDropout(share=share)


def test_labels_of_other_worlds_are_refused(scenes: Scenes):
    with pytest.raises(ValueError, match="labels are of 2 factors; got 3"):
        Labels((2, 2))(scenes)
    with pytest.raises(ValueError, match="labels are of 3 factors; got 2"):
        ACTUAL(replace(scenes, concepts=scenes.concepts[..., :2]))
    with pytest.raises(ValueError, match=r"of shape, size and colour; got \(2, 2\)"):
        FactorValues((2, 2))
    with pytest.raises(ValueError, match="at least 1 value"):
        Labels((2, 0))
