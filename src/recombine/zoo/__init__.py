"""Trained weights that come with the package, with the facts of the run they are from.

NAME.safetensors holds the averaged weights in half precision as a checkpoint, so that whatever
can be measured of a run can be measured of them. Its facts name the study, the cell and the seed,
and hold the numbers that other chapters need; all others stand in the table of results.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from recombine.checkpoint import Checkpoint, digest_of, unpack_average
from recombine.measure.fit import Fit
from recombine.measurement import Measurement
from recombine.models.detector import Detector, DetectorReader
from recombine.models.probe import Probe, ProbeReader
from recombine.report.files import naming
from recombine.report.words import nearest
from recombine.worlds.shapes2d import Shapes2D

Filled = TypeVar("Filled", bound=nn.Module)

FOLDER = Path(__file__).parent
"""Where the weights lie."""
LARGEST = 8_000_000
"""Bytes of one file, so that the repository stays light to clone."""
PREFIX = "zoo:"
READERS = ("detector", "probe", "fit")
SHAPES2D_PROBE = Probe(width=32, rejects=True)
"""The network of the shipped probe."""


def names(folder: Path | None = None) -> list[str]:
    """Return what there is, in the order of the alphabet."""
    return sorted(path.stem for path in (folder or FOLDER).glob("*.safetensors"))


def path(name: str, folder: Path | None = None) -> Path:
    """Return the file of these weights, or say which there are."""
    known = names(folder)
    if name not in known:
        there = f"is not one of {', '.join(known)}" if known else "is not there: the zoo is empty"
        raise ValueError(f"{PREFIX}{name} {there}{nearest(name, known)}")
    return (folder or FOLDER) / f"{name}.safetensors"


def load(name: str, folder: Path | None = None) -> Checkpoint:
    """Read the weights as a checkpoint: averaged ones only, in half precision."""
    return Checkpoint.load(path(name, folder))


def measured(name: str, measurement: str) -> Measurement:
    """Return a number that was measured of these weights when they were shipped."""
    known = load(name).facts["measured"]
    if measurement not in known:
        raise ValueError(f"{PREFIX}{name} has no {measurement}; it has {', '.join(known)}")
    return Measurement(*known[measurement])


@cache
def digest(name: str) -> str:
    """Return the fingerprint of the weights alone: what is trained on them depends on it."""
    return digest_of(load(name).tensors).hex()


def ship(
    checkpoint: Checkpoint,
    measured: Mapping[str, Measurement],
    name: str,
    folder: Path | None = None,
) -> Path:
    """Pack the averaged weights of a checkpoint, with some of its numbers; return their file."""
    values = {key: [m.value, m.low, m.high, m.n] for key, m in measured.items()}
    packed = Checkpoint(
        _halved(checkpoint.tensors), {**_of_run(checkpoint.facts), "measured": values}
    )
    if (size := len(packed.content)) > LARGEST:
        raise ValueError(f"{name} takes {size:,} bytes; weights in the zoo take {LARGEST:,}")
    target = (folder or FOLDER) / f"{name}.safetensors"
    packed.save(target)
    return target


def reader(name: str, device: torch.device, world: object = None) -> Any:
    """Return a reader of images on a device; weights are read from disk once.

    The reader by rendering, "fit", needs no weights but the world of the images. A probe
    of yours is named by its path.
    """
    if name not in READERS:
        if Path(name).suffix or Path(name).exists():
            from recombine.zoo.probes import own_probe  # here, as few need it

            return own_probe(Path(name), device)
        known = ", ".join(READERS)
        raise ValueError(f"reader {name!r} is not one of {known}, and no path of a probe of yours")
    if name == "fit":
        if not isinstance(world, Shapes2D):
            raise ValueError(f"reader 'fit' reads Shapes2D; got {getattr(world, 'name', world)}")
        return Fit(world)
    return detector(device=device) if name == "detector" else probe(device)


def detector(folder: Path | None = None, device: torch.device | str = "cpu") -> DetectorReader:
    """Return the shipped reader of CLEVR-like images."""
    return _detector(path("detector", folder), torch.device(device))


# Gradients must be possible through the kept module, even if its first caller needs none.
@cache
@torch.inference_mode(False)
def _detector(path: Path, device: torch.device) -> DetectorReader:
    return DetectorReader(filled(Detector().build(), path).to(device))


@cache
@torch.inference_mode(False)
def probe(device: torch.device) -> ProbeReader:
    """Return the shipped reader of Shapes2D."""
    network = filled(SHAPES2D_PROBE.build(), path("probe")).to(device)
    return ProbeReader(network, SHAPES2D_PROBE, float(measured("probe", "threshold").value))


def filled(network: Filled, path: Path) -> Filled:
    """Return the network with the averaged weights of a file, for use and not for training."""
    with naming(path):
        unpack_average(Checkpoint.load(path).tensors, network)
    return network.eval()


def _of_run(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what only going on with the training would need."""
    return {name: value for name, value in facts.items() if name not in ("stream", "metrics")}


def _halved(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the averaged weights, floats in half precision."""
    found = {}
    for name, value in tensors.items():
        if not name.startswith("average/"):
            continue
        found[name] = value.half() if value.is_floating_point() else value
        if not found[name].isfinite().all():
            raise ValueError(f"{name} is not finite in half precision (at most 65504)")
    if not found:
        raise ValueError("the checkpoint holds no averaged weights")
    return found
