"""A record is all that a table, a figure or a reader may know about a run."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from recombine.measurement import Measurement, Number, is_number
from recombine.report.files import write_text
from recombine.report.origin import commit, source_digest, versions

Kind = TypeVar("Kind")


# A string of JSON has no line breaks, so these are lists.
_POINT = re.compile(r"\[\n\s+([^\s\[\],]+),\n\s+([^\s\[\],]+)\n\s+\]")
_POINTS = re.compile(r"\[\n\s+(\[[^\n\[\]]*\](?:,\n\s+\[[^\n\[\]]*\])*)\n\s+\]")


@dataclass(frozen=True)
class Record:
    """What was asked, what came out, and what is needed to run it again.

    `experiment` is the repr of the experiment, `command` runs it, `seconds` is the wall time,
    `headline` names the measurements that answer the question, `figure` is a path in the
    checkout, `curves` are lists that figures draw. What is not given about the source and its
    surroundings is found out here and now.
    """

    question: str
    command: str
    experiment: str
    seed: int
    device: str
    seconds: Number
    measurements: Mapping[str, Measurement]
    headline: tuple[str, ...] = ()
    figure: str | None = None
    curves: Mapping[str, list] = field(default_factory=dict)
    commit: str = field(default_factory=commit)
    source: str = field(default_factory=source_digest)
    versions: Mapping[str, str] = field(default_factory=versions)

    def __post_init__(self) -> None:
        if not is_number(self.seconds) or self.seconds < 0:
            raise ValueError(f"seconds is a finite number of 0 or more; got {self.seconds}")
        for name in self.headline:
            if name not in self.measurements:
                known = ", ".join(self.measurements) or "none"
                raise ValueError(f"headline {name!r} is not measured; measurements: {known}")

    def save(self, path: Path) -> None:
        """Write the record as JSON, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        written = json.dumps(asdict(self), indent=2, allow_nan=False)
        write_text(path, on_one_line(written) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Record":
        """Read a record, or say in one line what is wrong with the file."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ValueError(f"{path} cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is not whole JSON: {error}") from error
        return _record(content, str(path))


def _record(content: object, where: str) -> Record:
    values = _checked(Record, content, where)
    measured = {}
    for name, each in values["measurements"].items():
        inside = f"{where}, measurement {name}"
        measured[name] = _built(Measurement, _checked(Measurement, each, inside), inside)
    headline = tuple(values.get("headline", ()))
    return _built(Record, {**values, "measurements": measured, "headline": headline}, where)


def _built(kind: type[Kind], values: dict[str, Any], where: str) -> Kind:
    try:
        return kind(**values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _checked(kind: type, content: object, where: str) -> dict[str, Any]:
    """Return JSON values that fit the fields of a dataclass; what is absent takes its default."""
    if not isinstance(content, dict):
        raise ValueError(f"{where}: expected a JSON object, got {type(content).__name__}")
    hints = get_type_hints(kind)
    # A default that is worked out (the commit of today) must not stand in for a missing one.
    optional = {each.name for each in fields(kind) if each.default_factory is dict}
    needed = {each.name for each in fields(kind) if each.default is MISSING} - optional
    for name in sorted(needed - content.keys()):
        raise ValueError(f"{where}: {name} is missing; a record has {', '.join(hints)}")
    for name, value in content.items():
        if name not in hints:
            raise ValueError(f"{where}: {name} is unknown; a record has {', '.join(hints)}")
        if not _fits(value, hints[name]):
            raise ValueError(f"{where}: {name} is {value!r}; expected {hints[name]}")
    return content


def _fits(value: object, hint: Any) -> bool:
    """Tell whether a JSON value can stand for a field of this type."""
    kind, inner = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return any(_fits(value, each) for each in inner)
    if kind is tuple:
        return isinstance(value, list) and all(_fits(each, inner[0]) for each in value)
    if kind is Mapping:
        return isinstance(value, dict) and all(_fits(each, inner[1]) for each in value.values())
    if is_dataclass(hint):
        return isinstance(value, dict)
    if hint is float:
        return isinstance(value, float) and math.isfinite(value)
    return isinstance(value, hint) and not isinstance(value, bool)


def on_one_line(written: str) -> str:
    """Return JSON with every curve, a list of pairs, on one line: half as long, and readable."""
    pairs = _POINT.sub(r"[\1, \2]", written)
    return _POINTS.sub(lambda found: "[" + re.sub(r",\s+", ", ", found[1]) + "]", pairs)
