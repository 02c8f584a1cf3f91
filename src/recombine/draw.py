"""Random numbers without a state: each is a hash of seed, scene number and draw number.

Torch's generators differ between devices and depend on the order of calls. A hash does not: the
same seed gives the same scenes on any device, in any batch and for any number of processes.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

_ODD = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
# Neighbours stay neighbours with probability 1/2 in a round of a shuffle.
_ROUNDS = 24


def _signed(value: int) -> int:
    """Read 64 bits as torch's int64 does."""
    value %= 1 << 64
    return value - (1 << 64) if value >> 63 else value


def _shifted(value: Int[Tensor, "*batch"], by: int) -> Int[Tensor, "*batch"]:
    """Shift right and fill with zeros; torch fills with the sign."""
    return (value >> by) & ((1 << (64 - by)) - 1)


def _mixed(value: Int[Tensor, "*batch"]) -> Int[Tensor, "*batch"]:
    """Scramble 64 bits one-to-one (the finalizer of splitmix64, Steele et al. 2014)."""
    value = (value ^ _shifted(value, 30)) * _signed(_FIRST)
    value = (value ^ _shifted(value, 27)) * _signed(_SECOND)
    return value ^ _shifted(value, 31)


def bits(
    seed: int, index: Int[Tensor, " batch"], draw: Int[Tensor, "*draw"]
) -> Int[Tensor, " batch *draw"]:
    """Return 64 random bits per scene number and draw number."""
    start = torch.full_like(index, _signed(seed * _ODD + _FIRST))
    scene = _mixed(_mixed(start) + (index + 1) * _signed(_ODD))
    scene = scene.reshape(-1, *[1] * draw.dim())
    return _mixed(scene + (draw.to(index) + 1) * _signed(_SECOND))


def uniform(
    seed: int, index: Int[Tensor, " batch"], draw: Int[Tensor, "*draw"]
) -> Float[Tensor, " batch *draw"]:
    """Return numbers in [0, 1) that are multiples of 2^-24, hence exact in float32."""
    return _shifted(bits(seed, index, draw), 40).to(torch.float32) * 2.0**-24


def whole(
    seed: int, index: Int[Tensor, " batch"], draw: Int[Tensor, "*draw"], below: int
) -> Int[Tensor, " batch *draw"]:
    """Return whole numbers in [0, below)."""
    # 31 bits times a small number fits in 63; the bias is below / 2^31.
    return (_shifted(bits(seed, index, draw), 33) * below) >> 31


def shuffled(index: Int[Tensor, " batch"], seed: int, length: int) -> Int[Tensor, " batch"]:
    """Return the file each scene number stands for: every file once, then all in a new order.

    A swap-or-not shuffle (Hoang, Morris and Rogaway 2012): each round pairs the files, and a coin
    per pair decides whether the two change places. Any number can be looked up, nothing is stored.
    """
    if length < 1:
        raise ValueError(f"a stream needs at least 1 file to draw from; got {length}")
    epoch, number = index // length, index % length
    rounds = torch.arange(_ROUNDS)
    first = epoch * length
    for each, key in zip(rounds, whole(seed, epoch, rounds, length).unbind(1), strict=True):
        partner = (key - number) % length
        # Both of a pair toss the coin of the later one, or two files could end in one place.
        coin = bits(seed, first + torch.maximum(number, partner), _ROUNDS + each)
        number = torch.where(coin < 0, partner, number)
    return number
