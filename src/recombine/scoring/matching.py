"""Does an image show the requested objects? A factor that a request does not name may be anything.

Requests and what is seen are concept numbers; ANY stands for a factor that is not named, and a row
of ABSENT for no object.
"""

from collections.abc import Sequence
from itertools import product

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from recombine.scene import Concepts, Factor

ANY, ABSENT = -1, -2
UNNAMED = -1
"""Stands where a request does not name a factor: it is neither right nor wrong."""


def agreeing(factors: Sequence[Factor], row: Int[Tensor, " factor"]) -> list[Concepts]:
    """Return the compositions that a requested object may have."""
    pairs = zip(factors, row.tolist(), strict=True)
    return list(product(*(f.concepts if n == ANY else (f.concepts[n],) for f, n in pairs)))


def fulfilled(request: Int[Tensor, "requested factor"], seen: Int[Tensor, "seen factor"]) -> bool:
    """Return whether every requested object is an object of its own in the image, and no more."""
    if len(request) != len(seen):
        return False
    if len(request) == 1:
        return bool(_fits(request, seen))
    from scipy.optimize import linear_sum_assignment  # here, as scipy takes a second to import

    fits = _fits(request, seen).numpy().astype(np.int64)
    rows, columns = linear_sum_assignment(fits, maximize=True)
    return int(fits[rows, columns].sum()) == len(request)


def _fits(request: Tensor, seen: Tensor) -> Bool[Tensor, "requested seen"]:
    same = request[:, None] == seen[None]
    return (same | (request == ANY)[:, None]).all(dim=-1)


def factors_right(
    request: Int[Tensor, "requested factor"], seen: Int[Tensor, "seen factor"]
) -> list[int]:
    """Return of each factor whether its requested concepts are there, as often as requested."""
    found = []
    for wanted, there in zip(request.T, seen.T, strict=True):
        named = wanted[wanted != ANY]
        concepts, counts = named.unique(return_counts=True)
        enough = (there[None] == concepts[:, None]).sum(dim=1) >= counts
        found.append(int(enough.all()) if len(named) else UNNAMED)
    return found


def judged(
    requests: Int[Tensor, "batch requested factor"],
    concepts: Int[Tensor, "batch seen factor"],
    present: Bool[Tensor, "batch seen"],
) -> tuple[Int[Tensor, "batch factor"], Bool[Tensor, " batch"], Bool[Tensor, " batch"]]:
    """Return which factors of each image are right, whether all is, and whether the count is."""
    right, every, counted = [], [], []
    for request, row, here in zip(requests.cpu(), concepts.cpu(), present.cpu(), strict=True):
        wanted, seen = request[(request != ABSENT).all(dim=1)], row[here]
        right.append(factors_right(wanted, seen))
        every.append(fulfilled(wanted, seen))
        counted.append(len(wanted) == len(seen))
    shape = (len(requests), requests.shape[2])
    return (
        torch.tensor(right, dtype=torch.long).reshape(shape),
        torch.tensor(every, dtype=torch.bool),
        torch.tensor(counted, dtype=torch.bool),
    )
