"""What a run keeps: checkpoints to go on from, whole or not there, and a line for every step.

Safetensors hold no code, so nothing is unpickled; a checksum over all of it tells of any change.
"""

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialized
from torch import Tensor

from recombine.report.files import write_bytes, write_text
from recombine.train import Weights

LEARNED_FROM = ("world", "network", "budget", "conditioner", "objective", "view")
"""The fields of an experiment that its weights depend on; the others may change afterwards."""
KEPT = 2
"""How many checkpoints of a run stay on disk."""
POINTS = 200
"""How many points of the loss a record keeps."""
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name, and facts that fit into JSON: which run, which step."""

    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Any]

    @property
    def checksum(self) -> str:
        """The SHA-256 of all of it."""
        digest = hashlib.sha256(json.dumps(dict(self.facts), sort_keys=True).encode())
        for name, value in sorted(self.tensors.items()):
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            digest.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    @property
    def content(self) -> bytes:
        """What its file holds."""
        said = {"facts": json.dumps(dict(self.facts), sort_keys=True), "checksum": self.checksum}
        return serialized(dict(self.tensors), said)

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
                said = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{path} is not a whole checkpoint: {error}") from error
        if not {"facts", "checksum"} <= said.keys():
            raise ValueError(f"{path} is not a checkpoint of a run: it has no facts or checksum")
        checkpoint = cls(tensors, json.loads(said["facts"]))
        if checkpoint.checksum != said["checksum"]:
            raise ValueError(f"{path} was changed since it was written: its checksum does not fit")
        return checkpoint


def _settle(folder: Path) -> None:
    """Make sure that a new name in a folder survives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a run, the newest first."""
    numbered = {
        int(number): path
        for path in folder.glob("checkpoint-*.safetensors")
        if (number := path.stem.partition("-")[2]).isdigit()
    }
    return [numbered[step] for step in sorted(numbered, reverse=True)]


def path_of(folder: Path, step: int) -> Path:
    """Return where the checkpoint of a step lies."""
    return folder / f"checkpoint-{step}.safetensors"


def tidy(folder: Path) -> None:
    """Remove old checkpoints, and what a killed run was writing."""
    for path in [*checkpoints(folder)[KEPT:], *folder.glob(".*.partial")]:
        path.unlink(missing_ok=True)


def packed(weights: Weights, generators: Mapping[str, torch.Generator]) -> dict[str, Tensor]:
    """Return the state of a run as tensors on the CPU."""
    state = weights.optimizer.state_dict()["state"]
    found = _modules(weights)
    for number, moments in state.items():
        found |= {f"optimizer/{number}/{name}": moments[name] for name in _MOMENTS}
    found |= {f"random/{name}": each.get_state() for name, each in generators.items()}
    # Copies in plain order, as safetensors refuses tensors that share memory or skip in it.
    plain = torch.contiguous_format
    return {
        name: value.detach().to("cpu", copy=True, memory_format=plain)
        for name, value in found.items()
    }


def unpack(
    tensors: Mapping[str, Tensor], weights: Weights, generators: Mapping[str, torch.Generator]
) -> None:
    """Put the state of a run back in place; what does not fit is named and changes nothing."""
    expected = {name: value.shape for name, value in _modules(weights).items()}
    parameters = list(weights.denoiser.parameters())
    for number, parameter in enumerate(parameters):
        shapes = (parameter.shape, parameter.shape, torch.Size())
        names = (f"optimizer/{number}/{name}" for name in _MOMENTS)
        expected |= dict(zip(names, shapes, strict=True))
    expected |= {f"random/{name}": each.get_state().shape for name, each in generators.items()}
    _check({name: value.shape for name, value in tensors.items()}, expected)
    for name, place in _modules(weights).items():
        place.copy_(tensors[name])
    state = {
        number: {
            name: _laid_out(tensors[f"optimizer/{number}/{name}"], parameter) for name in _MOMENTS
        }
        for number, parameter in enumerate(parameters)
    }
    groups = weights.optimizer.state_dict()["param_groups"]
    weights.optimizer.load_state_dict({"state": state, "param_groups": groups})
    for name, generator in generators.items():
        generator.set_state(tensors[f"random/{name}"])


def unpack_average(tensors: Mapping[str, Tensor], into: torch.nn.Module) -> None:
    """Put the averaged weights of a checkpoint into a denoiser."""
    average = {
        name.removeprefix("average/"): value
        for name, value in tensors.items()
        if name.startswith("average/")
    }
    shapes = {name: value.shape for name, value in into.state_dict().items()}
    _check({name: value.shape for name, value in average.items()}, shapes)
    into.load_state_dict(average)


def _laid_out(value: Tensor, like: Tensor) -> Tensor:
    """Return a moment with its channels in the order of its parameter's, as a fused step needs."""
    return torch.empty_like(like).copy_(value) if value.shape == like.shape else value


def _modules(weights: Weights) -> dict[str, Tensor]:
    """Return the live tensors of the network and its average, by name in a checkpoint."""
    network = weights.denoiser.state_dict(prefix="network/")
    average = weights.average.module.state_dict(prefix="average/")
    return {**network, **average, "averaged": weights.average.n_averaged}


def _check(found: Mapping[str, torch.Size], expected: Mapping[str, torch.Size]) -> None:
    for name in sorted(expected.keys() ^ found.keys()):
        fault = "is missing" if name in expected else "is not part of this network"
        raise ValueError(f"{name} {fault}: the weights are of another network")
    for name, shape in expected.items():
        if found[name] != shape:
            raise ValueError(
                f"{name} has the shape {tuple(found[name])}, this network needs {tuple(shape)}"
            )


@dataclass(frozen=True)
class Metrics:
    """A file of one JSON object per line: the loss of each step, and what milestones found."""

    path: Path

    def append(self, lines: list[dict[str, Any]]) -> None:
        """Add lines, on disk before anything that follows."""
        try:
            with self.path.open("a") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise OSError(f"{self.path} cannot be written: {error.strerror or error}") from error

    def read(self) -> list[dict[str, Any]]:
        """Return the lines; a last one that was cut off is left out."""
        lines = self.path.read_text().split("\n")[:-1] if self.path.exists() else []
        return [json.loads(line) for line in lines]

    def keep(self, step: int) -> None:
        """Forget what came after a step."""
        kept = [json.dumps(line) + "\n" for line in self.read() if line["step"] <= step]
        write_text(self.path, "".join(kept))

    def curves(self) -> dict[str, list[Any]]:
        """Return what a record keeps: the loss in bins, and the value of each measurement."""
        lines = self.read()
        losses = [(line["step"], line["loss"]) for line in lines if "loss" in line]
        size = -(-len(losses) // POINTS)
        bins = [losses[at : at + size] for at in range(0, len(losses), size)]
        curves: dict[str, list[Any]] = {
            "loss": [
                [each[-1][0], math.fsum(loss for _, loss in each) / len(each)] for each in bins
            ]
        }
        for line in lines:
            for name, each in line.get("measurements", {}).items():
                curves.setdefault(name, []).append([line["step"], each["value"]])
        return curves
