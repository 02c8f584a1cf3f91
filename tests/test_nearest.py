"""The reader without training: nearest true renders, by hand and against the naive way."""

import pytest
import torch

from recombine.measure.nearest import CHUNK, nearest


def test_it_is_the_smallest_of_all_distances():
    """Against one pair at a time, over more images than fit in a chunk."""
    draw = torch.Generator().manual_seed(0)
    images = torch.rand(CHUNK + 3, 3, 4, 5, generator=draw)
    renders = torch.rand(2, 7, 3, 4, 5, generator=draw)
    found = nearest(images, renders)
    assert found.shape == (CHUNK + 3, 2)
    for image, row in zip(images, found, strict=True):
        for composition, value in zip(renders, row, strict=True):
            each = [(render - image).square().mean().sqrt() for render in composition]
            assert float(value) == pytest.approx(float(min(each)), rel=1e-5)


def test_a_render_is_at_distance_0_and_a_grey_shift_at_its_size():
    renders = torch.rand(3, 5, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    found = nearest(renders[:, 2], renders)
    assert torch.equal(found.diagonal(), torch.zeros(3))
    assert torch.equal(found.argmin(dim=1), torch.arange(3))
    shifted = nearest(renders[:, 2] + 0.01, renders)
    torch.testing.assert_close(shifted.diagonal(), torch.full((3,), 0.01), rtol=1e-4, atol=0)


@pytest.mark.parametrize("shape", [(2, 4, 3, 8, 9), (2, 0, 3, 8, 8)])
def test_renders_of_another_size_or_none_are_refused(shape: tuple[int, ...]):
    with pytest.raises(ValueError, match="images are compared with renders of their size; got"):
        nearest(torch.rand(1, 3, 8, 8), torch.rand(shape))
