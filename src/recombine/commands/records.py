"""`recombine records`: the numbers on record, as a table to read or to compute with."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import pandas as pd
import tyro

from recombine import own
from recombine.commands.console import print_json, say, show_table
from recombine.commands.grammar import UNSET, Names
from recombine.report.queries import ByCell, Shown, finals, samples, value
from recombine.report.seeds import summarised
from recombine.report.table import latex
from recombine.report.words import listed, nearest
from recombine.results import keep, read
from recombine.results.query import arrays, records


@dataclass(frozen=True)
class RecordsOptions:
    """Print numbers on record: studies, the cells of one, or measurements over seeds.

    Example: recombine records length --measurement k_max,success@9
    """

    study: Annotated[
        str | None, tyro.conf.Positional, tyro.conf.arg(metavar="STUDY", help_behavior_hint="")
    ] = None
    """A study, such as length, or the file of yours that declares one (default: all)."""
    cell: Annotated[Names, UNSET] = ()
    """Cells, such as grid_all,grid_one*."""
    measurement: Annotated[Names, UNSET] = ()
    """Measurements, such as k_max,success@*."""
    where: Annotated[Path | None, UNSET] = None
    """A file of results or a folder of runs (default: results/ of the repository)."""
    csv: bool = False
    """Print every row, curves included, as CSV."""
    json: bool = False
    """Print every row, curves included, as one JSON object."""
    latex: bool = False
    """Print the table as LaTeX."""
    yaml: bool = False
    """Print every final number as YAML for a model hub: a model-index, with intervals and n."""
    parquet: Annotated[Path | None, UNSET] = None
    """Write every row, curves included, to this file of Parquet."""
    keep: Annotated[Path | None, UNSET] = None
    """Also copy what is at --where into this folder of results, a file a study."""


def run(options: RecordsOptions) -> None:
    """Print the rows that are wanted, or a table of them."""
    study = options.study and own.folder_of(options.study)
    table = records(study, options.where)
    table = matching(matching(table, "cell", options.cell), "measurement", options.measurement)
    if options.keep is not None:
        kept(options.where, study, options.keep)
    if options.csv:
        print(table.to_csv(index=False), end="")
    elif options.json:
        rows = table.astype(object).where(table.notna(), None).to_dict("records")
        print_json("records", {}, rows=rows)
    elif options.parquet is not None:
        try:
            table.to_parquet(options.parquet, index=False)
        except ImportError as error:
            message = "Parquet is written by pyarrow: pip install 'recombine[parquet]'"
            raise ImportError(message) from error
    elif options.yaml:
        print(as_yaml(table), end="")
    elif options.latex:
        shown = overview(table, options)
        print(latex(shown.head, shown.rows))
    else:
        shown = overview(table, options)
        show_table(shown.head, [[cell.replace("`", "") for cell in row] for row in shown.rows])
        if shown.note:
            say(shown.note)


def as_yaml(table: pd.DataFrame) -> str:
    """Return the final numbers for a model hub; a study that is not here has an unknown world."""
    from recombine.commands import index  # here, as only hubs need them
    from recombine.report import hub

    known = index.read()["studies"]
    about = {}
    for study, cell in table[["study", "cell"]].drop_duplicates().itertuples(index=False):
        of = known.get(study, {"question": study, "worlds": {}})
        about[study, cell] = hub.Task(study, of["question"], of["worlds"].get(cell, "unknown"))
    return hub.model_index(table, about)


def matching(table: pd.DataFrame, column: str, names: Sequence[str]) -> pd.DataFrame:
    """Return the rows of these names, which may hold *; or say which there are."""
    if not names:
        return table
    known = [str(each) for each in table[column].unique()]
    found: list[str] = []
    for name in names:
        mine = [each for each in known if fnmatchcase(each, name)]
        if not mine:
            expected = f"expected one of {listed(known)}{nearest(name, known)}"
            raise ValueError(f"{column} {name!r} is not on record; {expected}")
        found += [each for each in mine if each not in found]
    mine = table[table[column].isin(found)]
    # Stable, so that cells and seeds stay in order.
    order = mine[column].map(found.index)
    return mine.loc[order.sort_values(kind="stable").index]


def overview(table: pd.DataFrame, options: RecordsOptions) -> Shown:
    """Return studies, the cells of one, its measurements a column each, or those of cells as rows.

    It depends on how much is said: all numbers of a study would be thousands of rows.
    """
    if options.measurement:
        names = tuple(dict.fromkeys(finals(table)["measurement"]))
        return ByCell(tuple(table["study"].unique()), names)(table)
    if options.cell:
        return each_number(table)
    return studies(table) if options.study is None else cells(table)


def each_number(table: pd.DataFrame) -> Shown:
    """Return a row a final number, summed up over seeds."""
    rows = []
    for (cell, name), group in finals(table).groupby(["cell", "measurement"], sort=False):
        found = summarised(group)
        rows.append((cell, name, value(found), str(found.seeds), samples(found.samples)))
    return Shown(("cell", "measurement", "value [95 % interval]", "seeds", "n"), tuple(rows))


def studies(table: pd.DataFrame) -> Shown:
    """Return a row a study."""
    rows = []
    for study, group in table.groupby("study", sort=False):
        counts = (group["cell"].nunique(), len(group[["cell", "seed"]].drop_duplicates()))
        rows.append((str(study), *(f"{count:,}" for count in (*counts, len(group)))))
    return Shown(("study", "cells", "runs", "numbers"), tuple(rows))


def cells(table: pd.DataFrame) -> Shown:
    """Return a row a cell of a study, and the names of what is measured."""
    rows = []
    for cell, group in table.groupby("cell", sort=False):
        seeds = ", ".join(str(each) for each in sorted(group["seed"].unique()))
        rows.append((str(cell), seeds, group["device"].iloc[0], f"{len(group):,}"))
    names = dict.fromkeys(name.partition("@")[0] for name in finals(table)["measurement"])
    note = f"Measured: {', '.join(names)}. Choose with --measurement or --cell."
    return Shown(("cell", "seeds", "device", "numbers"), tuple(rows), note)


def kept(where: Path | None, study: str | None, folder: Path) -> None:
    """Copy results of runs, with their arrays, into a folder of one file a study."""
    if where is None:
        raise ValueError("--keep copies the results of runs: say with --where where they are")
    found = [each for each in read(where) if study in (None, each.origin.study)]
    for name in dict.fromkeys(each.origin.study for each in found):
        mine = [each for each in found if each.origin.study == name]
        for path in keep(mine, folder, arrays(name, where)):
            say(f"{path}: {len(mine)} runs")
