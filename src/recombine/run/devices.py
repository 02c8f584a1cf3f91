"""Devices, processes and the streams of a GPU."""

from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any

import torch
from accelerate import Accelerator, InitProcessGroupKwargs
from torch import nn


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


def own_stream(device: torch.device, at_once: int) -> AbstractContextManager[Any]:
    """Return where one of several runs queues its work: behind what a GPU was given before."""
    if device.type != "cuda" or at_once == 1:
        return nullcontext()
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    return torch.cuda.stream(stream)
