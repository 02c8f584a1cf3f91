"""What was drawn is kept in bytes and comes back within half a step."""

import pytest
import torch

from recombine import zoo
from recombine.studies.tokenizers import KL, VQ
from recombine.views import REACH, Centred, Codes, Latents, Unchanged

FLOATS = [
    (Unchanged(), 0.0, 1.0),
    (Centred(), -1.0, 1.0),
    (Latents("tokenizer_vq", VQ), -REACH, REACH),
    (Latents("tokenizer_kl", KL), -REACH, REACH),
]


@pytest.mark.parametrize(("view", "low", "high"), FLOATS, ids=str)
def test_numbers_come_back_within_half_a_step(view, low: float, high: float):
    x = low + (high - low) * torch.rand(3, 8, 7, 7, generator=torch.Generator().manual_seed(0))
    x[0, 0, 0, :2] = torch.tensor([low, high])
    stored = view.stored(x)
    assert stored.dtype == torch.uint8
    again = view.restored(stored)
    assert (again - x).abs().max() <= (high - low) / 255 / 2 * 1.001
    assert torch.equal(view.stored(again), stored)
    # What lies beyond is kept as the nearest end.
    assert view.restored(view.stored(x * 0 + high + 9)).unique().tolist() == [high]


def test_codes_come_back_as_they_were_and_a_byte_holds_256():
    codes = torch.arange(49).view(1, 7, 7) * 5
    view = Codes("tokenizer_vq", VQ)
    assert torch.equal(view.restored(view.stored(codes)), codes)
    with pytest.raises(ValueError, match="a byte holds up to 256 codes; got None"):
        Codes("tokenizer_kl", KL).stored(codes)


def test_the_decoder_is_named_by_its_weights():
    assert Codes("tokenizer_vq", VQ).decoder == zoo.digest("tokenizer_vq")
    assert Latents("tokenizer_kl", KL).decoder == zoo.digest("tokenizer_kl")
    assert Unchanged().decoder == Centred().decoder == ""
