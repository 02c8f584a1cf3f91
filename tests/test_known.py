"""The detector says which images it knows: true renders yes; noise, gradients, flat shapes no."""

import pytest
import torch
import torch.nn.functional as F
from benchmarks.detector import reference
from torch import Tensor

from recombine import Circles, Clevr, Shapes2D, Shapes3D, zoo
from recombine.models.known import doubt, floor


def unknown() -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(0)
    row, column = torch.meshgrid(torch.linspace(0, 1, 64), torch.linspace(0, 1, 64), indexing="ij")
    a, b, c = (torch.rand(8, 3, 1, 1, generator=draw) for _ in range(3))
    coarse = torch.rand(8, 3, 5, 5, generator=draw)
    worlds = (Shapes2D(), Shapes3D(size=64), Circles(size=64))
    return {
        "noise": torch.rand(8, 3, 64, 64, generator=draw),
        "grey noise": (0.5 + 0.1 * torch.randn(8, 3, 64, 64, generator=draw)).clamp(0, 1),
        "gradients": (a + (b - a) * row + (c - a) * column / 2).clamp(0, 1),
        "blobs": F.interpolate(coarse, (64, 64), mode="bicubic").clamp(0, 1),
        "plain": torch.linspace(0, 1, 8).reshape(-1, 1, 1, 1).repeat(1, 3, 64, 64),
        **{each.name: each.image(each.scenes(torch.arange(8), 3)) for each in worlds},
    }


@pytest.mark.parametrize("name", unknown())
def test_other_images_are_not_known(name: str):
    assert not zoo.detector()(unknown()[name]).known.any()


@pytest.mark.parametrize(("size", "jitter"), [(64, False), (128, True)])
@pytest.mark.parametrize("objects", [(0, 0), (1, 3), (8, 10)])
def test_true_renders_are_known(size: int, jitter: bool, objects: tuple[int, int]):
    world = Clevr(size=size, objects=objects, jitter=jitter, margin=False)
    assert zoo.detector()(world.image(world.scenes(torch.arange(8), 7))).known.all()


@pytest.mark.parametrize("kind", ["fixed", "jittered"])
def test_blenders_renders_are_known(kind: str):
    assert zoo.detector()(reference(kind)[0][::5]).known.all()


def test_doubt_is_the_share_of_confidence_in_unsure_peaks():
    confidence = torch.tensor([[0.9, 0.3, 0.01], [0.9, 0.6, 0.0], [0.4, 0.4, 0.1]])
    assert doubt(confidence).tolist() == pytest.approx([0.25, 0, 1])
    assert floor(torch.device("cpu")).shape == (1, 3, 8, 8)
