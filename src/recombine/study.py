"""A study is a question and a table of cells, which differ in named levels and in nothing else.

An axis has levels; a level is one plain sentence and one change of what is declared. The key, the
folder, the label and the title of a cell derive from its levels.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import torch

from recombine.measure.subject import Findings, Measure
from recombine.own import OwnFile
from recombine.sample.heun import HEUN, Sampler
from recombine.sample.unmask import Unmask
from recombine.training import Training

Declared = TypeVar("Declared")
Watched: TypeAlias = Callable[[int, int], None]
"""Called with how many parts of a computation are done, and of how many."""


@runtime_checkable
class Computation(Protocol):
    """A question that is answered without training: closed forms and simulations, as a value."""

    def __call__(self, generator: torch.Generator, watch: Watched, /) -> Findings:
        """Compute on the device of the generator."""

    def tiny(self) -> "Computation":
        """Return the same question, answered in a second."""


@dataclass(frozen=True)
class Cell:
    """A training, how its model is sampled, and what is measured of it.

    The measurements are made at the end, and on the way at the steps in `milestones`. Where a seed
    stands for more than random numbers, such as which compositions are seen, `replicate` returns
    the cell of a seed.
    """

    training: Training
    sampler: Sampler | Unmask = HEUN
    measures: tuple[Measure, ...] = ()
    milestones: tuple[int, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2)
    replicate: "Callable[[Cell, int], Cell] | None" = None

    def __post_init__(self) -> None:
        steps = self.training.budget.steps
        if any(not 0 < milestone <= steps for milestone in self.milestones):
            raise ValueError(f"milestones are steps of 1 to {steps}; got {self.milestones}")

    def of_seed(self, seed: int) -> "Cell":
        """Return the cell as it is trained and measured with this seed."""
        return self if self.replicate is None else self.replicate(self, seed)

    def of_steps(self, steps: int) -> "Cell":
        """Return the cell trained for so many steps, its milestones at the same shares of them."""
        budget = self.training.budget
        reached = {max(1, each * steps // budget.steps) for each in self.milestones}
        training = replace(self.training, budget=replace(budget, steps=steps))
        return replace(self, training=training, milestones=tuple(sorted(reached)))

    def tiny(self) -> "Cell":
        """Return the same cell, small enough for a test on a laptop."""
        small = self.of_steps(self.training.budget.tiny().steps)
        return replace(
            small,
            training=small.training.tiny(),
            measures=tuple(measure.tiny() for measure in self.measures),
            sampler=replace(self.sampler, steps=min(self.sampler.steps, 4)),
            seeds=self.seeds[:1],
        )


def same(declared: Declared) -> Declared:
    """Change nothing: the first level of most axes."""
    return declared


@dataclass(frozen=True)
class Level:
    """One value of an axis: a plain sentence, and what it changes."""

    says: str
    change: Callable[[Any], Any] = same


@dataclass(frozen=True)
class Axis:
    """Levels by name; `changes` names the fields that they may change, such as "training.network".

    The first level is the one that a cell has when nothing else is said.
    """

    changes: tuple[str, ...]
    levels: Mapping[str, Level]

    @property
    def first(self) -> str:
        """The name of the first level."""
        return next(iter(self.levels))


@dataclass(frozen=True)
class Study:
    """A question, its axes, and its cells by key.

    `headline` names the measurements that answer the question, `cost` says in words what a cell
    takes, `note` is printed beside every number of the study. `file` is where a user declares it.
    """

    question: str
    axes: Mapping[str, Axis]
    cells: Mapping[str, Cell | Computation]
    levels: Mapping[str, Mapping[str, str]]
    headline: tuple[str, ...] = ()
    cost: str = ""
    note: str = ""
    file: OwnFile | None = None

    def title(self, key: str) -> str:
        """Return what the levels of a cell say, as one line."""
        named = _named(self.axes, self.levels[key])
        return " ".join(self.axes[axis].levels[level].says for axis, level in named)

    def folder(self, key: str) -> str:
        """Return the key of the first cell with the same training: they share its weights."""
        cell = self.cells[key]
        if not isinstance(cell, Cell):
            return key
        trained = ((k, each) for k, each in self.cells.items() if isinstance(each, Cell))
        return next(k for k, each in trained if each.training == cell.training)


def study(
    question: str,
    base: Cell | Computation,
    axes: Mapping[str, Axis],
    tables: Sequence[Mapping[str, str | Sequence[str]]] = ({},),
    headline: tuple[str, ...] = (),
    cost: str = "",
    note: str = "",
) -> Study:
    """Return a study whose cells are the tables: of each, every combination of its levels.

    Axes that a table does not name keep their first level. Levels change the base in the order of
    the axes.
    """
    _check_names(axes)
    cells: dict[str, Cell | Computation] = {}
    chosen: dict[str, Mapping[str, str]] = {}
    for table in tables:
        for levels in _rows(axes, table):
            key = key_of(axes, levels)
            if key in cells:
                raise ValueError(f"the cell {key} stands in the tables twice")
            cell = base
            for name, axis in axes.items():
                cell = axis.levels[levels[name]].change(cell)
            cells[key], chosen[key] = cell, levels
    return Study(question, axes, cells, chosen, headline, cost, note)


def key_of(axes: Mapping[str, Axis], levels: Mapping[str, str]) -> str:
    """Return the key of a cell: the level of the first axis, and all that are not the first."""
    return "-".join(level for _, level in _named(axes, levels)) or "base"


def _named(axes: Mapping[str, Axis], levels: Mapping[str, str]) -> list[tuple[str, str]]:
    first = next(iter(axes), None)
    return [
        (name, levels[name])
        for name, axis in axes.items()
        if name == first or levels[name] != axis.first
    ]


def _rows(
    axes: Mapping[str, Axis], table: Mapping[str, str | Sequence[str]]
) -> list[dict[str, str]]:
    for name, wanted in table.items():
        known = axes[name].levels if name in axes else {}
        for level in [wanted] if isinstance(wanted, str) else wanted:
            if level not in known:
                raise ValueError(f"axis {name} has the levels {', '.join(known)}; got {level!r}")
    each = [table.get(name, axis.first) for name, axis in axes.items()]
    lists = [[levels] if isinstance(levels, str) else list(levels) for levels in each]
    return [dict(zip(axes, row, strict=True)) for row in product(*lists)]


def _check_names(axes: Mapping[str, Axis]) -> None:
    """Refuse names that would give two cells one key."""
    names = [level for axis in axes.values() for level in axis.levels]
    for name in names:
        if names.count(name) > 1 or "-" in name or not name:
            raise ValueError(f"level names are unique in a study and hold no '-'; got {name!r}")
