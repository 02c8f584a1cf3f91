"""Colour and size are read off pictures of circles, and compared with the condition."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from recombine.measure.circles import CircleError, read_circle
from recombine.worlds.circles import Circles
from recombine.worlds.shapes2d import Shapes2D
from subjects import Model, training


@pytest.mark.parametrize("composition", [("red", "big"), ("red", "small"), ("blue", "small")])
def test_a_circle_is_read_off_its_picture(composition: tuple[str, str]):
    world = Circles(among=(composition,))
    scenes = world.scenes(torch.arange(256), seed=3)
    colour, radius = read_circle(world.image(scenes))
    assert (colour - scenes.colour[:, 0]).abs().mean() < 0.04
    assert (radius - scenes.size[:, 0]).abs().mean() < 0.01


@pytest.mark.parametrize("among", [(), (("red", "big"), ("red", "small"), ("blue", "big"))])
def test_a_model_that_follows_its_condition_reaches_the_ceiling(among: tuple):
    """Whatever it was trained on, every composition is requested, by its class mean."""
    requested = []

    def draw(condition: Tensor, generator: torch.Generator) -> Tensor:
        requested.append(condition)
        scenes = Circles().scenes(torch.arange(len(condition)), seed=9)
        return Circles().image(
            replace(scenes, colour=condition[:, None, :3], size=condition[:, 3:])
        )

    subject = Model(training(world=Circles(among=among)), draw=draw)
    found = CircleError()(subject, torch.Generator()).measurements
    assert len(found) == 2 * (4 + 3)
    assert [len(each.unique(dim=0)) for each in requested] == [1] * 4
    assert len(torch.cat(requested).unique(dim=0)) == 4
    for name in ("colour_error", "size_error"):
        assert found[name].value == pytest.approx(found[f"{name}_ceiling"].value, rel=0.2)
        assert found[name].n == 4 * CircleError().samples
        assert found[f"{name}@blue small"].value < 0.04
    assert found["colour_error_chance"].value > 5 * found["colour_error_ceiling"].value
    assert found["size_error_chance"].value > 5 * found["size_error_ceiling"].value


def test_other_worlds_are_refused():
    with pytest.raises(ValueError, match="circle_error is measured on worlds of circles; got Shap"):
        CircleError()(Model(training(world=Shapes2D())), torch.Generator())
