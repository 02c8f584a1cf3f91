"""Tokens hidden in blocks: their sides, their share, and that each block is hidden by itself."""

from dataclasses import replace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from masked_models import CODES, OBJECTIVES, conditions, each_objective, tokens_of
from recombine.objectives.jepa import Jepa
from recombine.objectives.masked import BlockMasks, MaskedCrossEntropy, hide
from recombine.share import SharedDraws
from recombine.spelling import spelled

NUMBERS = torch.arange(12 * 12).view(1, 12, 12).float()


def sides(blocks: BlockMasks, batch: int) -> list[tuple[int, int]]:
    """The height and the width of the blocks of many images."""
    given = blocks(NUMBERS.expand(batch, -1, -1), torch.Generator().manual_seed(0))
    first = given == given[:, :1, :1]
    return list(zip(first[:, :, 0].sum(1).tolist(), first[:, 0].sum(1).tolist(), strict=True))


def test_heights_are_uniform_and_widths_of_the_declared_aspect():
    found = sides(BlockMasks(largest=4), 8000)
    for height in (1, 2, 3, 4):
        widths = [width for tall, width in found if tall == height]
        assert len(widths) / 8000 == pytest.approx(0.25, abs=0.02)
        # Of height h a width w is drawn where h * ratio rounds to it, ratios even on .75 to 1.5.
        for width in range(1, 8):
            low, high = max((width - 0.5) / height, 0.75), min((width + 0.5) / height, 1.5)
            exact = max(high - low, 0) / 0.75
            assert widths.count(width) / len(widths) == pytest.approx(exact, abs=0.04)


def test_blocks_tile_the_image_from_its_first_corner():
    """The naive twin: every token has the number that stands where its block is counted."""
    given = BlockMasks(largest=4)(NUMBERS.expand(60, -1, -1), torch.Generator().manual_seed(0))
    for image, (height, width) in zip(given, sides(BlockMasks(largest=4), 60), strict=True):
        for row in range(12):
            for column in range(12):
                assert image[row, column] == NUMBERS[0, row // height, column // width]


def test_blocks_of_one_token_are_tokens(rng: torch.Generator):
    number = torch.rand(50, 7, 7, generator=rng)
    assert torch.equal(BlockMasks(1, (1.0, 1.0))(number, rng), number)
    assert set(sides(BlockMasks(1), 100)) == {(1, 1)}


def share(of: float):
    return lambda draw: 0 * draw + of


def test_the_share_is_that_of_single_tokens_and_blocks_are_independent(rng: torch.Generator):
    """Squares of three: tokens of a block agree always, those of two blocks as often as chance."""
    squares = BlockMasks(3, (1.0, 1.0))
    hidden = hide(torch.empty(40_000, 9, 9), rng, share(0.3), squares)
    mean = hidden.double().mean(0)
    torch.testing.assert_close(mean, torch.full((9, 9), 0.3).double(), rtol=0, atol=0.012)
    # Heights are 1, 2 and 3: the first two tokens of a row share a block in two of three images.
    both = (hidden[:, 0, 0] & hidden[:, 0, 1]).double().mean().item()
    assert both == pytest.approx(2 / 3 * 0.3 + 1 / 3 * 0.09, abs=0.01)
    far = (hidden[:, 0, 0] & hidden[:, 8, 8]).double().mean().item()
    assert far == pytest.approx(0.09, abs=0.01)


def test_something_is_hidden_always_and_the_smallest_block_first(rng: torch.Generator):
    hidden = hide(torch.empty(2000, 7, 7), rng, share(0.0), BlockMasks(4))
    assert hidden.any(2).any(1).all()
    assert hidden.sum((1, 2)).max() > 1


def test_without_blocks_nothing_is_drawn_otherwise():
    """Fingerprints and numbers of models that were trained before stay."""
    assert spelled(MaskedCrossEntropy()) == "MaskedCrossEntropy(portion=arccos)"
    assert "blocks=BlockMasks(largest=3" in spelled(MaskedCrossEntropy(blocks=BlockMasks()))
    twin = torch.Generator().manual_seed(5)
    hidden = hide(torch.empty(5, 7, 7), torch.Generator().manual_seed(5))
    draw, number = (torch.rand(5, side, side, generator=twin) for side in (1, 7))
    least = number.amin((1, 2), keepdim=True)
    assert torch.equal(hidden, number <= torch.maximum(draw.acos() / (torch.pi / 2), least))


@each_objective
def test_an_objective_hides_blocks(declared, objective, rng: torch.Generator):
    blocks = replace(objective, blocks=BlockMasks(2, (1.0, 1.0)), portion=share(0.5))
    hidden = blocks.corrupted(tokens_of(declared, 4000, rng), rng).hidden
    same = (hidden[:, 0, 0] == hidden[:, 0, 1]).double().mean().item()
    assert same == pytest.approx(0.75, abs=0.03)
    single = replace(blocks, blocks=None).corrupted(tokens_of(declared, 4000, rng), rng).hidden
    same = (single[:, 0, 0] == single[:, 0, 1]).double().mean().item()
    assert same == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("jepa", [False, True])
def test_a_step_with_blocks_looks_at_no_number(jepa: bool):
    """Fake tensors have none: what a CUDA graph cannot capture raises here."""
    objective = MaskedCrossEntropy(blocks=BlockMasks())
    besides = {}
    with FakeTensorMode(allow_non_fake_inputs=True):
        rng = torch.Generator().manual_seed(0)
        model = CODES.build()
        if jepa:
            objective = Jepa((0, 1))(objective)
            model, besides["average"] = (objective.wrap(CODES.build()) for _ in range(2))
        objective(model, tokens_of(CODES, 3, rng), conditions(3, rng), generator=rng, **besides)


def test_processes_share_the_blocks_of_one(rng: torch.Generator):
    declared, _ = OBJECTIVES[0]
    objective, seen = MaskedCrossEntropy(blocks=BlockMasks()), tokens_of(declared, 6, rng)
    whole = objective.corrupted(seen, torch.Generator().manual_seed(5)).hidden
    for process in range(2):
        with SharedDraws(process, 2):
            own = objective.corrupted(seen[process::2], torch.Generator().manual_seed(5)).hidden
        assert torch.equal(own, whole[process::2])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"largest": 0}, "at least 1 token high; got 0"),
        ({"aspect": (0.0, 1.0)}, r"positive ratio and one not below; got \(0.0, 1.0\)"),
        ({"aspect": (1.5, 0.75)}, r"got \(1.5, 0.75\)"),
    ],
)
def test_blocks_that_cannot_be_are_refused(wrong: dict, message: str):
    with pytest.raises(ValueError, match=message):
        BlockMasks(**wrong)
