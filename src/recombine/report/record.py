"""A record is all that a table, a figure or a reader may know about a run."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from recombine.report.files import write_text
from recombine.report.origin import commit, source_digest, versions

Kind = TypeVar("Kind")

Number: TypeAlias = float | int
"""For mypy a float may be an int; beartype wants both said."""

Interval: TypeAlias = tuple[float, float]


def exact_binomial(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Return the interval of Clopper and Pearson (1934) for a rate."""
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"a rate needs 0 <= successes <= n and n >= 1; got {successes} of {n}")
    from scipy import stats  # here and below, as it takes a second to import

    found = stats.binomtest(successes, n).proportion_ci(confidence, method="exact")
    return float(found.low), float(found.high)


def student_t(values: Sequence[Number], confidence: float = 0.95) -> Interval:
    """Return Student's interval for the mean of values that differ by chance, such as seeds."""
    from scipy import stats

    n = len(values)
    if n < 2:
        raise ValueError(f"the spread of a mean needs 2 values or more; got {n}")
    mean = math.fsum(values) / n
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    reach = float(stats.t.ppf((1 + confidence) / 2, n - 1)) * math.sqrt(variance / n)
    return mean - reach, mean + reach


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_interval(low: Number | None, high: Number | None) -> bool:
    """Tell whether these are two ends in order, or no interval at all."""
    if low is None or high is None:
        return low is high
    return _is_number(low) and _is_number(high) and low <= high


@dataclass(frozen=True)
class Measurement:
    """A number with its 95 % interval and n, and beside it what the paper says.

    An interval is left out (both ends None) only where there is none, as for a single timing.
    The grade is the evidence behind the paper's value; the verdict compares the two.
    """

    value: Number
    low: Number | None
    high: Number | None
    n: int
    paper: Number | None = None
    grade: str | None = None
    verdict: str | None = None

    def __post_init__(self) -> None:
        if not _is_number(self.value) or self.n < 1:
            raise ValueError(f"a measurement is a finite number of n >= 1; got {self}")
        if not _is_interval(self.low, self.high):
            ends = f"{self.low}, {self.high}"
            raise ValueError(f"an interval has two finite ends, low <= high; got {ends}")
        if self.paper is not None and not (_is_number(self.paper) and self.grade):
            raise ValueError(f"a paper's value is a finite number with a grade; got {self}")

    @property
    def printed(self) -> dict[str, Number | None]:
        """What the command line prints of it: value, low, high and n."""
        return {name: getattr(self, name) for name in ("value", "low", "high", "n")}

    @classmethod
    def rate(cls, successes: int, n: int) -> "Measurement":
        """Return a share of n trials with its exact interval."""
        return cls(successes / max(n, 1), *exact_binomial(successes, n), n=n)

    @classmethod
    def mean(cls, values: Sequence[Number]) -> "Measurement":
        """Return the mean of values that differ by chance, with Student's interval."""
        return cls(math.fsum(values) / max(len(values), 1), *student_t(values), n=len(values))


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
        if not _is_number(self.seconds) or self.seconds < 0:
            raise ValueError(f"seconds is a finite number of 0 or more; got {self.seconds}")
        for name in self.headline:
            if name not in self.measurements:
                known = ", ".join(self.measurements) or "none"
                raise ValueError(f"headline {name!r} is not measured; measurements: {known}")

    def save(self, path: Path) -> None:
        """Write the record as JSON, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(asdict(self), indent=2, allow_nan=False) + "\n")

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
