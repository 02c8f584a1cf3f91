"""The ray caster as one native kernel, compiled on first use: g++ for CPU, NVRTC for CUDA.

It equals `raycast` (the same bits in `see`, the same pictures to 1e-4 in `trace`) and runs tens to
thousands of times faster. Where nothing can compile it, `raycast` does the work.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recombine.render.stage import LOOK, Look, Stage, look_numbers

# No fused multiply-adds: every device must round the same way. No errno: square roots in vectors.
CPU_FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
GPU_FLAGS = ("--fmad=false", "--std=c++17")
TILE = 16
PICTURES_AT_ONCE = 1 << 11
"""Bounds the memory of fine pictures on the GPU: 1.6 GB at 128 pixels."""


def trace(stage: Stage, size: int, look: Look = LOOK) -> Float[Tensor, "batch 3 height width"]:
    """Return pictures of a stage, sRGB in [0, 1]."""
    view, solids = stage.view.contiguous(), stage.solids.contiguous()
    image = view.new_empty(len(stage), 3, size, size)
    look_row = look_numbers(look).to(view.device)
    if view.is_cuda:
        for first in range(0, len(stage), PICTURES_AT_ONCE):
            part = slice(first, first + PICTURES_AT_ONCE)
            _trace_on_gpu(view[part], solids[part], look_row, image[part], size)
        return image

    def draw(*pictures: ctypes.c_long) -> None:
        fine = torch.empty(3, 2 * size, 2 * size)
        arrays = _pointers(view, solids, look_row, fine, image)
        _cpu().trace(*arrays, solids.shape[1], size, *pictures)

    _share_out(draw, len(stage))
    return image


def see(
    stage: Stage, size: int
) -> tuple[Int[Tensor, "batch height width"], Float[Tensor, "batch height width"]]:
    """Return the object at the centre of each pixel (-1: none) and its depth."""
    view, solids = stage.view.contiguous(), stage.solids.contiguous()
    depth = view.new_empty(len(stage), size, size)
    solid = torch.empty_like(depth, dtype=torch.int32)
    if view.is_cuda:
        tiles = -(-size // TILE)
        arguments = [view, solids, solid, depth, solids.shape[1], size]
        if len(stage):
            _gpu("see")(grid=(len(stage), tiles**2, 1), block=(TILE, TILE, 1), args=arguments)
    else:

        def look(*pictures: ctypes.c_long) -> None:
            arrays = _pointers(view, solids, solid, depth)
            _cpu().see(*arrays, solids.shape[1], size, *pictures)

        _share_out(look, len(stage))
    # The owner of solid -1, nothing, is nobody: -1.
    nobody = stage.owner.new_full((len(stage), 1), -1)
    owner = torch.cat([nobody, stage.owner], dim=1)
    flat = owner.gather(1, solid.flatten(1).long() + 1)
    return flat.reshape(solid.shape), depth


def available(device: torch.device) -> bool:
    """Return whether the kernel runs on this device."""
    if device.type == "cpu":
        return _cpu_library() is not None
    return device.type == "cuda" and _gpu_works()


def _trace_on_gpu(view: Tensor, solids: Tensor, look: Tensor, image: Tensor, size: int) -> None:
    side = 2 * size
    fine = view.new_empty(len(view), 3, side, side)
    tiles = -(-side // TILE)
    arguments = [view, solids, look, fine, solids.shape[1], size]
    _gpu("trace")(grid=(len(view), tiles**2, 1), block=(TILE, TILE, 1), args=arguments)
    pixels = image.numel()
    _gpu("develop")(
        grid=(-(-pixels // 256), 1, 1), block=(256, 1, 1), args=[fine, image, size, pixels]
    )


def _share_out(work: Callable[[ctypes.c_long, ctypes.c_long], None], count: int) -> None:
    """Give each thread a run of pictures; the kernel does not hold the interpreter's lock."""
    threads = max(1, min(torch.get_num_threads(), count))
    bounds = [ctypes.c_long(count * k // threads) for k in range(threads + 1)]
    if threads == 1:
        work(*bounds)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, bounds, bounds[1:]))


def _pointers(*tensors: Tensor) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors]


def _source(entry: str) -> str:
    folder = files("recombine.render")
    return "\n".join((folder / name).read_text() for name in ("kernel.cpp", entry))


def _cpu() -> ctypes.CDLL:
    library = _cpu_library()
    assert library is not None, "the kernel is called only where it is available"
    return library


@cache
def _cpu_library() -> ctypes.CDLL | None:
    """Return the compiled kernel, or None where there is no compiler or it fails."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None or os.environ.get("RECOMBINE_KERNEL") == "off":
        return None
    try:
        return ctypes.CDLL(str(_built(compiler)))
    except (OSError, subprocess.CalledProcessError) as error:
        why = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        warnings.warn(f"no native ray caster, the slow one is used: {why[:1]}", stacklevel=2)
        return None


def _built(compiler: str) -> Path:
    """Compile into the user's cache, once per source, compiler and processor."""
    source = _source("kernel_cpu.cpp")
    target = [compiler, "-march=native", "-E", "-dM", "-x", "c++", os.devnull]
    machine = subprocess.run(target, capture_output=True, text=True, check=True).stdout
    digest = hashlib.sha256((source + machine + compiler + repr(CPU_FLAGS)).encode()).hexdigest()
    path = _cache_folder() / f"raycast-{digest[:16]}.so"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder) / "raycast.so"
            command = [compiler, *CPU_FLAGS, "-shared", "-fPIC", "-x", "c++", "-", "-o", str(made)]
            subprocess.run(command, input=source, capture_output=True, text=True, check=True)
            made.replace(path)
    return path


def _cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(home) if home else Path.home() / ".cache") / "recombine"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="recombine-"))
    return folder


@cache
def _gpu(name: str) -> Any:
    # Not yet public in torch; where it is missing or changes, `raycast` takes over.
    return torch.cuda._compile_kernel(_source("kernel_gpu.cu"), name, nvcc_options=list(GPU_FLAGS))


@cache
def _gpu_works() -> bool:
    if os.environ.get("RECOMBINE_KERNEL") == "off" or not hasattr(torch.cuda, "_compile_kernel"):
        return False
    try:
        return all(_gpu(name) is not None for name in ("trace", "see", "develop"))
    except (RuntimeError, OSError) as error:
        warnings.warn(f"no CUDA ray caster, the slow one is used: {error}", stacklevel=2)
        return False
