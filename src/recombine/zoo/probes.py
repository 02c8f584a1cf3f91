"""Probes that users train: one file has the weights, the factors, and what was measured of them."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import torch

from recombine.checkpoint import Checkpoint, unpack_average
from recombine.measurement import Measurement
from recombine.models.probe import Probe, ProbeReader
from recombine.report.files import naming
from recombine.scene import Factor

FILE = "probe.safetensors"


def pack(
    checkpoint: Checkpoint, of: Probe, measured: Mapping[str, Measurement], path: Path
) -> Path:
    """Write the averaged weights of a training with all that is needed to read with them."""
    average = {k: each for k, each in checkpoint.tensors.items() if k.startswith("average/")}
    declared = {
        "size": of.size,
        "factors": [[each.name, list(each.concepts)] for each in of.factors],
        "width": of.width,
        "linear": of.linear,
        "rejects": of.rejects,
    }
    facts = {
        "probe": declared,
        "training": checkpoint.facts["training"],
        "measured": {name: [m.value, m.low, m.high, m.n] for name, m in measured.items()},
    }
    Checkpoint(average, facts).save(path)
    return path


def own_probe(path: Path, device: torch.device) -> ProbeReader:
    """Return the reader that a file, or the folder of `recombine probe`, holds."""
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"{file} is not there; expected a probe, trained by recombine probe")
    return _read(file, file.stat().st_mtime_ns, device)


@lru_cache(maxsize=8)
@torch.inference_mode(False)
def _read(path: Path, changed: int, device: torch.device) -> ProbeReader:
    del changed
    found = Checkpoint.load(path)
    if "probe" not in found.facts:
        raise ValueError(f"{path} is not a probe; expected a file that recombine probe has written")
    declared = dict(found.facts["probe"])
    factors = tuple(Factor(name, tuple(concepts)) for name, concepts in declared.pop("factors"))
    of = Probe(factors=factors, **declared)
    network = of.build()
    with naming(path):
        unpack_average(found.tensors, network)
    threshold = found.facts["measured"]["threshold"][0] if of.rejects else 0.0
    return ProbeReader(network.eval().to(device), of, threshold)
