"""What a run keeps on disk to go on from: checkpoints, and a line for every step."""

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recombine.checkpoint import check_shapes
from recombine.report.files import write_text
from recombine.train import Weights

KEPT = 2
"""How many checkpoints of a run stay on disk."""
POINTS = 200
"""How many points of the loss are kept in the results."""
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


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
    check_shapes({name: value.shape for name, value in tensors.items()}, expected)
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


def _laid_out(value: Tensor, like: Tensor) -> Tensor:
    """Return a moment with its channels in the order of its parameter's, as a fused step needs."""
    return torch.empty_like(like).copy_(value) if value.shape == like.shape else value


def _modules(weights: Weights) -> dict[str, Tensor]:
    """Return the live tensors of the network and its average, by name in a checkpoint."""
    network = weights.denoiser.state_dict(prefix="network/")
    average = weights.average.module.state_dict(prefix="average/")
    return {**network, **average, "averaged": weights.average.n_averaged}


@dataclass(frozen=True)
class Metrics:
    """A file of one JSON object per line: the loss of each step, and what milestones measured."""

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

    @property
    def state(self) -> dict[str, Any]:
        """How many lines there are, and their digest: a checkpoint holds both."""
        lines = self._lines()
        return {"lines": len(lines), "digest": _digest(lines)}

    def keep(self, state: Mapping[str, Any]) -> None:
        """Forget what came after a checkpoint; raise if what came before it was changed."""
        lines, count = self._lines(), state["lines"]
        if len(lines) < count or _digest(lines[:count]) != state["digest"]:
            there = f"{min(len(lines), count)} of the {count} lines that the checkpoint counts"
            raise ValueError(
                f"{self.path} was changed since the checkpoint was written (it has {there}): "
                f"restore it, or remove {self.path.parent} to start anew"
            )
        write_text(self.path, "".join(f"{line}\n" for line in lines[:count]))

    def read(self) -> list[dict[str, Any]]:
        """Return the lines."""
        return [json.loads(line) for line in self._lines()]

    def _lines(self) -> list[str]:
        """Return the whole lines; a last one that was cut off is left out."""
        return self.path.read_text().split("\n")[:-1] if self.path.exists() else []

    def curves(self) -> dict[str, list[Any]]:
        """Return what the results keep: the loss in bins, and the value of each measurement."""
        lines = self.read()
        losses = [(line["step"], line["loss"]) for line in lines if "loss" in line]
        size = -(-len(losses) // POINTS)
        bins = [losses[at : at + size] for at in range(0, len(losses), size)] if size else []
        means = [[each[-1][0], math.fsum(loss for _, loss in each) / len(each)] for each in bins]
        curves: dict[str, list[Any]] = {"loss": means}
        for line in lines:
            for name, each in line.get("measurements", {}).items():
                curves.setdefault(name, []).append([line["step"], *each])
        return curves


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
