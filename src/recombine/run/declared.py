"""Declared values as data for JSON and back: the very value again, and no code in between.

A frozen dataclass of ours is {"is": "recombine.condition.Conditioner", field: value, ...}, a
function {"function": NAME}, a path {"path": TEXT}, a tuple a list. A number that JSON has no word
for is {"number": "inf"}. What is read names values of this package only.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import torch

from recombine.report.words import listed, nearest

CHAPTERS = (
    *("condition", "denoiser", "measure", "models", "objectives", "sample", "scene", "split"),
    *("studies", "study", "train", "training", "views", "worlds"),
)
"""Where what is declared is from: a name in a file leads nowhere else."""
TORCH: Mapping[str, Callable[..., Any]] = {"torch.zeros_like": torch.zeros_like}
"""The functions of torch that a declared value may name."""
_NAME = re.compile(rf"recombine\.(?:{'|'.join(CHAPTERS)})(?:\.[a-z]\w*)*\.[A-Za-z]\w*", re.ASCII)


def as_data(value: Any) -> Any:
    """Return a declared value as data for JSON; say so of a value that is not of this package."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"number": str(value)}
    if isinstance(value, tuple):
        return [as_data(each) for each in value]
    if isinstance(value, Path):
        return {"path": value.as_posix()}
    for name, function in TORCH.items():
        if value is function:
            return {"function": name}
    kind = value if isinstance(value, FunctionType) else type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if not _NAME.fullmatch(name):
        raise ValueError(f"a file can hold values of recombine only; got {value!r} of {name}")
    if kind is value:
        return {"function": name}
    inside = {each.name: as_data(getattr(value, each.name)) for each in _fields(kind)}
    return {"is": name, **inside}


def from_data(data: Any) -> Any:
    """Return the value that data describes, or say in one line what of it is not known here."""
    if isinstance(data, list):
        return tuple(from_data(each) for each in data)
    if not isinstance(data, Mapping):
        return data
    match dict(data):
        case {"is": str(name), **written}:
            return _built(name, written)
        case {"function": str(name)} if len(data) == 1:
            return TORCH[name] if name in TORCH else _named(name, FunctionType, "a function")
        case {"path": str(text)} if len(data) == 1:
            return Path(text)
        case {"number": "inf" | "-inf" | "nan" as text} if len(data) == 1:
            return float(text)
    raise ValueError(f"expected a value with its name under 'is'; got the keys {listed(data)}")


def _built(name: str, written: Mapping[str, Any]) -> Any:
    kind = _named(name, type, "a class")
    if not hasattr(kind, "__dataclass_fields__"):
        raise ValueError(f"{name} is not a declared value")
    known = {each.name: each for each in _fields(kind)}
    for field in written:
        if field not in known:
            near = nearest(field, list(known))
            raise ValueError(f"{name} has no field {field!r}; it has {listed(known)}{near}")
    for field, each in known.items():
        if field not in written and each.default is each.default_factory is MISSING:
            raise ValueError(f"{name} needs its field {field!r}, which is missing")
    values = {field: from_data(each) for field, each in written.items()}
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"{name} cannot be made of {values}: {error}") from error


def _fields(kind: Any) -> list[Any]:
    return [each for each in fields(kind) if each.init]


def _named(name: str, kind: type[Any], says: str) -> Any:
    """Return what a name of this package stands for, where it is defined there and public."""
    module, _, last = name.rpartition(".")
    if _NAME.fullmatch(name):
        try:
            found = getattr(import_module(module), last, None)
        except ModuleNotFoundError:
            found = None
        if isinstance(found, kind) and found.__module__ == module:
            return found
    raise ValueError(f"{name!r} is not {says} that this recombine declares values with")
