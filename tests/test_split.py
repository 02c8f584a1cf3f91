from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recombine.render.raster import CIRCLE, flat_scenes
from recombine.scene import (
    PER_OBJECT,
    Concepts,
    Factor,
    Scenes,
    compositions,
    concatenate,
    concept_rows,
)
from recombine.split import CountSplit, Split, at_most_one, leaks, level, levels
from recombine.worlds.circles import CIRCLES, Circles
from recombine.worlds.files.celeba import CELEBA
from recombine.worlds.shapes2d import BINARY, PAPER
from recombine.worlds.shapes3d import SHAPES3D_240

NAMED = pytest.mark.parametrize(
    "split", [BINARY, CELEBA, CIRCLES, SHAPES3D_240], ids=lambda split: split.name
)

COUNT_1, COUNT_1_3 = CountSplit(range(1, 2)), CountSplit(range(1, 4))


@dataclass(frozen=True)
class Batch:
    scenes: Scenes


def digits(composition: Concepts, split: Split) -> str:
    row = zip(split.factors, composition, strict=True)
    return "".join(str(factor.index(concept)) for factor, concept in row)


def apart(split: Split, which: Sequence[Concepts]) -> Scenes:
    """Return scenes of one object each, one for each composition."""
    rows = torch.cat([concept_rows(split.factors, [one]) for one in which])
    batch = len(rows)
    return flat_scenes(
        position=torch.zeros(batch, 2),
        size=torch.ones(batch),
        colour=torch.zeros(batch, 3),
        shape=torch.full((batch,), CIRCLE),
        concepts=rows,
        backdrop=torch.ones(batch, 3),
    )


def of(split: Split, *which: Concepts) -> Scenes:
    """Return one scene with an object of each composition."""
    scenes = apart(split, which)
    joined = {name: getattr(scenes, name).transpose(0, 1) for name in PER_OBJECT}
    return replace(scenes[:1], **joined)


def in_batches(scenes: Scenes, *sizes: int) -> Iterator[Batch]:
    first = 0
    for size in sizes:
        yield Batch(scenes[first : first + size])
        first += size


def first_leak(scenes: Scenes, split: Split) -> int | None:
    """Find the first unseen scene, object by object."""
    for scene in range(len(scenes)):
        for row, present in zip(
            scenes.concepts[scene].tolist(), scenes.present[scene].tolist(), strict=True
        ):
            named = tuple(f.concepts[c] for f, c in zip(split.factors, row, strict=True))
            if present and named not in split.seen:
                return scene
    return None


def test_a_level_counts_factors_to_the_nearest_seen_composition():
    seen = [("a", "a", "a"), ("b", "b", "a")]
    assert level(("a", "a", "a"), seen) == 0
    assert level(("b", "a", "a"), seen) == 1
    assert level(("b", "b", "b"), seen) == 1
    assert level(("c", "c", "c"), seen) == 3
    with pytest.raises(ValueError, match="nothing is seen"):
        level(("a",), [])


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_all_levels_at_once_are_the_levels_one_by_one(data: st.DataObject):
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    factors = tuple(
        Factor(f"factor{i}", tuple(f"concept{c}" for c in range(size)))
        for i, size in enumerate(sizes)
    )
    every = compositions(factors)
    seen = data.draw(st.lists(st.sampled_from(every), min_size=1, unique=True))
    assert levels(factors, seen).tolist() == [level(which, seen) for which in every]


@NAMED
def test_a_named_split_divides_its_grid(split: Split):
    parts = [set(split.at(away)) for away in split.levels]
    assert split.levels == tuple(range(len(parts)))
    assert parts[0] == set(split.seen)
    assert set().union(*parts[1:]) == set(split.held_out)
    assert sum(map(len, parts)) + len(split.left_out) == len(compositions(split.factors))
    for away, part in zip(split.levels, parts, strict=True):
        assert all(level(which, split.seen) == away for which in part)
    assert hash(split) == hash(replace(split))


@pytest.mark.parametrize("split", [BINARY, CELEBA])
def test_three_binary_factors_leave_three_at_level_one_and_one_at_level_two(split: Split):
    told = [{digits(which, split) for which in split.at(away)} for away in (0, 1, 2)]
    assert told == [{"000", "001", "010", "100"}, {"011", "101", "110"}, {"111"}]


def test_faces_are_held_out_as_in_the_paper():
    assert [factor.concepts[1] for factor in CELEBA.factors] == ["male", "not smiling", "blond"]
    assert CELEBA.at(2) == (("male", "not smiling", "blond"),)


def test_the_binary_split_is_over_the_factors_of_the_papers_world():
    assert BINARY.factors == PAPER.factors
    assert BINARY.at(2) == (("triangle", "small", "blue"),)


def test_shapes3d_has_72_and_108_seen_52_one_away_and_8_two_away():
    out = {
        "hue": ["blue", "indigo", "purple", "magenta"],
        "shape": ["sphere"],
        "scale": ["scale6", "scale7"],
    }
    cells = [which for which in compositions(SHAPES3D_240.factors) if "capsule" not in which]
    many = {
        which: sum(c in out[f.name] for f, c in zip(SHAPES3D_240.factors, which, strict=True))
        for which in cells
    }
    assert Counter(many.values()) == {0: 72, 1: 108, 2: 52, 3: 8}
    for which in cells:
        assert which in SHAPES3D_240.at(max(many[which] - 1, 0))
    assert not any("capsule" in which for which in SHAPES3D_240.seen + SHAPES3D_240.held_out)


def test_blue_and_small_do_not_meet_in_circles():
    assert CIRCLES.factors == Circles().factors
    assert CIRCLES.held_out == CIRCLES.at(1) == (("blue", "small"),)
    assert len(CIRCLES.seen) == 3


def test_at_most_one_is_out():
    factors = (Factor("a", ("x", "y")), Factor("b", ("p", "q", "r")))
    kept = at_most_one(factors, {"a": ["y"], "b": ["q", "r"]})
    assert ["".join(which) for which in kept] == ["xp", "xq", "xr", "yp"]


ONE, CUBE = BINARY.seen[:1], (("cube", "large", "red"),)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: levels(BINARY.factors, []), "nothing is seen"),
        (lambda: BINARY.at(3), "split binary has the levels 0, 1, 2; got 3"),
        (lambda: Split("void", BINARY.factors, ()), "split void shows nothing"),
        (lambda: Split("double", BINARY.factors, ONE + ONE), "named once"),
        (lambda: Split("both", BINARY.factors, ONE, left_out=ONE), "named once"),
        (lambda: Split("solid", BINARY.factors, CUBE), "shape is one of circle, triangle; got 'cu"),
    ],
)
def test_a_split_that_makes_no_sense_is_refused(wrong: Callable[[], object], words: str):
    with pytest.raises(ValueError, match=words):
        wrong()


def test_a_split_by_counts_is_named_by_its_range_and_an_impossible_range_is_refused():
    splits = COUNT_1, COUNT_1_3, CountSplit(range(2, 6))
    assert [split.name for split in splits] == ["count_1", "count_1_3", "count_2_5"]
    for seen in (range(0), range(-1, 3)):
        with pytest.raises(ValueError, match="range from 0 up"):
            CountSplit(seen)


def test_what_is_seen_passes_unchanged():
    world = replace(PAPER, among=BINARY.seen)
    batches = [Batch(world.scenes(torch.arange(i, i + 8), seed=0)) for i in (0, 8, 16)]
    passed = list(leaks(batches, BINARY))
    assert all(one is other for one, other in zip(passed, batches, strict=True))
    assert len(passed) == 3


@pytest.mark.parametrize("place", range(7))
def test_the_first_leak_is_named_wherever_it_is(place: int):
    """The places include the first and the last of a batch: an off-by-one would miss or misname."""
    clean, unseen = of(CIRCLES, ("red", "small")), of(CIRCLES, ("blue", "small"))
    scenes = concatenate([unseen if i == place else clean for i in range(7)])
    checked = leaks(in_batches(scenes, 3, 1, 3), CIRCLES)
    for _ in range(0 if place < 3 else 1 if place < 4 else 2):
        next(checked)
    with pytest.raises(ValueError, match=f"scene {place} of the stream leaks: blue, small is not"):
        next(checked)


@pytest.mark.parametrize("seed", range(6))
def test_the_check_finds_what_a_loop_finds(seed: int):
    every = compositions(BINARY.factors)
    generator = torch.Generator().manual_seed(seed)
    weight = torch.tensor([1.0 if which in BINARY.seen else 0.02 for which in every])
    drawn = torch.multinomial(weight.expand(30, -1), 2, replacement=True, generator=generator)
    parts = [of(BINARY, *(every[i] for i in row)) for row in drawn.tolist()]
    scenes = concatenate(parts)
    scenes = replace(scenes, present=torch.rand(30, 2, generator=generator) < 0.7)
    twin = first_leak(scenes, BINARY)
    held = BINARY.holds(scenes)
    assert held.tolist() == [first_leak(scenes[i : i + 1], BINARY) is None for i in range(30)]
    if twin is None:
        assert len(list(leaks(in_batches(scenes, 10, 20), BINARY))) == 2
    else:
        with pytest.raises(ValueError, match=f"scene {twin} of"):
            list(leaks(in_batches(scenes, 10, 20), BINARY))


@NAMED
def test_a_split_holds_its_seen_compositions_and_no_other(split: Split):
    every = compositions(split.factors)
    held = split.holds(apart(split, every))
    assert held.tolist() == [which in split.seen for which in every]


def test_one_unseen_object_among_seen_ones_is_a_leak_unless_it_is_absent():
    scene = of(CIRCLES, ("red", "big"), ("blue", "small"), ("blue", "big"))
    with pytest.raises(ValueError, match="scene 0 of the stream leaks: blue, small is not"):
        next(leaks([Batch(scene)], CIRCLES))
    assert list(leaks([Batch(scene.without(1))], CIRCLES))


def test_a_concept_no_factor_knows_is_a_leak():
    scene = of(CIRCLES, ("red", "big"))
    strange = replace(scene, concepts=scene.concepts + 2)
    with pytest.raises(ValueError, match="leaks: 2, 2 is not among what split circles shows"):
        next(leaks([Batch(strange)], CIRCLES))
    with pytest.raises(ValueError, match="split binary has 3 factors; got 2"):
        next(leaks([Batch(scene)], BINARY))


@pytest.mark.parametrize(("count", "split"), [(0, COUNT_1), (2, COUNT_1), (4, COUNT_1_3)])
def test_a_leaking_number_of_objects_is_named(count: int, split: CountSplit):
    anything = of(CIRCLES, *[("red", "big")] * 4)
    seen = replace(anything, present=torch.arange(4)[None] < 1)
    leaking = replace(anything, present=torch.arange(4)[None] < count)
    stream = in_batches(concatenate([seen, seen, leaking, seen]), 2, 2)
    with pytest.raises(ValueError, match=f"scene 2 .* {count} objects .* split {split.name}"):
        list(leaks(stream, split))
