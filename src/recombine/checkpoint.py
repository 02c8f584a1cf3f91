"""Weights on disk: tensors and the facts about them in one file, whole or not there.

Safetensors hold no code, so nothing is unpickled; a checksum over all of it tells of any change.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialized
from torch import Tensor, nn

from recombine.report.files import write_bytes


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name, and facts that fit into JSON: which run, which step."""

    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Any]

    @property
    def checksum(self) -> str:
        """The SHA-256 of all of it."""
        facts = json.dumps(dict(self.facts), sort_keys=True).encode()
        return hashlib.sha256(facts + digest_of(self.tensors)).hexdigest()

    @property
    def content(self) -> bytes:
        """What its file holds."""
        facts = json.dumps(dict(self.facts), sort_keys=True)
        return serialized(dict(self.tensors), {"facts": facts, "checksum": self.checksum})

    def save(self, path: Path) -> None:
        """Write the file so that a crash at any moment leaves it whole or absent."""
        try:
            write_bytes(path, self.content)
            _settle(path.parent)
        except OSError as error:
            raise OSError(f"{path} cannot be written: {error.strerror or error}") from error

    @classmethod
    def load(cls, path: Path) -> "Checkpoint":
        """Read a checkpoint, or say in one line what is wrong with the file."""
        try:
            with safe_open(path, "pt") as file:
                about = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{path} is not a whole checkpoint: {error}") from error
        if not {"facts", "checksum"} <= about.keys():
            raise ValueError(f"{path} is not a checkpoint of a run: it has no facts or checksum")
        checkpoint = cls(tensors, json.loads(about["facts"]))
        if checkpoint.checksum != about["checksum"]:
            raise ValueError(f"{path} was changed since it was written: its checksum does not fit")
        return checkpoint


def digest_of(tensors: Mapping[str, Tensor]) -> bytes:
    """Return the SHA-256 of tensors on the CPU, names, types and shapes included."""
    digest = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.digest()


def _settle(folder: Path) -> None:
    """Make sure that a new name in a folder survives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def unpack_average(tensors: Mapping[str, Tensor], into: nn.Module) -> None:
    """Put the averaged weights of a checkpoint into a model."""
    average = {
        name.removeprefix("average/"): value
        for name, value in tensors.items()
        if name.startswith("average/")
    }
    shapes = {name: value.shape for name, value in into.state_dict().items()}
    check_shapes({name: value.shape for name, value in average.items()}, shapes)
    into.load_state_dict(average)


def check_shapes(found: Mapping[str, torch.Size], expected: Mapping[str, torch.Size]) -> None:
    """Raise unless the tensors are those of this network; the first that is not is named."""
    for name in sorted(expected.keys() ^ found.keys()):
        fault = "is missing" if name in expected else "is not part of this network"
        raise ValueError(f"{name} {fault}: the weights are of another network")
    for name, shape in expected.items():
        if found[name] != shape:
            raise ValueError(
                f"{name} has the shape {tuple(found[name])}, this network needs {tuple(shape)}"
            )
