"""Rates with their spread, and ratios to a peer."""

import time
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from recombine.measurement import Measurement

FEWEST_ROUNDS = 3
Network = TypeVar("Network", bound=nn.Module)


def speed(work: Callable[[], object], things: int, seconds: float) -> Measurement:
    """Return things per second over repeated rounds, the first of which does not count."""
    rates: list[float] = []
    _timed(work)
    stop = time.perf_counter() + seconds
    while len(rates) < FEWEST_ROUNDS or time.perf_counter() < stop:
        rates.append(things / _timed(work))
    return Measurement.mean(rates)


def over(rate: Measurement, peer: Measurement) -> Measurement:
    """Return how many times faster than the peer; the interval covers the spread of both.

    Rates of a few rounds on a busy machine may spread to 0 and below: then there is none.
    """
    ratio, n = rate.value / peer.value, min(rate.n, peer.n)
    (low, high), (peer_low, peer_high) = (
        (each.value, each.value) if each.low is None or each.high is None else (each.low, each.high)
        for each in (rate, peer)
    )
    if (rate.low is None and peer.low is None) or min(low, peer_low) <= 0:
        return known(ratio, n)
    return Measurement(ratio, low / peer_high, high / peer_low, n=n)


def known(value: float, n: int = 1) -> Measurement:
    """Return a number without spread: a count, or a single timing."""
    return Measurement(value, None, None, n=n)


def awake(network: Network) -> Network:
    """Return a network that depends on its inputs: fresh ones end in zeros."""
    network.eval().requires_grad_(False)
    for parameter in network.parameters():
        parameter.add_(0.02 * torch.randn_like(parameter))
    return network


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - started
