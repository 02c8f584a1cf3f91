"""A row is one number of one run; all rows of a run share where they come from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recombine.measurement import Number, is_number
from recombine.report.origin import commit, source_digest, versions


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
