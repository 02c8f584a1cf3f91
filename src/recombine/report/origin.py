"""Where a number comes from: the source it ran, the versions around it, the device under it."""

import hashlib
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[1]
SOURCE = (".py", ".cpp", ".cu", ".html")
VERSIONS = ("recombine", "torch", "numpy", "scipy", "pillow", "accelerate")


def _git(*words: str) -> list[str]:
    """Return the lines git prints in the package's folder; none when it fails or is missing."""
    command = ["git", "-C", str(PACKAGE), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return done.stdout.splitlines()


def commit() -> str:
    """Return the commit of our source, "+changes" when it was edited since, or "unknown"."""
    # A package installed inside somebody else's checkout must not carry that checkout's commit.
    if _git("rev-parse", "--show-prefix") != ["src/recombine/"]:
        return "unknown"
    head = _git("rev-parse", "--verify", "HEAD")
    if not head:
        return "unknown"
    return head[0] + ("+changes" if _git("status", "--porcelain", "--", ".") else "")


def source_digest() -> str:
    """Return the SHA-256 of every source file of the package, names included."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in SOURCE:
            content = path.read_bytes()
            name = path.relative_to(PACKAGE).as_posix()
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of Python, CUDA and the packages that can move a number."""
    import torch  # here and below, as it takes a second to import

    found = {"python": platform.python_version()}
    for name in VERSIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    if torch.version.cuda:
        found["cuda"] = torch.version.cuda
    return found


def device_name(device: Any) -> str:
    """Return what a device is, in words: "NVIDIA H200" or "AMD EPYC 9B14, 2 cores"."""
    import torch

    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type != "cpu":
        return str(device)
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count()
    return f"{_processor()}, {cores} cores"


def _processor() -> str:
    """Return the processor's model, which Linux tells only in a file."""
    listing = Path("/proc/cpuinfo")
    for line in listing.read_text().splitlines() if listing.exists() else []:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
