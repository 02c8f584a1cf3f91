from collections import Counter
from dataclasses import dataclass
from itertools import islice
from math import factorial
from typing import ClassVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float, Int
from torch import Tensor

from recombine.data import Batch, Stream, batch_of
from recombine.draw import shuffled
from recombine.render.raster import flat_scenes
from recombine.scene import Factor, Scenes


@dataclass(frozen=True)
class Numbers:
    """A world whose scene number n is a picture of brightness n / 4096."""

    shade: float = 1.0

    name: ClassVar[str] = "numbers"
    factors: ClassVar[tuple[Factor, ...]] = (Factor("parity", ("even", "odd")),)
    size: ClassVar[int] = 2

    def scenes(self, index: Int[Tensor, " batch"], seed: int) -> Scenes:
        position = torch.stack([index + 1000.0 * seed, 0.0 * index], dim=1)
        plain = torch.zeros(len(index), 3)
        concepts = (index % 2)[:, None]
        return flat_scenes(position, plain[:, 0], plain, 0 * index, concepts, plain)

    def image(self, scenes: Scenes) -> Float[Tensor, "batch 3 height width"]:
        return (scenes.position[:, 0, 0] / 4096)[:, None, None, None].expand(-1, 3, 2, 2)


@dataclass(frozen=True)
class Album:
    """Files of which number n is a picture of brightness n / 4096."""

    length: int

    def __len__(self) -> int:
        return self.length

    name: ClassVar[str] = "album"
    factors: ClassVar[tuple[Factor, ...]] = Numbers.factors
    size: ClassVar[int] = 2

    def scenes_of(self, number: Int[Tensor, " batch"]) -> Scenes:
        return Numbers().scenes(number, 0)

    def image_of(self, number: Int[Tensor, " batch"]) -> Float[Tensor, "batch 3 height width"]:
        return Numbers().image(self.scenes_of(number))


def numbers(batch: Batch) -> list[int]:
    return (batch.image[:, 0, 0, 0] * 4096).int().tolist()


def taken(stream: Stream, steps: int) -> list[list[int]]:
    return [numbers(batch) for batch in islice(stream, steps)]


def test_a_stream_counts_scenes_from_zero():
    stream = Stream(Numbers(), batch=3, seed=0)
    assert taken(stream, 2) == [[0, 1, 2], [3, 4, 5]]
    assert taken(stream, 1) == [[6, 7, 8]]


@pytest.mark.parametrize("ahead", [1, 2, 3, 7])
def test_batches_made_ahead_are_the_same_batches(ahead: int):
    plain = Stream(Numbers(), batch=3, seed=1, process=1, processes=2)
    early = Stream(Numbers(), batch=3, seed=1, process=1, processes=2, ahead=ahead)
    for one, other in islice(zip(plain, early, strict=True), 8):
        assert numbers(one) == numbers(other)
        assert one.index.tolist() == other.index.tolist()
        assert one.scenes.position.tolist() == other.scenes.position.tolist()
        assert plain.state() == early.state()
    resumed = Stream(Numbers(), 3, 1, "cpu", 1, 2, ahead=ahead).resumed(early.state())
    assert taken(resumed, 5) == taken(plain, 5)


def test_resuming_leaves_the_first_stream_where_it_was():
    stream = Stream(Numbers(), batch=1, seed=0)
    stream.resumed({**stream.state(), "step": 9})
    assert taken(stream, 1) == [[0]]


def test_every_process_has_the_same_state_and_more_processes_can_resume_it():
    two = [Stream(Numbers(), 6, 0, "cpu", rank, 2) for rank in range(2)]
    assert taken(two[0], 3) != taken(two[1], 3)
    assert two[0].state() == two[1].state()
    three = Stream(Numbers(), 4, 0, "cpu", 1, 3).resumed(two[0].state())
    assert taken(three, 1) == [list(range(37, 48, 3))]


@pytest.mark.parametrize(
    ("other", "line"),
    [
        (Stream(Numbers(0.5), 2, 0), r"source Numbers\(shade=0.5\), this one Numbers\(shade=1.0\)"),
        (Stream(Album(4), 2, 0), r"source Album\(length=4\) of 4 images"),
        (Stream(Numbers(), 2, 1), "seed 1, this one 0"),
        (Stream(Numbers(), 3, 0), "scenes_per_step 3, this one 2"),
        (Stream(Numbers(), 2, 0, processes=2), "scenes_per_step 4, this one 2"),
    ],
)
def test_the_state_of_another_stream_is_refused(other: Stream, line: str):
    with pytest.raises(ValueError, match=line):
        Stream(Numbers(), batch=2, seed=0).resumed(other.state())


def test_a_stream_that_failed_has_not_moved_on():
    class Torn(Album):
        def image_of(self, number: Int[Tensor, " batch"]) -> Float[Tensor, "batch 3 h w"]:
            raise ValueError("torn.png is not a whole PNG image")

    stream = Stream(Torn(3), batch=2, seed=0)
    with pytest.raises(ValueError, match="torn"):
        next(stream)
    assert stream.step == 0


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"batch": 0}, "at least 1 scene; got 0"),
        ({"process": 2, "processes": 2}, "process 2 is not one of 2"),
        ({"process": -1}, "process -1 is not one of 1"),
    ],
)
def test_an_impossible_stream_says_so(asked: dict[str, int], line: str):
    with pytest.raises(ValueError, match=line):
        Stream(Numbers(), **{"batch": 1, "seed": 0} | asked)


def test_files_come_once_each_before_any_comes_again():
    shares = [Stream(Album(12), 3, 0, "cpu", rank, 2) for rank in range(2)]
    for _ in range(3):
        epoch = sum((sum(taken(share, 2), []) for share in shares), [])
        assert sorted(epoch) == list(range(12))


def test_files_and_their_scenes_belong_together():
    batch = batch_of(Album(50), torch.arange(40, 60), seed=2)
    assert numbers(batch) == batch.scenes.position[:, 0, 0].int().tolist()
    assert numbers(batch) == shuffled(torch.arange(40, 60), 2, 50).tolist()
    assert batch.index.tolist() == list(range(40, 60))


@given(st.integers(1, 3000), st.integers(-(2**70), 2**70), st.integers(0, 2**30))
@settings(max_examples=15, deadline=None)
def test_a_shuffle_holds_every_file_once(length: int, seed: int, epoch: int):
    order = shuffled(torch.arange(length) + epoch * length, seed, length)
    assert torch.equal(order.sort().values, torch.arange(length))


def test_any_place_of_a_shuffle_can_be_looked_up_alone():
    index = torch.tensor([0, 16, 17, 51, 10**12])
    together = shuffled(index, 4, 17)
    alone = torch.cat([shuffled(each[None], 4, 17) for each in index])
    assert torch.equal(together, alone)


@pytest.mark.parametrize("length", [2, 3, 4, 5])
def test_every_order_of_a_few_files_is_equally_likely(length: int):
    order = shuffled(torch.arange(length * 16_000), 0, length)
    orders = Counter(map(tuple, order.reshape(-1, length).tolist()))
    expected = 16_000 / factorial(length)
    deviation = sum((orders[order] - expected) ** 2 / expected for order in orders)
    freedom = factorial(length) - 1
    assert len(orders) == factorial(length)
    assert deviation < freedom + 4 * (2 * freedom) ** 0.5


def test_neighbours_seed_and_epoch_leave_no_trace_in_a_shuffle():
    order = shuffled(torch.arange(40_000), 0, 10_000).reshape(4, 10_000)
    other = shuffled(torch.arange(40_000), 1, 10_000).reshape(4, 10_000)
    place = torch.arange(10_000)
    # A random order keeps a file in place, or a pair of neighbours together, about once or twice.
    for one, another in [(order[0], order[1]), (order[0], other[0]), (order[2], place)]:
        assert (one == another).sum() < 10
    assert (order.diff(dim=1).abs() == 1).sum() < 30


def test_the_order_of_files_never_changes_or_saved_runs_could_not_go_on():
    first = [5, 10, 4, 8, 7, 11, 3, 2, 0, 1, 6, 9]
    second = [6, 1, 4, 5, 8, 10, 9, 0, 3, 11, 7, 2]
    assert shuffled(torch.arange(24), 3, 12).tolist() == first + second


def test_no_files_cannot_be_shuffled():
    with pytest.raises(ValueError, match="at least 1 file to draw from; got 0"):
        shuffled(torch.arange(2), 0, 0)
