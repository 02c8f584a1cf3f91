"""The spread of samples inside a composition, as a share of the truth's."""

from dataclasses import replace

import torch

from recombine.measure.fit import LIMITS, Fitted
from recombine.measure.spread import COLLAPSED, spreads
from recombine.scene import Concepts, Scenes
from recombine.worlds.shapes2d import FIXED, PIXEL, Shapes2D

WHICH: tuple[Concepts, ...] = (("circle", "tiny", "red"), ("cross", "large", "cyan"))


def read(parts: list[Scenes]) -> Fitted:
    """A reading of scenes that is exact."""
    place, size, colour = (
        torch.cat([getattr(each, name)[:, 0] for each in parts])
        for name in ("position", "size", "colour")
    )
    none = torch.zeros(len(size))
    off = {name: none for name in Fitted.__dataclass_fields__ if name.endswith("_off")}
    numbers = ("blur", "unexplained", "rms", "misfit", "second_colour", "ink", "cut")
    return Fitted(
        concepts=torch.cat([each.concepts[:, 0] for each in parts]),
        place=place / PIXEL,
        size=size / PIXEL,
        colour=colour,
        pieces=torch.ones(len(size)).long(),
        margin=none + 100,
        limits=LIMITS,
        **off,
        **{name: none for name in numbers},
    )


def of(world: Shapes2D, seed: int) -> Fitted:
    worlds = (replace(world, among=(which,)) for which in WHICH)
    return read([each.scenes(torch.arange(200), seed) for each in worlds])


def test_true_renders_spread_as_the_truth_does():
    found = spreads(of(Shapes2D(), 1), of(Shapes2D(), 2), 200)
    assert [*found] == ["place_spread", "size_spread", "colour_spread"]
    for each in found.values():
        assert each.low < 1 < each.high
        assert each.high - each.low < 0.4
    assert found["place_spread"].n == 2 * 2 * 199


def test_copies_do_not_spread_and_half_the_jitter_is_half_the_spread():
    true = of(Shapes2D(), 2)
    copies = spreads(of(FIXED.means, 1), true, 200)
    assert len(copies) == 3
    assert max(each.value for each in copies.values()) < 1e-4
    half = Shapes2D(size_jitter=0.025, colour_jitter=0.02, shift=1.5)
    for each in spreads(of(half, 1), true, 200).values():
        assert each.low < 0.5 < each.high
    assert COLLAPSED == 0.5


def test_what_is_not_valid_and_what_does_not_vary_is_left_out():
    true = of(Shapes2D(), 2)
    far = true.place.clone()
    far[::2] *= 10
    wrong = torch.zeros(400)
    wrong[::2] = 1
    assert spreads(replace(true, place=far), true, 200)["place_spread"].value > 2
    found = spreads(replace(true, place=far, misfit=wrong), true, 200)["place_spread"]
    assert found.low < 1 < found.high
    assert found.n == 2 * 2 * 99
    assert [*spreads(true, of(FIXED, 3), 200)] == ["size_spread", "colour_spread"]
    assert spreads(replace(true, misfit=wrong + 1), true, 200) == {}
