"""Random numbers are judged as numbers: against plain integers, and by the laws they must obey."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from recombine.draw import bits, uniform, whole

WORD = 1 << 64
ODD, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
SOME = torch.arange(4096)


def mixed(value: int) -> int:
    value = (value ^ (value >> 30)) * FIRST % WORD
    value = (value ^ (value >> 27)) * SECOND % WORD
    return value ^ (value >> 31)


def plain_bits(seed: int, index: int, draw: int) -> int:
    start = mixed((seed * ODD + FIRST) % WORD)
    scene = mixed((start + (index + 1) * ODD) % WORD)
    return mixed((scene + (draw + 1) * SECOND) % WORD)


@given(
    st.integers(-(2**70), 2**70),
    st.integers(-(2**63), 2**63 - 2),
    st.integers(0, 2**40),
    st.integers(1, 2**31),
)
@settings(deadline=None)
def test_bits_are_those_of_plain_integers(seed: int, index: int, draw: int, below: int):
    at, number = torch.tensor([index]), torch.tensor([draw])
    plain = plain_bits(seed, index, draw)
    assert bits(seed, at, number).item() % WORD == plain
    assert uniform(seed, at, number).item() == (plain >> 40) / 2**24
    assert whole(seed, at, number, below).item() == ((plain >> 33) * below) >> 31


def test_uniform_numbers_fill_the_interval_evenly():
    drawn = uniform(3, SOME, torch.arange(16)).flatten()
    assert drawn.dtype == torch.float32
    assert 0 <= drawn.min() < 1e-3
    assert 0.999 < drawn.max() < 1
    counts = torch.histc(drawn, bins=64, min=0, max=1)
    expected = len(drawn) / 64
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert 63 - 4 * 126**0.5 < chi_square < 63 + 4 * 126**0.5


NEIGHBOURS: dict[str, Callable[[], tuple[Tensor, Tensor]]] = {
    "seeds": lambda: (uniform(0, SOME, SOME[:16]), uniform(1, SOME, SOME[:16])),
    "opposite seeds": lambda: (uniform(7, SOME, SOME[:16]), uniform(-7, SOME, SOME[:16])),
    "scenes": lambda: (uniform(0, SOME, SOME[:16]), uniform(0, SOME + 1, SOME[:16])),
    "draws": lambda: (uniform(0, SOME, SOME[:16]), uniform(0, SOME, SOME[:16] + 1)),
    "seed and scene": lambda: (uniform(0, SOME + 1, SOME[:16]), uniform(1, SOME, SOME[:16])),
    "scene and draw": lambda: (uniform(0, SOME + 1, SOME[:16]), uniform(0, SOME, SOME[:16] + 1)),
}


@pytest.mark.parametrize("pair", NEIGHBOURS.values(), ids=NEIGHBOURS.keys())
def test_neighbours_know_nothing_of_each_other(pair: Callable[[], tuple[Tensor, Tensor]]):
    one, other = (drawn.flatten() for drawn in pair())
    assert (one == other).float().mean() < 1e-3
    together = torch.stack([one, other])
    assert torch.corrcoef(together)[0, 1].abs() < 4.5 / len(one) ** 0.5
    # Correlation sees straight lines only: count an 8 x 8 table, too.
    cell = (together * 8).long()
    counts = torch.bincount(cell[0] * 8 + cell[1], minlength=64).float()
    expected = len(one) / 64
    assert ((counts - expected) ** 2 / expected).sum() < 63 + 4.5 * 126**0.5


def test_a_number_does_not_depend_on_its_batch():
    together = uniform(11, SOME, SOME[:5])
    shuffled = torch.randperm(len(SOME), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(uniform(11, SOME[shuffled], SOME[:5]), together[shuffled])
    one_by_one = torch.cat([uniform(11, SOME[i : i + 1], SOME[:5]) for i in range(9)])
    assert torch.equal(one_by_one, together[:9])
    assert torch.equal(uniform(11, SOME, SOME[3:5]), together[:, 3:5])


def test_draw_numbers_may_have_any_shape():
    flat = uniform(2, SOME[:3], torch.arange(6))
    assert torch.equal(uniform(2, SOME[:3], torch.arange(6).reshape(2, 3)), flat.reshape(3, 2, 3))
    assert torch.equal(uniform(2, SOME[:3], torch.tensor(4)), flat[:, 4])
