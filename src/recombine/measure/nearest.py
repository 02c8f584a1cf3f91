"""Which true renders is a sample nearest to, and how far from them is it?

A trained reader may be sure of what it has never seen: it reads a blob between circle and triangle
as one of the two. This one is not trained. It compares pixels with many true renders of every
composition, so that it also measures how good a sample is.
"""

import torch
from jaxtyping import Float
from torch import Tensor

CHUNK = 64
"""Images that are compared at a time; memory follows it."""


def nearest(
    images: Float[Tensor, " image *pixel"], renders: Float[Tensor, "composition render *drawn"]
) -> Float[Tensor, "image composition"]:
    """Return how far each image is from the nearest render of each composition.

    The distance is the root mean square over pixels and channels.
    """
    if images.shape[1:] != renders.shape[2:] or not renders.shape[1]:
        raise ValueError(
            f"images are compared with renders of their size; got {tuple(images.shape[1:])} "
            f"and {renders.shape[1]} renders of {tuple(renders.shape[2:])}"
        )
    flat = renders.flatten(2)
    squares = flat.square().sum(dim=2)
    found = [_squared(part, flat, squares) for part in images.flatten(1).split(CHUNK)]
    return (torch.cat(found) / flat.shape[2]).sqrt()


def _squared(
    images: Float[Tensor, "image pixel"],
    renders: Float[Tensor, "composition render pixel"],
    squares: Float[Tensor, "composition render"],
) -> Float[Tensor, "image composition"]:
    """Return the squared distance to the nearest render: the place by products, then exactly."""
    # The products alone would lose digits of small distances.
    score = squares - 2 * torch.einsum("ip,crp->icr", images, renders)
    at = score.argmin(dim=2)
    composition = torch.arange(len(renders), device=renders.device)
    return (renders[composition, at] - images[:, None]).square().sum(dim=2)
