"""`recombine report`: every number in README and docs comes from the results."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import tyro
from matplotlib import rc_context

from recombine import figures
from recombine.commands import index
from recombine.commands.console import print_json, say
from recombine.commands.grammar import UNSET, Json
from recombine.report.files import naming, write_text
from recombine.report.notebook import notebook
from recombine.report.page import Section, page
from recombine.report.paste import pasted
from recombine.report.queries import Numbers
from recombine.report.table import duration
from recombine.results.query import arrays, records, runs

FIGURES, INDEX = Path("docs/figures"), Path("src/recombine/commands/index.json")
TOUR = Path("docs/tour.md")
"""The page that is also written as a notebook, tour.ipynb beside it."""


@dataclass(frozen=True)
class ReportOptions:
    """Paste tables and numbers from the results into README.md and docs/, and redraw docs/figures/.

    docs/tour.md is also written as a notebook. With --page, write one page about any results
    instead, such as those of your own runs.

    Example: recombine report --check
    Example: recombine report runs --page runs.html
    """

    results: Annotated[
        Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="RESULTS", help_behavior_hint="")
    ] = None
    """A file of results, or a folder of them or of runs (default: results/ of the checkout)."""
    root: Path = Path(".")
    """The checkout whose pages are filled in."""
    page: Annotated[Path | None, UNSET] = None
    """Write every final number into this one HTML file, and touch no other."""
    check: bool = False
    """Write nothing; exit with 1 when a page would change."""
    json: Json = False


def run(options: ReportOptions) -> int:
    """Fill in pages and draw figures, or with --check tell whether pages are up to date."""
    place = options.results or options.root / "results"
    table = records(where=place)
    if options.page is not None:
        return write_page(options, options.page, table, place)
    changed = changed_pages(options.root, table)
    if not options.check:
        for path, text in changed.items():
            write_text(path, text)
        if (options.root / "README.md").exists():
            redraw(options.root / FIGURES, table, place)
        if (options.root / INDEX).exists():
            write_text(options.root / INDEX, index.text(what_there_is()))
    announce(options, len(table), list(changed))
    return 1 if options.check and changed else 0


def write_page(options: ReportOptions, path: Path, table: pd.DataFrame, place: Path) -> int:
    """Write the page of all numbers."""
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent} is no folder; expected one to write --page into")
    write_text(path, numbers_page(table, place))
    if options.json:
        print_json("report", {}, numbers=len(table), changed=[str(path)])
    else:
        say(f"{path} is written ({len(table):,} numbers)")
    return 0


def redraw(folder: Path, table: pd.DataFrame, place: Path) -> None:
    """Draw every figure whose study has results; the same results give the same file."""
    for name in figures.names():
        study = figures.study_of(name)
        mine = table[table["study"] == study]
        if len(mine):
            folder.mkdir(parents=True, exist_ok=True)
            with rc_context({"svg.hashsalt": name}):
                figure = figures.drawing(name)(mine, arrays(study, place))
                figure.savefig(folder / f"{name}.svg", metadata={"Date": None})


def what_there_is() -> dict[str, Any]:
    """Return what `recombine list` shows: worlds, studies and weights."""
    from recombine import studies, zoo  # here, as they import torch
    from recombine.worlds import WORLDS

    facts = {name: zoo.load(name).facts for name in zoo.names()}
    made = {
        name: f"recombine run {of['study']}:{of['cell']} --seed {of['seed']}"
        for name, of in facts.items()
    }
    known = {name: studies.load(name) for name in studies.names()}
    return index.indexed(WORLDS, known, made)


def changed_pages(root: Path, table: pd.DataFrame) -> dict[Path, str]:
    """Return the pages whose text is not what the results say, with the text they should have."""
    changed = {}
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        if not path.exists():
            continue
        text = path.read_text(encoding="utf-8")
        with naming(path):
            filled = pasted(text, table)
            made = notebook(filled) if path == root / TOUR else ""
        if filled != text:
            changed[path] = filled
        beside = path.with_suffix(".ipynb")
        if made and (not beside.exists() or beside.read_text(encoding="utf-8") != made):
            changed[beside] = made
    return changed


def numbers_page(table: pd.DataFrame, place: Path) -> str:
    """Return one page with a section per cell."""
    sections = [
        _section(table, str(study), str(cell), found)
        for (study, cell), found in runs(where=place).groupby(["study", "cell"], sort=False)
    ]
    return page("recombine: results", "Every number, with its interval and n.", sections)


def _section(table: pd.DataFrame, study: str, cell: str, found: pd.DataFrame) -> Section:
    shown = Numbers((f"{study}:{cell}",))(table)
    first = found.iloc[0]
    seeds = ", ".join(map(str, sorted(found["seed"])))
    made = f"seeds {seeds}; {duration(first['seconds'])} a seed on {first['device']}"
    name, command = f"{study}:{cell}", first["command"]
    return Section(name, made, command, head=shown.head, rows=shown.rows)


def announce(options: ReportOptions, numbers: int, changed: list[Path]) -> None:
    """Say which pages changed, or would."""
    if options.json:
        names = [str(path) for path in changed]
        print_json("report", {}, numbers=numbers, changed=names)
        return
    verb = "is not what the results say: run recombine report" if options.check else "updated"
    for path in changed:
        say(f"{path} {verb}")
    if not changed:
        say(f"every page agrees with the results ({numbers:,} numbers)")
