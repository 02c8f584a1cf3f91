"""Pairs of nearby places: as many as possible, then as close as possible."""

from itertools import permutations

import pytest
import torch
from torch import Tensor

from recombine.measure.matching import matched

HERE = torch.tensor([[[0.5, 0.5]]])
YES = torch.tensor([[True]])


def naive(found: Tensor, place: Tensor, radius: float) -> tuple[int, float]:
    """Try every assignment of one scene; return the most pairs and their least distance."""
    distance = (place[:, None] - found[None]).square().sum(dim=-1).sqrt().tolist()
    slots = [*range(len(found)), *[-1] * len(place)]
    best = (0, 0.0)
    for chosen in set(permutations(slots, len(place))):
        pairs = [distance[at][to] for at, to in enumerate(chosen) if to >= 0]
        if all(each <= radius for each in pairs):
            best = max(best, (len(pairs), -sum(pairs)))
    return best[0], -best[1]


@pytest.mark.parametrize(("found", "objects"), [(3, 3), (4, 2), (2, 4), (1, 3)])
@pytest.mark.parametrize("radius", [0.1, 0.3, 0.8])
def test_pairs_are_those_of_trying_every_assignment(
    found: int, objects: int, radius: float, rng: torch.Generator
):
    found_place = torch.rand(20, found, 2, generator=rng, dtype=torch.float64)
    place = torch.rand(20, objects, 2, generator=rng, dtype=torch.float64)
    found_present = torch.rand(20, found, generator=rng) < 0.8
    present = torch.rand(20, objects, generator=rng) < 0.8
    pairs = matched(found_place, found_present, place, present, radius)
    for each in range(20):
        kept = pairs[each] >= 0
        chosen = pairs[each][kept]
        assert len(set(chosen.tolist())) == len(chosen)
        assert present[each][kept].all()
        assert found_present[each][chosen].all()
        gap = place[each][kept] - found_place[each][chosen]
        distance = gap.square().sum(dim=-1).sqrt()
        assert (distance <= radius).all()
        most, least = naive(
            found_place[each][found_present[each]], place[each][present[each]], radius
        )
        assert len(chosen) == most
        assert float(distance.sum()) == pytest.approx(least)


def test_the_radius_itself_is_near_enough():
    beside = HERE + torch.tensor([0.25, 0.0])
    assert matched(beside, YES, HERE, YES, 0.25).tolist() == [[0]]
    assert matched(beside, YES, HERE, YES, 0.2499).tolist() == [[-1]]


def test_absent_objects_are_never_paired_whatever_is_said_of_them():
    nowhere = torch.full((1, 1, 2), torch.nan)
    assert matched(HERE, ~YES, HERE, YES, 1.0).tolist() == [[-1]]
    assert matched(HERE, YES, HERE, ~YES, 1.0).tolist() == [[-1]]
    places = torch.cat([nowhere, HERE], dim=1)
    second = torch.tensor([[False, True]])
    assert matched(places, second, places, second, 1.0).tolist() == [[-1, 1]]


def test_no_objects_and_nothing_found_are_answers_too():
    none = torch.zeros(1, 0, 2)
    assert matched(none, none[..., 0].bool(), HERE, YES, 1.0).tolist() == [[-1]]
    assert matched(HERE, YES, none, none[..., 0].bool(), 1.0).shape == (1, 0)
