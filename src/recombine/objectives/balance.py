"""How much each pixel counts when a local denoiser is trained."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Shaped
from torch import Tensor

from recombine.condition import Grid


@dataclass(frozen=True)
class Windows:
    """Let the cells with a marked cell in their window count as much, together, as the others.

    Bradley 2025 trains on two windows of each image, one of each kind. Here every cell is trained
    on and the kinds are weighed, so that an image counts 1 on average; one with windows of a
    single kind is not weighed. A condition is a grid of cells or a list of (x, y, present).
    """

    cells: int = 16
    window: int = 2

    def __post_init__(self) -> None:
        if not 0 <= self.window < self.cells:
            raise ValueError(
                f"a window reaches 0 to {self.cells - 1} cells to each side; got {self.window}"
            )

    def __call__(
        self,
        condition: Shaped[Tensor, " batch *condition"],
        image: Float[Tensor, "batch channel height width"],
    ) -> Float[Tensor, "batch 1 height width"]:
        """Return the weight of each pixel."""
        reach = 2 * self.window + 1
        marked = F.max_pool2d(self._grid(condition), reach, stride=1, padding=self.window)
        share = marked.mean(dim=(1, 2), keepdim=True)
        both = (share > 0) & (share < 1)
        weight = torch.where(marked > 0, 0.5 / share, 0.5 / (1 - share))
        weight = torch.where(both, weight, 1)[:, None]
        return F.interpolate(weight, image.shape[2:], mode="nearest-exact").to(image.dtype)

    def _grid(self, condition: Tensor) -> Float[Tensor, "batch row column"]:
        if condition.shape[1:] == (self.cells, self.cells):
            return condition.float()
        if condition.dim() == 3 and condition.shape[2] == 3:
            return Grid(self.cells).at(condition[..., :2].float(), condition[..., 2] != 0)
        raise ValueError(
            f"windows are weighed by a grid of {self.cells} x {self.cells} cells or a list of "
            f"(x, y, present); got the shape {tuple(condition.shape)}"
        )
