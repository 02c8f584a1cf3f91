"""Kinds of tables: each takes some numbers from the table of results and writes them as text.

Every kind has `of`, the studies ("length") or cells ("length:grid_*") that it reads. Runs that
differ in their seed only are summed up by `seeds.summarised`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeAlias

import pandas as pd

from recombine.report.correlation import Pairs, rank_correlation
from recombine.report.published import published
from recombine.report.seeds import Summary, summarised
from recombine.report.table import interval, number

NOTE = (
    "In brackets, 95 % intervals: Student's over seeds that differ, otherwise of the samples. "
    "Samples a run: {samples}."
)


@dataclass(frozen=True)
class Shown:
    """A table as text, with a note below it."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


Query: TypeAlias = Callable[[pd.DataFrame], Shown]
"""A declared table; called with results, it is filled in."""


def chosen(table: pd.DataFrame, of: Sequence[str]) -> pd.DataFrame:
    """Return the rows of these studies or cells, in this order; of none, all."""
    found = []
    for subject in of:
        study, _, cell = subject.partition(":")
        mine = table[table["study"] == study]
        cells = [each for each in mine["cell"].unique() if fnmatchcase(each, cell or "*")]
        found.append(mine[mine["cell"].isin(cells)])
    return pd.concat(found) if found else table


def finals(table: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers after training, without those of curves and milestones."""
    return table[table["step"].isna()]


def value(found: Summary) -> str:
    """Write a mean over seeds with its interval."""
    return interval(found.value, found.low, found.high)


def each_seed(found: Summary) -> str:
    """Write the number of every seed."""
    return ", ".join(map(number, found.values))


def samples(found: Sequence[int]) -> str:
    """Write how many samples runs have: 256, or 32 to 256."""
    ends = dict.fromkeys(f"{n:,}" for n in (min(found), max(found))) if found else {}
    return " to ".join(ends)


@dataclass(frozen=True)
class ByCell:
    """A row a cell, a column a measurement: the mean over seeds, or the numbers of `each` seed.

    `axes` are shown beside the cell; `compared` measurements have the paper's value beside them.
    Cells without the `needed` measurement are left out.
    """

    of: tuple[str, ...]
    columns: tuple[str, ...]
    axes: tuple[str, ...] = ()
    each: tuple[str, ...] = ()
    needed: str = ""
    compared: tuple[str, ...] = ()

    def __call__(self, table: pd.DataFrame) -> Shown:
        """Return the cells that have one of the measurements."""
        mine = finals(chosen(table, self.of))
        if self.needed:
            mine = mine[mine["cell"].isin(mine[mine["measurement"] == self.needed]["cell"])]
        mine = mine[mine["measurement"].isin(self.columns)]
        head = ["cell", *self.axes, "seeds"]
        for name in self.columns:
            head += [name, *[f"{name} in the paper"] * (name in self.compared)]
        groups = mine.groupby(["study", "cell"], sort=False)
        rows = tuple(self._row(study, cell, group) for (study, cell), group in groups)
        note = NOTE.format(samples=samples(mine["n"].dropna().tolist()))
        return Shown(tuple(head), rows, note)

    def _row(self, study: str, cell: str, group: pd.DataFrame) -> tuple[str, ...]:
        several = len({subject.partition(":")[0] for subject in self.of}) > 1
        words = [f"`{study}:{cell}`" if several else f"`{cell}`"]
        words += [str(group[axis].iloc[0]) for axis in self.axes]
        words.append(str(group["seed"].nunique()))
        for name in self.columns:
            rows = group[group["measurement"] == name]
            write = each_seed if name in self.each else value
            words.append("" if rows.empty else write(summarised(rows)))
            if name in self.compared:
                words.append(in_paper(study, cell, name))
        return tuple(words)


def in_paper(study: str, cell: str, measurement: str) -> str:
    """Return the published value of a measurement, or nothing."""
    known = published().set_index(["study", "cell", "measurement"])["value"]
    key = (study, cell, measurement)
    return number(float(known[key])) if key in known.index else ""


@dataclass(frozen=True)
class Numbers:
    """A row a measurement of one cell, with its interval and n."""

    of: tuple[str, ...]
    names: tuple[str, ...] = ("*",)

    def __call__(self, table: pd.DataFrame) -> Shown:
        """Return the measurements whose names match."""
        rows = []
        for name, group in finals(chosen(table, self.of)).groupby("measurement", sort=False):
            if any(fnmatchcase(name, pattern) for pattern in self.names):
                found = summarised(group)
                ends = value(found).removeprefix(number(found.value)).strip()
                rows.append((name, number(found.value), ends, samples(found.samples)))
        return Shown(("measurement", "value", "95 % interval", "n"), tuple(rows))


@dataclass(frozen=True)
class Paired:
    """A row a measurement of one cell, a column for what bears a `mark` in its name and the rest.

    `rejected_fit@ring` and `rejected@ring` are a row, the former first.
    """

    of: tuple[str, ...]
    names: tuple[str, ...]
    mark: str
    heads: tuple[str, str]

    def __call__(self, table: pd.DataFrame) -> Shown:
        """Return the pairs of measurements whose names match."""
        mine = finals(chosen(table, self.of))
        groups = {name: group for name, group in mine.groupby("measurement", sort=False)}
        rows = []
        for pattern in self.names:
            for name in (each for each in groups if fnmatchcase(each, pattern)):
                stem, at, rest = name.partition("@")
                stem, below, way = stem.partition("_")
                marked = groups.get(f"{stem}{self.mark}{below}{way}{at}{rest}")
                if marked is not None:
                    both = (marked, groups[name])
                    rows.append((name, *(value(summarised(each)) for each in both)))
        return Shown(("measurement", *self.heads), tuple(rows))


@dataclass(frozen=True)
class Suffixes:
    """A row for each X of the measurements NAME@X of one cell, a column for each NAME."""

    of: tuple[str, ...]
    columns: tuple[str, ...]
    what: str

    def __call__(self, table: pd.DataFrame) -> Shown:
        """Return the numbers by what stands after the @."""
        rows: dict[str, dict[str, str]] = {}
        for name, group in finals(chosen(table, self.of)).groupby("measurement", sort=False):
            column, _, row = name.partition("@")
            if column in self.columns and row:
                rows.setdefault(row, {})[column] = value(summarised(group))
        words = [(row, *(of.get(name, "") for name in self.columns)) for row, of in rows.items()]
        return Shown((self.what, *self.columns), tuple(words))


@dataclass(frozen=True)
class Choice:
    """Some runs of a table, by patterns of their names such as grid_*/seed2.

    Of every run its last checkpoint is taken, or with `milestones` all of them.
    """

    runs: tuple[str, ...] = ("*",)
    without: tuple[str, ...] = ()
    milestones: bool = False

    def __contains__(self, run: str) -> bool:
        named = any(fnmatchcase(run, pattern) for pattern in self.runs)
        return named and not any(fnmatchcase(run, pattern) for pattern in self.without)

    def of(self, pairs: Mapping[str, Pairs]) -> list[Pairs]:
        """Return the checkpoints of each run that is chosen."""
        part = slice(None) if self.milestones else slice(-1, None)
        return [found[part] for run, found in pairs.items() if run in self]


@dataclass(frozen=True)
class Correlations:
    """Spearman's coefficient of a pair of measurements, a row for each choice of runs."""

    of: tuple[str, ...]
    pair: tuple[str, str]
    choices: Mapping[str, Choice]

    def __call__(self, table: pd.DataFrame) -> Shown:
        """Return the coefficients with their intervals, from resampling runs."""
        pairs = checkpoints(chosen(table, self.of), self.pair)
        rows = []
        for words, choice in self.choices.items():
            runs = choice.of(pairs)
            found = rank_correlation(runs)
            written = interval(found.value, found.low, found.high) if found else "undefined"
            rows.append((words, str(len(runs)), str(sum(map(len, runs))), written))
        return Shown(("checkpoints", "runs", "n", "Spearman"), tuple(rows))


def checkpoints(table: pd.DataFrame, pair: tuple[str, str]) -> dict[str, Pairs]:
    """Return two measurements at every milestone that has both and after training, by run.

    Runs come in the order of the table: another one would resample to another interval.
    """
    rows = table[table["measurement"].isin(pair)].fillna({"step": float("inf")})
    found: dict[str, Pairs] = {}
    for (cell, seed), mine in rows.groupby(["cell", "seed"], sort=False):
        wide = mine.pivot(index="step", columns="measurement", values="value")
        both = wide.reindex(columns=list(pair)).dropna().sort_index()
        if len(both):
            found[f"{cell}/seed{seed}"] = list(both.itertuples(index=False, name=None))
    return found


@dataclass(frozen=True)
class Papers:
    """What papers report, beside ours."""

    of: tuple[str, ...] = ()

    def __call__(self, table: pd.DataFrame) -> Shown:
        """Return a row for each published value of a cell that is on record."""
        key = ["study", "cell", "measurement"]
        mine = finals(chosen(table, self.of)).merge(published(), on=key, suffixes=("", "_paper"))
        rows = []
        for (study, cell, name), group in mine.groupby(key, sort=False):
            found, paper = summarised(group), group.iloc[0]
            whole = all(each == int(each) for each in found.values)
            ours = each_seed(found) if whole else value(found)
            words = (f"`{study}:{cell}`", name, number(paper["value_paper"]), ours)
            rows.append((*words, paper["grade"], paper["source_paper"]))
        head = ("cell", "measurement", "paper", "ours", "grade", "source")
        return Shown(head, tuple(rows))
