"""A denoiser that is local by construction: each cell depends on its window and nothing else.

The output for a cell depends on the noisy pixels of the (2k+1) x (2k+1) cells around it, on the
condition at these cells, on the noise level and on the cell's place: the networks 2L and 3L of
Bradley 2025, who ran a network on every window in turn. Here one pass computes all cells.

Two convolutions over the grid of cells read the window, of radius ceil(k/2) and floor(k/2), with
per-cell blocks between: together they reach exactly k cells. Conditions come in after the second:
earlier, they would travel with the pixels and widen the window.
"""

from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from recombine.models.blocks import (
    Embedding,
    Residual,
    Waves,
    condition_layer,
    positions,
    rms,
    zeroed,
)
from recombine.models.entry import check_counts, check_image, check_shape


@dataclass(frozen=True)
class Cells:
    """The condition is a grid (batch, cells, cells), 1 where an object is; a cell sees its window.

    With `nearest` it sees the nearest marked cell alone (of equally near ones the first, row by
    row): after training with one marked object, no cell ever sees what it has not learned.
    """

    nearest: bool = False


@dataclass(frozen=True)
class Places:
    """The condition is a list (batch, at most `most`, 3) of (x, y, present), x and y from 0 to 1.

    A cell sees the sum over the entries inside its window, relative to the cell's centre: the
    order has no influence, and no slot of the list stays untrained when training lists are short.
    With `nearest` it sees the nearest of them alone.
    """

    most: int = 12
    nearest: bool = False

    def __post_init__(self) -> None:
        check_counts(self, "nearest")


LocalEntry: TypeAlias = Cells | Places | None


@dataclass(frozen=True)
class Local:
    """A local denoiser of cells x cells; `window` is k, the cells it sees to each side.

    Windows are centred and overhang the image: k = 8 of 16 cells sees all of it only from the
    middle, k = 15 from everywhere. `blocks` come after each of the two convolutions.
    """

    channels: int
    size: int
    cells: int = 16
    window: int = 2
    entry: LocalEntry = Cells()
    width: int = 320
    blocks: int = 3
    embedding: int = 192

    def __post_init__(self) -> None:
        check_counts(self, "window")
        if not 0 <= self.window < self.cells:
            raise ValueError(
                f"a window reaches 0 to {self.cells - 1} cells to each side; got {self.window}"
            )
        if self.size % self.cells:
            raise ValueError(f"{self.size} pixels cannot be cut into {self.cells} cells")

    @property
    def pixels(self) -> int:
        """The side of a cell."""
        return self.size // self.cells

    @property
    def radii(self) -> tuple[int, int]:
        """How far each of the two convolutions reaches."""
        return (self.window + 1) // 2, self.window // 2

    def build(self) -> "LocalModule":
        """Return the network with fresh weights."""
        return LocalModule(self)


# The repair of the length study, 3.3 million weights; its control is the same with window=8.
STUDY_LOCAL = Local(3, 64)


class LocalModule(nn.Module):
    """The weights of a `Local`."""

    def __init__(self, of: Local) -> None:
        super().__init__()
        self.of = of
        pixels, where = of.channels * of.pixels**2, positions(of.cells, 64).permute(1, 2, 0)
        self.embedding = Embedding(of.embedding)
        self.place = nn.Linear(where.shape[-1], of.embedding)
        self.border = nn.Linear((2 * of.window + 1) ** 2, of.embedding, bias=False)
        self.condition: CellEmbedding | PlaceEmbedding | None = None
        if isinstance(of.entry, Cells):
            self.condition = CellEmbedding(of, of.entry)
        elif isinstance(of.entry, Places):
            self.condition = PlaceEmbedding(of, of.entry)
        self.first = WindowLayer(pixels, of, of.radii[0])
        self.second = WindowLayer(of.width, of, of.radii[1])
        self.outlet = zeroed(nn.Conv2d(of.width, pixels, 1))
        self.register_buffer("where", where.contiguous(), persistent=False)
        inside = windows(torch.ones(1, of.cells, of.cells), of.window)
        self.register_buffer("inside", inside, persistent=False)
        self.where: Tensor
        self.inside: Tensor

    def forward(
        self,
        x: Float[Tensor, "batch channel height width"],
        clock: Float[Tensor, " batch"],
        condition: Shaped[Tensor, " batch *condition"],
    ) -> Float[Tensor, "batch channel height width"]:
        check_image(x, self.of.channels, self.of.size)
        noise = self.embedding(clock.to(x.dtype))[:, None, None]
        known = noise + self.place(self.where)
        hidden = self.first(F.pixel_unshuffle(x, self.of.pixels), known)
        known = known + self.border(self.inside)
        if self.condition is not None:
            known = known + self.condition(condition, x)
        return self.pixels(self.second(hidden, known)).to(x.dtype)

    def pixels(
        self, hidden: Float[Tensor, "batch feature row column"]
    ) -> Float[Tensor, "batch channel height width"]:
        """Return the pixels of each cell."""
        return F.pixel_shuffle(self.outlet(F.silu(rms(hidden, 1))), self.of.pixels)


class WindowLayer(nn.Module):
    """A convolution over the cells around each cell, then residual blocks within each cell."""

    def __init__(self, inputs: int, of: Local, radius: int) -> None:
        super().__init__()
        self.radius = radius
        # A way of its own for the cell itself, or it would drown among those of a wide window.
        self.own = nn.Conv2d(inputs, of.width, 1, bias=False)
        self.around = nn.Conv2d(inputs, of.width, 2 * radius + 1, bias=False)
        self.inner = nn.Linear(of.embedding, of.embedding)
        self.modulation = nn.Linear(of.embedding, 2 * of.width * of.blocks)
        self.blocks = nn.ModuleList(Residual(of.width, 1) for _ in range(of.blocks))

    def forward(
        self,
        x: Float[Tensor, "batch feature row column"],
        known: Float[Tensor, "batch row_ column_ embedding"],
        edge: int = 0,
    ) -> Float[Tensor, "batch width row_ column_"]:
        """Return features of all cells but `edge` of them at each border, which are only read."""
        rows, columns = (slice(edge, side - edge) for side in x.shape[2:])
        around = F.conv2d(x, self.around.weight, padding=self.radius - edge)
        hidden = self.own(x[:, :, rows, columns]) + around
        modulation = self.modulation(F.silu(self.inner(F.silu(known)))).permute(0, 3, 1, 2)
        for block, part in zip(self.blocks, modulation.chunk(len(self.blocks), 1), strict=True):
            hidden = block(hidden, part)
        return hidden


def windows(
    grid: Float[Tensor, "batch row column"], reach: int
) -> Float[Tensor, "batch row column cell"]:
    """Return the window of each cell as a vector, row by row; zero outside the grid."""
    vectors = F.unfold(grid[:, None], 2 * reach + 1, padding=reach)
    return vectors.transpose(1, 2).unflatten(1, grid.shape[1:])


class CellEmbedding(nn.Module):
    """The marked cells of a window as a vector: `Cells`."""

    def __init__(self, of: Local, entry: Cells) -> None:
        super().__init__()
        self.of = of
        self.nearest = entry.nearest
        self.embed = condition_layer((2 * of.window + 1) ** 2, of.embedding)
        self.register_buffer("nearness", nearness(of.window), persistent=False)
        self.nearness: Tensor

    def forward(
        self,
        condition: Shaped[Tensor, " batch *condition"],
        x: Float[Tensor, "batch channel height width"],
    ) -> Float[Tensor, "batch row column embedding"]:
        expected = (len(x), self.of.cells, self.of.cells)
        check_shape(condition.shape == expected, self.of.entry, expected, condition)
        marked = windows(condition.to(x.dtype), self.of.window)
        if self.nearest:
            near = marked * self.nearness.to(marked.dtype)
            marked = marked * (near == near.amax(dim=-1, keepdim=True))
        return self.embed(marked)


def nearness(reach: int) -> Float[Tensor, " cell"]:
    """Return a number for each cell of a window, larger for nearer ones, all different."""
    away = torch.arange(-reach, reach + 1).square()
    distance = (away[:, None] + away).flatten()
    rank = distance.argsort(stable=True).argsort()
    return (len(rank) - rank).float()


class PlaceEmbedding(nn.Module):
    """The listed places inside a window as a vector: `Places`."""

    def __init__(self, of: Local, entry: Places) -> None:
        super().__init__()
        self.of = of
        self.most, self.nearest = entry.most, entry.nearest
        self.waves = Waves(6, 1 / (4 * of.window + 2), 1.0)  # in cells: the window is half a cycle
        self.inner = nn.Linear(2 * self.waves.width, of.embedding)
        self.outer = nn.Linear(of.embedding, of.embedding, bias=False)

    def forward(
        self,
        condition: Shaped[Tensor, " batch *condition"],
        x: Float[Tensor, "batch channel height width"],
    ) -> Float[Tensor, "batch row column embedding"]:
        good = condition.dim() == 3 and condition.shape[::2] == (len(x), 3)
        good = good and condition.shape[1] <= self.most
        check_shape(good, self.of.entry, (len(x), f"at most {self.most}", 3), condition)
        present = condition[..., 2] != 0
        place = self.of.cells * condition[..., :2].to(x.dtype).masked_fill(~present[..., None], 0)
        cell = torch.arange(self.of.cells, device=x.device)
        centre = torch.stack(torch.meshgrid(cell, cell, indexing="xy"), dim=-1)[:, :, None]
        held = place.floor().clamp(0, self.of.cells - 1)[:, None, None]
        kept = ((held - centre).abs() <= self.of.window).all(dim=-1) & present[:, None, None]
        offset = place[:, None, None] - centre - 0.5
        if self.nearest:
            away = offset.square().sum(dim=-1).masked_fill(~kept, torch.inf)
            first = torch.zeros_like(kept).scatter(-1, away.argmin(dim=-1, keepdim=True), True)
            kept = kept & first
        each = F.silu(self.inner(self.waves(offset).flatten(-2)))
        return self.outer((each * kept[..., None]).sum(dim=-2))


def patchwise(
    network: LocalModule,
    x: Float[Tensor, "batch channel height width"],
    clock: Float[Tensor, " batch"],
    condition: Shaped[Tensor, " batch *condition"],
) -> Float[Tensor, "batch channel height width"]:
    """Compute cell by cell, each from the pixels of its own window: the naive twin of one pass."""
    of, answer = network.of, torch.empty_like(x)
    given = None if network.condition is None else network.condition(condition, x)
    side, wide = (2 * of.window + 1) * of.pixels, F.pad(x, [of.window * of.pixels] * 4)
    for row, column in product(range(of.cells), repeat=2):
        top, left = row * of.pixels, column * of.pixels
        patch = wide[:, :, top : top + side, left : left + side]
        vector = None if given is None else given[:, row, column]
        cell = _one_cell(network, patch, clock, vector, (row, column))
        answer[:, :, top : top + of.pixels, left : left + of.pixels] = cell
    return answer


def _one_cell(
    network: LocalModule, patch: Tensor, clock: Tensor, vector: Tensor | None, cell: tuple[int, int]
) -> Tensor:
    """Return the pixels of the middle cell of a patch; cells outside have no features."""
    of, (first, second) = network.of, network.of.radii
    rows, columns = (slice(at, at + 2 * second + 1) for at in cell)
    frame = [0, 0] + [second] * 4
    inside = F.pad(torch.ones_like(network.where[..., :1]), frame)[rows, columns]
    where = F.pad(network.where, frame)[rows, columns]
    noise = network.embedding(clock.to(patch.dtype))[:, None, None]
    hidden = network.first(
        F.pixel_unshuffle(patch, of.pixels), noise + network.place(where), edge=first
    )
    row, column = cell
    known = noise + network.place(network.where[row, column])
    known = known + network.border(network.inside[0, row, column])
    known = known if vector is None else known + vector[:, None, None]
    return network.pixels(network.second(hidden * inside[..., 0], known, edge=second))
