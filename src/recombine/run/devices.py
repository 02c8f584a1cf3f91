"""Devices, processes and the streams of a GPU."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any

import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from torch import nn

from recombine.denoiser import Conditions, Denoiser, Images, Levels


def machine(device: torch.device) -> Accelerator:
    """Return the devices and processes to run on: bf16 on a GPU, gloo between CPUs."""
    on_gpu = device.type == "cuda"
    if on_gpu and device.index is not None:
        torch.cuda.set_device(device)
    # Others wait while the first process measures.
    patience = InitProcessGroupKwargs(timeout=timedelta(hours=12))
    return Accelerator(
        cpu=device.type == "cpu",
        mixed_precision="bf16" if on_gpu else "no",
        kwargs_handlers=[patience],
    )


def channels_last(module: nn.Module) -> None:
    """Put the channels of a pixel side by side: convolutions are faster then, on a CPU too."""
    module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def warm(work: Callable[[], object]) -> float:
    """Return how many seconds some work takes, after it was done once to warm up."""
    work()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def multiplies_bf16() -> bool:
    """Return whether this CPU multiplies bf16 itself: others only imitate it, slowly."""
    return bool(torch.cpu._is_avx512_bf16_supported())


def shortened(denoiser: Denoiser) -> Denoiser:
    """Return the denoiser in bf16 on a CPU that multiplies bf16; on another it stays as it is."""
    if not multiplies_bf16():
        return denoiser

    def short(x: Images, sigma: Levels, condition: Conditions) -> Images:
        with torch.autocast("cpu", torch.bfloat16):
            return denoiser(x, sigma, condition)

    return short


def own_stream(device: torch.device, at_once: int) -> AbstractContextManager[Any]:
    """Return where one of several runs queues its work: behind what a GPU was given before."""
    if device.type != "cuda" or at_once == 1:
        return nullcontext()
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    return torch.cuda.stream(stream)
