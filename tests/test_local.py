"""Each cell is a function of exactly its window: by derivative, by change and by a slow twin."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from recombine.models.local import STUDY_LOCAL, Cells, Local, Places, nearness, patchwise
from test_networks import perturbed

SMALL = Local(2, 12, cells=6, window=2, width=16, blocks=1, embedding=16)
WINDOWS = [0, 1, 2, 3, 5]
CORNER, MIDDLE = (0, 0), (2, 3)


def asked(declared: Local, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    x = torch.randn(2, declared.channels, declared.size, declared.size, generator=rng)
    condition = torch.rand(2, declared.cells, declared.cells, generator=rng)
    if isinstance(declared.entry, Places):
        condition = torch.rand(2, declared.entry.most, 3, generator=rng)
        condition[..., 2] = (condition[..., 2] < 0.7).float()
    return x, torch.tensor([-1.0, 0.5]), condition


def inside(declared: Local, cell: tuple[int, int]) -> Tensor:
    """Which cells are in the window of this one, the slow way."""
    cells = range(declared.cells)
    return torch.tensor(
        [
            [max(abs(row - cell[0]), abs(column - cell[1])) <= declared.window for column in cells]
            for row in cells
        ]
    )


def of_cell(declared: Local, image: Tensor, cell: tuple[int, int]) -> Tensor:
    top, left = (declared.pixels * at for at in cell)
    return image[..., top : top + declared.pixels, left : left + declared.pixels]


def enlarged(declared: Local, mask: Tensor) -> Tensor:
    """From cells to pixels."""
    return mask.repeat_interleave(declared.pixels, 0).repeat_interleave(declared.pixels, 1)


@pytest.mark.parametrize("cell", [CORNER, MIDDLE])
@pytest.mark.parametrize("window", WINDOWS)
def test_the_jacobian_is_zero_outside_the_window_and_nowhere_inside(window, cell, rng):
    declared = replace(SMALL, window=window)
    x, clock, condition = asked(declared, rng)
    x, condition = x.requires_grad_(), condition.requires_grad_()
    answer = of_cell(declared, perturbed(declared)(x, clock, condition), cell)
    weight = torch.randn(answer.shape, generator=rng)
    seen, heard = torch.autograd.grad((weight * answer).sum(), (x, condition))
    expected = inside(declared, cell)
    for image, grid in zip(seen, heard, strict=True):
        assert torch.equal(image.abs().sum(dim=0) > 0, enlarged(declared, expected))
        assert torch.equal(grid != 0, expected)


@pytest.mark.parametrize("entry", [None, Cells(), Places(6)], ids=str)
@pytest.mark.parametrize("window", WINDOWS)
def test_one_pass_equals_the_network_applied_patch_by_patch(window, entry, rng):
    declared = replace(SMALL, window=window, entry=entry)
    network, question = perturbed(declared), asked(declared, rng)
    with torch.no_grad():
        answer, slow = network(*question), patchwise(network, *question)
    torch.testing.assert_close(answer, slow, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("window", [0, 1, 2, 5])
def test_a_place_changes_the_cells_whose_window_holds_it(window: int, rng: torch.Generator):
    declared = replace(SMALL, window=window, entry=Places(3))
    network, (x, clock, condition) = perturbed(declared), asked(declared, rng)
    row, column = 1, 4
    condition[:, 0] = torch.tensor([(column + 0.7) / 6, (row + 0.2) / 6, 1])
    without = condition.clone()
    without[:, 0, 2] = 0
    moved = network(x, clock, condition) != network(x, clock, without)
    heard = moved.any(dim=1).unflatten(1, (6, 2)).unflatten(3, (6, 2)).any(dim=(2, 4))
    assert torch.equal(heard, inside(declared, (row, column)).expand(2, -1, -1))


def test_a_place_is_read_relative_to_the_cell(rng: torch.Generator):
    """Two cells with the same place at the same offset are told the same."""
    network = perturbed(replace(SMALL, entry=Places(1)))
    x, place = torch.zeros(1, 2, 12, 12), torch.tensor([[[0.4, 0.3, 1.0]]])
    told = network.condition(place, x)
    further = network.condition(place + torch.tensor([1 / 6, 2 / 6, 0]), x)
    torch.testing.assert_close(further[:, 2:, 1:], told[:, :-2, :-1], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(network.condition(place + 0.02, x), told)


def test_the_order_of_places_means_nothing_and_absent_ones_say_nothing(rng: torch.Generator):
    declared = replace(SMALL, entry=Places(6))
    network, (x, clock, condition) = perturbed(declared), asked(declared, rng)
    answer = network(x, clock, condition)
    torch.testing.assert_close(network(x, clock, condition.flip(1)), answer)
    absent = (condition[..., 2:] == 0).expand(-1, -1, 2)
    condition[..., :2] = condition[..., :2].masked_fill(absent, torch.nan)
    assert torch.equal(network(x, clock, condition), answer)


def test_a_place_on_the_far_border_belongs_to_the_last_cell(rng: torch.Generator):
    network = perturbed(replace(SMALL, window=0, entry=Places(1)))
    told = network.condition(torch.tensor([[[1.0, 1.0, 1.0]]]), torch.zeros(1, 2, 12, 12))
    assert (told[0].norm(dim=-1) > 0).nonzero().tolist() == [[5, 5]]


def test_cells_outside_the_image_are_marked():
    """A corner of k = 1 has four cells of the image around it, a side six, the middle nine."""
    counts = replace(SMALL, window=1).build().inside[0].sum(dim=-1)
    assert counts[0].tolist() == [4, 6, 6, 6, 6, 4]
    assert counts[2].tolist() == [6, 9, 9, 9, 9, 6]


def test_the_same_surroundings_are_answered_differently_at_different_places():
    network = perturbed(replace(SMALL, window=1))
    answer = network(torch.zeros(1, 2, 12, 12), torch.zeros(1), torch.zeros(1, 6, 6))
    first, second = (of_cell(SMALL, answer, cell) for cell in ((2, 2), (2, 3)))
    assert (first - second).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("entry", "shape", "message"),
    [
        (Cells(), (2, 5, 6), r"Cells\(nearest=False\) has the shape \(2, 6, 6\); got \(2, 5, 6\)"),
        (Cells(), (2, 36), r"\(2, 6, 6\); got \(2, 36\)"),
        (Places(4), (2, 5, 3), r"Places\(most=4.* \(2, at most 4, 3\); got \(2, 5, 3\)"),
        (Places(4), (2, 4, 2), r"\(2, at most 4, 3\); got \(2, 4, 2\)"),
        (Places(4), (2, 3), r"\(2, at most 4, 3\); got \(2, 3\)"),
    ],
)
def test_a_condition_of_the_wrong_shape_is_named(entry, shape, message: str, rng):
    x, clock, _ = asked(SMALL, rng)
    with pytest.raises(ValueError, match=message):
        replace(SMALL, entry=entry).build()(x, clock, torch.zeros(shape))


def test_depth_and_width_are_the_same_for_every_window():
    networks = [replace(STUDY_LOCAL, window=window) for window in (2, 8)]
    with torch.device("meta"):
        repair, control = (dict(each.build().named_parameters()) for each in networks)
    assert repair.keys() == control.keys()
    changed = {name for name, value in repair.items() if value.shape != control[name].shape}
    assert changed == {
        "first.around.weight",
        "second.around.weight",
        "border.weight",
        "condition.embed.weight",
    }


NEAREST = [Cells(nearest=True), Places(4, nearest=True)]


def test_nearer_cells_come_first_and_equally_near_ones_row_by_row():
    assert nearness(1).argsort(descending=True).tolist() == [4, 1, 3, 5, 7, 0, 2, 6, 8]


@pytest.mark.parametrize("entry", NEAREST)
def test_a_cell_conditioned_on_the_nearest_ignores_the_next(entry, rng):
    """Told of (2, 2) and of (2, 4): cells nearer to one hear what they would hear of it alone."""
    declared = replace(SMALL, entry=entry)
    network, whole = perturbed(declared), perturbed(replace(declared, entry=type(entry)()))
    x, clock, _ = asked(declared, rng)
    if isinstance(entry, Cells):
        one, other = torch.zeros(2, 2, 6, 6)
        one[:, 2, 2], other[:, 2, 4] = 1, 1
        both = one + other
    else:
        first, second = ([(c + 0.5) / 6, 2.5 / 6, 1.0] for c in (2, 4))
        one, other = (torch.tensor([[each]] * 2) for each in (first, second))
        both = torch.cat([other, one], dim=1)
    together = network(x, clock, both)
    for condition, columns in ((one, slice(0, 6)), (other, slice(8, 12))):
        torch.testing.assert_close(
            together[..., columns], network(x, clock, condition)[..., columns]
        )
        assert not torch.equal(
            whole(x, clock, both)[..., columns], whole(x, clock, condition)[..., columns]
        )


def test_of_one_marked_cell_the_nearest_is_the_whole_window(rng):
    x, clock, _ = asked(SMALL, rng)
    one = torch.zeros(2, 6, 6)
    one[:, 3, 1] = 1
    nearest = perturbed(replace(SMALL, entry=Cells(nearest=True)))
    torch.testing.assert_close(nearest(x, clock, one), perturbed(SMALL)(x, clock, one))
