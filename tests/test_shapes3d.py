from dataclasses import replace

import pytest
import torch

from recombine.render import raycast
from recombine.render.camera import look_at
from recombine.render.stage import Stage
from recombine.worlds.shapes3d import ORIENTATIONS, SHAPES3D_240, Shapes3D, eyes, hue_colours, stage

WORLD = Shapes3D(size=32)


def one(hue: str, shape: str, scale: str, count: int = 1):
    return replace(WORLD, among=((hue, shape, scale),)).scenes(torch.arange(count), seed=0)


@pytest.mark.parametrize("shape", ["cube", "cylinder", "sphere", "capsule"])
def test_every_shape_is_twice_its_size_high_and_stands_on_the_floor(shape: str):
    scenes = one("red", shape, "scale7")
    above = torch.tensor([[0.0, -1e-3, 5.0]])
    built = stage(scenes)
    view = built.view.clone()
    view[:, :12] = look_at(above, torch.zeros(1, 3))
    owner, depth = raycast.see(Stage(view, built.solids, built.owner), 33)
    assert owner[0, 16, 16] == 0
    fill = {"cube": 0.953, "cylinder": 0.993}.get(shape, 1.0)
    top = 5.0 - depth[0, 16, 16].item()
    assert top == pytest.approx(1.25 * (1 + fill), abs=1e-2)


def test_a_capsule_is_round_at_both_ends():
    """Seen from the side, its outline narrows towards top and bottom like a circle of its width."""
    scenes = one("red", "capsule", "scale7")
    built = stage(scenes)
    view = built.view.clone()
    view[:, :12] = look_at(torch.tensor([[0.0, -5.0, 1.25]]), torch.tensor([[0.0, 0.0, 1.25]]))
    owner, _ = raycast.see(Stage(view, built.solids, built.owner), 256)
    widths = (owner[0] == 0).sum(dim=1)
    rows = widths.nonzero()[:, 0]
    widest = widths.max()
    quarter = rows[len(rows) // 8]
    assert 0.6 < widths[quarter] / widest < 0.95
    assert (widths[rows[0]] / widest) < 0.35
    assert (widths - widths.flip(0)).abs().max() <= 2


def test_floor_and_wall_have_their_own_hues():
    scenes = one("red", "cube", "scale0", count=20)
    image = WORLD.image(scenes)
    floor, wall = image[:, :, -2, 2], image[:, :, 1, 2]
    for seen, told in ((floor, scenes.backdrop[:, 0]), (wall, scenes.backdrop[:, 1])):
        cosine = torch.nn.functional.cosine_similarity(seen, told.clamp_min(0.02), dim=1)
        assert cosine.min() > 0.9


def test_the_view_turns_about_the_object():
    places = eyes(torch.device("cpu"))
    assert len(places) == ORIENTATIONS
    assert (places[:, 1] < 0).all()
    torch.testing.assert_close(places[:, 0], -places.flip(0)[:, 0])
    used = WORLD.scenes(torch.arange(500), seed=0).camera.unique(dim=0)
    assert len(used) == ORIENTATIONS


def test_hues_go_once_round_the_circle():
    hues = hue_colours(torch.device("cpu"))
    assert hues.shape == (10, 3)
    assert hues[0].argmax() == 0
    assert (hues[1:] - hues[:-1]).norm(dim=1).min() > 0.3


def test_the_papers_split_is_drawn_from_this_world():
    seen = replace(WORLD, among=SHAPES3D_240.seen)
    assert SHAPES3D_240.holds(seen.scenes(torch.arange(300), seed=0)).all()
    assert not SHAPES3D_240.holds(WORLD.scenes(torch.arange(300), seed=0)).all()
