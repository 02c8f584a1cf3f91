"""Rates with their spread, and ratios to a peer."""

import time
from collections.abc import Callable

import torch

from recombine.measurement import Measurement

FEWEST_ROUNDS = 3


def speed(work: Callable[[], object], things: int, seconds: float) -> Measurement:
    """Return things per second over repeated rounds, the first of which does not count."""
    rates: list[float] = []
    _timed(work)
    stop = time.perf_counter() + seconds
    while len(rates) < FEWEST_ROUNDS or time.perf_counter() < stop:
        rates.append(things / _timed(work))
    return Measurement.mean(rates)


def times(rate: Measurement, by: float) -> Measurement:
    """Return a measurement in another unit."""
    low, high = (None if end is None else end * by for end in (rate.low, rate.high))
    return Measurement(rate.value * by, low, high, n=rate.n)


def over(rate: Measurement, peer: Measurement) -> Measurement:
    """Return how many times faster than the peer; the interval covers the spread of both.

    Rates of a few rounds on a busy machine may spread to 0 and below: then there is none.
    """
    ours, theirs = (
        (each.value, each.value) if each.low is None or each.high is None else (each.low, each.high)
        for each in (rate, peer)
    )
    if rate.low is None and peer.low is None:
        return known(rate.value / peer.value, rate.n)
    n = min(rate.n, peer.n)
    if min(ours[0], theirs[0]) <= 0:
        return known(rate.value / peer.value, n)
    return Measurement(rate.value / peer.value, ours[0] / theirs[1], ours[1] / theirs[0], n=n)


def known(value: float, n: int = 1) -> Measurement:
    """Return a number without spread: a count, or a single timing."""
    return Measurement(value, None, None, n=n)


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - started
