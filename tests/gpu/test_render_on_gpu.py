"""What holds on the CPU holds on a GPU: the same scenes to the last bit, the same pictures."""

from dataclasses import fields

import pytest
import torch

from recombine.render import kernel, raycast
from recombine.scene import Scenes, World
from recombine.worlds import clevr
from recombine.worlds.circles import Circles
from recombine.worlds.clevr import Clevr
from recombine.worlds.shapes2d import Shapes2D
from recombine.worlds.shapes3d import Shapes3D

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")

WORLDS: list[World] = [
    Clevr(objects=(1, 8), jitter=True, size=50),
    Shapes3D(),
    Shapes2D(),
    Circles(),
]


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_scenes_are_the_same_to_the_last_bit(world: World):
    here, there = (world.scenes(torch.arange(200, device=d), 5) for d in ("cpu", "cuda"))
    for field in fields(Scenes):
        assert torch.equal(getattr(here, field.name), getattr(there, field.name).cpu()), field.name


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_images_are_the_same(world: World):
    scenes = world.scenes(torch.arange(50), 5)
    torch.testing.assert_close(
        world.image(scenes.to("cuda")).cpu(), world.image(scenes), atol=1e-4, rtol=0
    )


@pytest.mark.parametrize("size", [27, 64])
def test_the_kernel_equals_its_twin(size: int):
    stage = clevr.stage(WORLDS[0].scenes(torch.arange(40, device="cuda"), 1))
    assert kernel.available(torch.device("cuda"))
    torch.testing.assert_close(
        kernel.trace(stage, size), raycast.trace(stage, size), atol=2e-4, rtol=0
    )
    for ours, theirs in zip(kernel.see(stage, size), raycast.see(stage, size), strict=True):
        assert torch.equal(ours, theirs)


def test_more_pictures_than_fit_at_once_are_all_drawn(monkeypatch: pytest.MonkeyPatch):
    stage = clevr.stage(WORLDS[0].scenes(torch.arange(20, device="cuda"), 1))
    whole = kernel.trace(stage, 32)
    monkeypatch.setattr(kernel, "PICTURES_AT_ONCE", 7)
    assert torch.equal(kernel.trace(stage, 32), whole)
