"""Splits by coverage: nested, stratified, and with test and dev that no coverage shows."""

from itertools import pairwise

import pytest

from recombine.scene import compositions
from recombine.split import Coverage, Split, _dealt, level
from recombine.worlds.shapes2d import Shapes2D

GRID96 = Shapes2D().factors
STAR, MOST = 12, 60


def dealt(seen: int, order: int) -> Split:
    return Coverage(GRID96, seen, order).split


@pytest.mark.parametrize("order", range(8))
def test_test_and_dev_are_unseen_at_every_coverage_and_what_is_seen_grows(order: int):
    splits = [dealt(seen, order) for seen in (STAR, 18, 27, 40, MOST)]
    for fewer, more in pairwise(splits):
        assert set(fewer.seen) < set(more.seen)
        assert (fewer.test, fewer.dev) == (more.test, more.dev)
    for split, seen in zip(splits, (12, 18, 27, 40, 60), strict=True):
        parts = [split.seen, split.test, split.dev, split.left_out]
        assert [len(part) for part in parts] == [seen, 24, 12, 60 - seen]
        assert len({which for part in parts for which in part}) == 96


@pytest.mark.parametrize("order", range(8))
def test_the_least_coverage_is_a_base_and_all_its_single_changes(order: int):
    seen = dealt(STAR, order).seen
    bases = [
        base
        for base in seen
        if all(sum(a != b for a, b in zip(base, w, strict=True)) <= 1 for w in seen)
    ]
    assert len(bases) == 1
    near = [w for w in compositions(GRID96) if level(w, bases) <= 1]
    assert set(near) == set(seen)


@pytest.mark.parametrize("order", range(8))
def test_test_and_dev_are_in_proportion_by_level_and_concept(order: int):
    split = dealt(STAR, order)
    others = [w for w in compositions(GRID96) if w not in split.seen]
    for part in (split.test, split.dev):
        share = len(part) / len(others)
        for away in (1, 2):
            expected = share * sum(level(w, split.seen) == away for w in others)
            assert abs(sum(level(w, split.seen) == away for w in part) - expected) < 1
        for axis, factor in enumerate(GRID96):
            for concept in factor.concepts:
                expected = share * sum(w[axis] == concept for w in others)
                assert abs(sum(w[axis] == concept for w in part) - expected) < 1


def test_orders_have_bases_and_tests_of_their_own_and_are_the_same_each_time():
    splits = [dealt(STAR, order) for order in range(8)]
    assert len({split.seen for split in splits}) == 8
    assert len({split.test for split in splits}) == 8
    _dealt.cache_clear()
    assert dealt(STAR, 3) == splits[3]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"seen": 11}, "coverage is from 12 .* to 60 .*; got 11"),
        ({"seen": 61}, "coverage is from 12 .* to 60 .*; got 61"),
        ({"seen": 18, "test": 0}, "test has at least 1 composition; got 0"),
        ({"seen": 18, "dev": 0}, "dev has at least 1 composition; got 0"),
    ],
)
def test_a_coverage_that_cannot_be_is_refused(fields: dict[str, int], message: str):
    with pytest.raises(ValueError, match=message):
        Coverage(GRID96, **fields)
