"""Trained weights that come with the package, each beside the record of its run.

NAME.safetensors holds the averaged weights in half precision as a checkpoint, so that whatever
can be asked of a run can be asked of them; NAME.json is the record.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from recombine.checkpoint import LEARNED_FROM, Checkpoint, unpack_average
from recombine.models.detector import Detector, DetectorReader
from recombine.models.probe import Probe, ProbeReader
from recombine.reader import Found
from recombine.report.files import naming, write_bytes
from recombine.report.record import Record
from recombine.report.words import nearest

Filled = TypeVar("Filled", bound=nn.Module)

FOLDER = Path(__file__).parent
"""Where the weights lie."""
LARGEST, LARGEST_TOTAL = 8_000_000, 80_000_000
"""Bytes of one file of weights and of all, so that the repository stays light to clone."""
DETECTOR = "detector"


def names(folder: Path | None = None) -> list[str]:
    """Return what there is, in the order of the alphabet."""
    return sorted(path.stem for path in (folder or FOLDER).glob("*.safetensors"))


def path(name: str, folder: Path | None = None) -> Path:
    """Return the file of these weights, or say which there are."""
    known = names(folder)
    if name not in known:
        there = (
            f"is not one of {', '.join(known)}"
            if known
            else "is not there: no weights are shipped yet"
        )
        raise ValueError(f"zoo:{name} {there}{nearest(name, known)}")
    return (folder or FOLDER) / f"{name}.safetensors"


def load(name: str, folder: Path | None = None) -> Checkpoint:
    """Read the weights as a checkpoint: averaged ones only, in half precision."""
    return Checkpoint.load(path(name, folder))


def record(name: str, folder: Path | None = None) -> Record:
    """Read the record of the run that the weights are from."""
    return Record.load(path(name, folder).with_suffix(".json"))


def ship(checkpoint_path: Path, record_path: Path, name: str, folder: Path | None = None) -> Path:
    """Pack the averaged weights of a checkpoint, with its record, and return their file."""
    checkpoint, record = Checkpoint.load(checkpoint_path), Record.load(record_path)
    _refuse_other(record, record_path, checkpoint.facts)
    packed = Checkpoint(_halved(checkpoint.tensors), _without_stream(checkpoint.facts))
    if (size := len(packed.content)) > LARGEST:
        raise ValueError(f"{name} takes {size:,} bytes; weights in the zoo take {LARGEST:,}")
    target = (folder or FOLDER) / f"{name}.safetensors"
    packed.save(target)
    write_bytes(target.with_suffix(".json"), record_path.read_bytes())
    return target


@dataclass(frozen=True)
class ShippedDetector:
    """The reader of CLEVR-like images with its shipped weights, on whichever device images are."""

    path: Path
    threshold: float = DetectorReader.threshold

    def __call__(self, images: Float[Tensor, "batch 3 height width"]) -> Found:
        """Return what is in the images, on their device."""
        return replace(_read(self.path, images.device), threshold=self.threshold)(images)


def detector(folder: Path | None = None) -> ShippedDetector:
    """Return the shipped reader; what is wrong with its weights is said at once."""
    reader = ShippedDetector(path(DETECTOR, folder))
    _read(reader.path, torch.device("cpu"))
    return reader


# What is kept must do for gradients, whoever asks for it first.
@cache
@torch.inference_mode(False)
def probe(name: str, of: Probe, device: torch.device) -> ProbeReader:
    """Return a shipped reader of single objects on a device; it is read from disk once."""
    return ProbeReader(filled(of.build(), path(name)).to(device), of)


# What is kept must do for gradients, whoever asks for it first.
@cache
@torch.inference_mode(False)
def _read(path: Path, device: torch.device) -> DetectorReader:
    """Return the reader on a device; it is read from disk once."""
    return DetectorReader(filled(Detector().build(), path).to(device))


def filled(network: Filled, path: Path) -> Filled:
    """Return the network with the averaged weights of a file, for use and not for training."""
    with naming(path):
        unpack_average(Checkpoint.load(path).tensors, network)
    return network.eval()


def _without_stream(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out where the data had got to: nobody goes on training from here."""
    return {name: value for name, value in facts.items() if name != "stream"}


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


def _refuse_other(record: Record, path: Path, facts: Mapping[str, Any]) -> None:
    """Raise unless the record is of the run that the facts tell of."""
    # Questions may have been put anew since; what the weights were learned from may not differ.
    parts = {name: f"{name}={facts['experiment'][name]}" for name in LEARNED_FROM}
    differing = [name for name, part in parts.items() if part not in record.experiment]
    if f" {facts['name']}:{facts['variant']} " not in record.command:
        differing.append("command")
    if record.seed != facts["seed"]:
        differing.append("seed")
    if differing:
        raise ValueError(f"{path} is of another run: it differs in {', '.join(differing)}")
