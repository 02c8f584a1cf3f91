"""A trained model as a folder that a hub keeps: config.json, model.safetensors and README.md.

The config is the declared cell as data (declared.py) and the record. The weights are a checkpoint
like those of the zoo: averaged ones only, with a checksum over all of it. The README is the card.
"""

import json
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from recombine import __version__
from recombine.checkpoint import Checkpoint
from recombine.report.files import naming, write_text
from recombine.run.card import card
from recombine.run.declared import as_data, from_data
from recombine.run.plan import Plan
from recombine.run.record import Record
from recombine.study import Cell

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
FORMAT = 1
"""The version of the config; another one is refused."""


def is_pretrained(path: Path) -> bool:
    """Tell whether a file of weights lies in the folder of a pretrained model."""
    return path.name == WEIGHTS and path.with_name(CONFIG).is_file()


def described(folder: Path) -> tuple[Plan, Record]:
    """Return the run that a folder's config declares and its record; nothing of it is trusted."""
    path = folder / CONFIG
    with naming(path):
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"cannot be read: {error}") from error
        if not isinstance(config, dict) or not {"format", "declared", "run"} <= config.keys():
            raise ValueError("is not the config of a model of recombine")
        if config["format"] != FORMAT:
            raise ValueError(f"has format {config['format']!r}; this recombine reads {FORMAT}")
        record, cell = Record.of_data(config["run"]), from_data(config["declared"])
        if not isinstance(cell, Cell):
            raise ValueError(f"declares a {type(cell).__name__}; expected a Cell")
        return record.plan(cell), record


def write(folder: Path, cell: Cell, record: Record, denoiser: nn.Module) -> None:
    """Write the three files of a model; what cannot be written as data is refused first."""
    config = {
        "format": FORMAT,
        "library_name": "recombine",
        "library_version": __version__,
        "run": record.data,
        "declared": as_data(cell),
    }
    text = json.dumps(config, indent=1, allow_nan=False) + "\n"
    weights = {f"average/{name}": packed(value) for name, value in denoiser.state_dict().items()}
    facts: dict[str, Any] = {**record.plan(cell).facts, "step": record.step}
    Checkpoint(weights, facts).save(folder / WEIGHTS)
    write_text(folder / CONFIG, text)
    write_text(folder / CARD, card(cell, record, sum(each.numel() for each in weights.values())))


def packed(value: Tensor) -> Tensor:
    """Return a weight on the CPU in plain order; in half precision where that loses nothing."""
    plain = value.detach().cpu().contiguous().clone()
    half = plain.half() if plain.is_floating_point() else plain
    return half if half.to(plain.dtype).equal(plain) else plain
