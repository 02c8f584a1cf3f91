"""Batches made beside a busy GPU are the batches a CPU makes."""

from itertools import islice

import pytest
import torch

from recombine.data import Stream
from recombine.worlds.clevr import Clevr

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")


def test_batches_made_ahead_do_not_wait_for_and_do_not_read_what_is_queued():
    """A race shows as scenes that differ; what is queued before a batch takes long enough."""
    world = Clevr(size=32, objects=(1, 3))
    slow = Stream(world, batch=64, seed=3)
    fast = Stream(world, batch=64, seed=3, device="cuda", ahead=3)
    weight, sums = torch.randn(4096, 4096, device="cuda"), []
    for expected, batch in islice(zip(slow, fast, strict=True), 12):
        for _ in range(20):
            weight = torch.tanh(weight @ weight / 64)
        sums.append(batch.image.sum())
        assert batch.index.tolist() == expected.index.tolist()
        torch.testing.assert_close(batch.scenes.position.cpu(), expected.scenes.position)
        torch.testing.assert_close(batch.image.cpu(), expected.image, atol=2e-3, rtol=0)
    assert torch.stack(sums).isfinite().all()
