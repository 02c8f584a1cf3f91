"""A row is one number of one run; all rows of a run share where they come from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from recombine.measurement import Measurement, Number, is_number
from recombine.report.origin import commit, source_digest, versions

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
        """Lists of (x, value) or (x, value, low, high) by name."""

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
        for name in ("value", "low", "high", "step"):
            number = getattr(self, name)
            if not (is_number(number) or (number is None and name != "value")):
                raise ValueError(f"{self.measurement}: {name} is a finite number; got {number!r}")


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
        if not is_number(self.seconds) or self.seconds < 0:
            raise ValueError(f"seconds is a finite number of 0 or more; got {self.seconds}")
        for name in (self.study, self.cell):
            if not name or not name.isprintable() or set(name) & set("/\\. "):
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
        for x, value, *ends in points:
            low, high = ends or (None, None)
            yield shortened(Row(name, value, low, high, step=x, reader=reader))


def shortened(row: Row) -> Row:
    """Return a row of a curve as it is kept: six digits, and whole numbers as they are."""
    numbers = {name: getattr(row, name) for name in ("value", "low", "high")}
    floats = {name: each for name, each in numbers.items() if isinstance(each, float)}
    return replace(row, **{name: float(f"{each:.{DIGITS}g}") for name, each in floats.items()})


def notes(findings: FindingsLike) -> tuple[str, ...]:
    """Return in words what the numbers do not say: alarms, and what is undefined."""
    undefined = [f"{name} is undefined: {why}" for name, why in findings.undefined.items()]
    return (*findings.alarms, *undefined)
