"""A row is one number of one run; all rows of a run share where they come from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from recombine.measurement import Measurement, Number, is_number
from recombine.report.origin import commit, source_digest, versions

_EMPTY: tuple[Any, ...] = (None, None, None, None)
DIGITS = 6
"""How many digits of a number on a curve are kept; final numbers are kept whole."""


@runtime_checkable
class FindingsLike(Protocol):
    """What a measurement or a computation returns, as far as it becomes rows."""

    @property
    def measurements(self) -> Mapping[str, Measurement]:
        """The final numbers by name."""

    @property
    def curves(self) -> Mapping[str, Sequence[Sequence[Number]]]:
        """Lists of (x, value), (x, value, low, high) or (x, value, low, high, n) by name."""

    @property
    def undefined(self) -> Mapping[str, str]:
        """Why a measurement has no value."""

    @property
    def alarms(self) -> tuple[str, ...]:
        """What a reader of the numbers must know."""


@dataclass(frozen=True)
class Row:
    """A number with its 95 % interval and n; `step` is the x of a curve, None after training.

    `reader` names the network that read the samples, where one did.
    """

    measurement: str
    value: Number
    low: Number | None = None
    high: Number | None = None
    n: int | None = None
    step: Number | None = None
    reader: str = ""

    def __post_init__(self) -> None:
        if not self.measurement or not self.measurement.isprintable():
            raise ValueError(f"a measurement has a name of one line; got {self.measurement!r}")
        numbers = (self.value, self.low, self.high, self.step)
        if not all(is_number(each) for each in numbers if each is not None) or self.value is None:
            raise ValueError(f"a row is of finite numbers; got {self}")


@dataclass(frozen=True)
class Origin:
    """Which cell of which study was run, with which seed, where, for how long and by what code.

    `levels` has the level of every axis of the study. What is not given about the source and its
    surroundings is found out here and now. `notes` are alarms, and why numbers are undefined.
    """

    study: str
    cell: str
    seed: int
    device: str
    levels: Mapping[str, str] = field(default_factory=dict)
    seconds: Number = 0.0
    command: str = ""
    commit: str = field(default_factory=commit)
    source: str = field(default_factory=source_digest)
    versions: Mapping[str, str] = field(default_factory=versions)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.seed, int):
            raise ValueError(f"a seed is a whole number; got {self.seed!r}")
        if not is_number(self.seconds) or self.seconds < 0:
            raise ValueError(f"seconds is a finite number of 0 or more; got {self.seconds}")
        for name in (self.study, self.cell):
            if not name or not name.isprintable() or set(name) & set("/\\: "):
                raise ValueError(f"names of studies and cells are single words; got {name!r}")

    @property
    def run(self) -> str:
        """The name of the run in its study: grid_all/seed0."""
        return f"{self.cell}/seed{self.seed}"


@dataclass(frozen=True)
class Results:
    """All rows of one run."""

    origin: Origin
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        seen: set[tuple[str, Number | None]] = set()
        for row in self.rows:
            if (key := (row.measurement, row.step)) in seen:
                at = "after training" if row.step is None else f"at step {row.step}"
                raise ValueError(f"{self.origin.run} has two rows of {row.measurement} {at}")
            seen.add(key)


def rows(findings: FindingsLike, reader: str = "", step: Number | None = None) -> tuple[Row, ...]:
    """Return findings as rows; those of a milestone are given its `step`."""
    return tuple(_rows(findings, reader, step))


def _rows(findings: FindingsLike, reader: str, step: Number | None) -> Iterator[Row]:
    for name, found in findings.measurements.items():
        row = Row(name, found.value, found.low, found.high, found.n, step, reader)
        yield row if step is None else shortened(row)
    for name, points in findings.curves.items():
        for x, *numbers in points:
            value, low, high, n = _EMPTY if not numbers else (*numbers, *_EMPTY[len(numbers) :])
            yield shortened(Row(name, value, low, high, n, x, reader))


def shortened(row: Row) -> Row:
    """Return a row of a curve as it is kept: six digits, and whole numbers as they are."""
    value, low, high = (_shortened(each) for each in (row.value, row.low, row.high))
    return replace(row, value=value, low=low, high=high)


def _shortened(number: Any) -> Any:
    return float(f"{number:.{DIGITS}g}") if isinstance(number, float) else number


def notes(findings: FindingsLike) -> tuple[str, ...]:
    """Return in words what the numbers do not say: alarms, and what is undefined."""
    undefined = [f"{name} is undefined: {why}" for name, why in findings.undefined.items()]
    return (*findings.alarms, *undefined)
