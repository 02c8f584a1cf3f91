"""How far do two readers agree beyond chance?"""

import torch
from jaxtyping import Int
from torch import Tensor

from recombine.measurement import Measurement
from recombine.reader import Reading


def kappa(first: Int[Tensor, " image"], second: Int[Tensor, " other"]) -> Measurement:
    """Return Cohen's kappa (1960) of two raters: 0 if independent, 1 if they always agree.

    The interval is that of Fleiss, Cohen and Everitt (1969). Raters who both only ever gave the
    same one answer agree: 1.
    """
    n = len(first)
    if n < 1 or len(second) != n:
        raise ValueError(f"two raters rate the same images; got {n} and {len(second)}")
    answers, where = torch.cat([first, second]).unique(return_inverse=True)
    table = torch.zeros(len(answers), len(answers), dtype=torch.float64, device=first.device)
    table = table.index_put((where[:n], where[n:]), table.new_ones(n), accumulate=True) / n
    rows, columns = table.sum(dim=1), table.sum(dim=0)
    agreed, chance = float((first == second).sum()) / n, float(rows @ columns)
    if len(answers) == 1:
        return Measurement(1.0, None, None, n)
    value = (agreed - chance) / (1 - chance)
    mixed = columns[:, None] + rows
    on = (table.diagonal() * (1 - mixed.diagonal() * (1 - value)).square()).sum()
    off = ((table - table.diagonal().diag()) * mixed.square()).sum() * (1 - value) ** 2
    variance = float(on + off) - (value - chance * (1 - value)) ** 2
    reach = 1.96 * (max(variance, 0.0) / n) ** 0.5 / (1 - chance)
    return Measurement(value, value - reach, min(value + reach, 1.0), n)


def verdicts(read: Reading) -> Int[Tensor, " image"]:
    """Return one number per composition that is read, and -1 for what is not valid."""
    number = torch.zeros_like(read.concepts[:, 0])
    for column in read.concepts.unbind(dim=1):
        number = number * 1_000 + column
    return torch.where(read.valid, number, -1)
