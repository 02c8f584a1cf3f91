"""Windows that hear something weigh, together, as much as those that do not."""

import pytest
import torch

from recombine.condition import Grid
from recombine.objectives.balance import Windows
from recombine.objectives.diffusion import Diffusion

CELLS, REACH = 6, 1


def grids(rng: torch.Generator) -> torch.Tensor:
    return (torch.rand(8, CELLS, CELLS, generator=rng) < 0.06).float()


def slow(grid: torch.Tensor, reach: int) -> torch.Tensor:
    """Cell by cell, as two windows of each kind would be weighed."""
    hears = torch.zeros_like(grid, dtype=torch.bool)
    for row in range(CELLS):
        for column in range(CELLS):
            rows = slice(max(row - reach, 0), row + reach + 1)
            columns = slice(max(column - reach, 0), column + reach + 1)
            hears[row, column] = grid[rows, columns].any()
    cells, heard = hears.numel(), int(hears.sum())
    if heard in (0, cells):
        return torch.ones_like(grid)
    return torch.where(hears, cells / (2 * heard), cells / (2 * (cells - heard)))


@pytest.mark.parametrize("reach", [0, 1, 2])
def test_weights_are_those_of_a_loop_over_cells(reach: int):
    rng = torch.Generator().manual_seed(0)
    grid, image = grids(rng), torch.zeros(8, 3, 12, 12)
    weight = Windows(CELLS, reach)(grid, image)
    assert weight.shape == (8, 1, 12, 12)
    for got, each in zip(weight[:, 0], grid, strict=True):
        expected = slow(each, reach).repeat_interleave(2, 0).repeat_interleave(2, 1)
        torch.testing.assert_close(got, expected)
    torch.testing.assert_close(weight.mean(dim=(1, 2, 3)), torch.ones(8))


def test_no_object_and_objects_everywhere_are_not_weighed():
    grid = torch.zeros(2, CELLS, CELLS)
    grid[1] = 1
    assert (Windows(CELLS, REACH)(grid, torch.zeros(2, 3, 12, 12)) == 1).all()


def test_a_list_is_weighed_as_the_grid_of_its_places():
    rng = torch.Generator().manual_seed(1)
    entries = torch.rand(5, 4, 3, generator=rng)
    entries[..., 2] = (entries[..., 2] < 0.5).float()
    grid = Grid(CELLS).at(entries[..., :2], entries[..., 2] > 0)
    image = torch.zeros(5, 3, 12, 12)
    weigh = Windows(CELLS, REACH)
    torch.testing.assert_close(weigh(entries, image), weigh(grid, image))


def test_the_loss_counts_each_pixel_by_its_weight():
    """A network that answers nothing: its error is the image, pixel by pixel."""
    rng = torch.Generator().manual_seed(2)
    grid, image = grids(rng), torch.randn(8, 3, 12, 12, generator=rng)

    class Zero:
        def __call__(self, x, sigma, condition):
            self.sigma = sigma
            return torch.zeros_like(x)

    objective, denoiser = Diffusion(weigh=Windows(CELLS, REACH)), Zero()
    loss = objective(denoiser, image, grid, generator=rng)
    weight = Windows(CELLS, REACH)(grid, image)
    per_image = (weight * image.square()).mean(dim=(1, 2, 3))
    torch.testing.assert_close(loss, (objective.weight(denoiser.sigma) * per_image).mean())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Windows(4, 4), "0 to 3 cells to each side; got 4"),
        (lambda: Windows(4, -1), "0 to 3 cells to each side; got -1"),
        (lambda: Windows(4)(torch.zeros(2, 5, 5), torch.zeros(2, 3, 8, 8)), r"got the shape \(2, "),
    ],
)
def test_what_cannot_be_weighed_is_named(wrong, message: str):
    with pytest.raises(ValueError, match=message):
        wrong()
