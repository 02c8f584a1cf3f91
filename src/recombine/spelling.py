"""How a declared value is written down: the same in every process, and in every later version."""

from dataclasses import fields, is_dataclass
from typing import Any

LATER = "later"
"""A field that was added later: with its default it is not spelled, so fingerprints stay.

Its default must mean what was done before it came, and may never change.
"""


def spelled(value: Any) -> str:
    """Return a repr that is the same in every process: functions by name, not by address.

    A value with a `fingerprint` of its own is written as that.
    """
    if isinstance(mark := getattr(value, "fingerprint", None), str):
        return mark
    if is_dataclass(value) and not isinstance(value, type):
        # A Files source names its data in its repr, and leaves out the folder.
        shown = [
            each
            for each in fields(value)
            if each.repr
            and not (LATER in each.metadata and getattr(value, each.name) == each.default)
        ]
        inside = ", ".join(f"{each.name}={spelled(getattr(value, each.name))}" for each in shown)
        return f"{type(value).__name__}({inside})"
    if isinstance(value, tuple):
        return f"({', '.join(map(spelled, value))}{',' if len(value) == 1 else ''})"
    if "<" not in getattr(value, "__qualname__", "<"):
        return value.__name__
    text = repr(value)
    # An address, or a function that has no name of its own.
    if " at 0x" in text:
        raise ValueError(f"a training is made of values that can be spelled; got {text}")
    return text


def whole(value: Any) -> str:
    """Return every field of a declared value: a repr may be shorter."""
    if not is_dataclass(value) or isinstance(value, type):
        return repr(value)
    shown = (f"{each.name}={getattr(value, each.name)!r}" for each in fields(value) if each.repr)
    return f"{type(value).__qualname__}({', '.join(shown)})"


def brief(value: Any) -> str:
    """Return a declared value on one line: its size and what is not as usual."""
    parts = []
    for each in fields(value):
        given = getattr(value, each.name)
        if not each.repr or (given == each.default and each.name != "size"):
            continue
        long = isinstance(given, tuple) and len(given) > 6
        parts.append(f"{each.name}={f'{len(given)} of them' if long else repr(given)}")
    return f"{type(value).__name__}({', '.join(parts)})"
