"""`recombine report`: every number in README and docs comes from a record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro
from matplotlib import rc_context
from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from recombine.commands.console import print_json, say
from recombine.commands.parse import UNSET
from recombine.figures import experiments_of, figures
from recombine.report.files import naming, write_text
from recombine.report.page import Section, Table, page
from recombine.report.record import Record
from recombine.report.table import PAPERS, Comparison, comparisons, duration, number, pasted, quoted

FIGURES = Path("docs/figures")


@dataclass(frozen=True)
class Options:
    """Paste the numbers of records into README.md and docs/, and redraw docs/figures/.

    Example: recombine report --check
    """

    records: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RECORD")] = ()
    """Records, or folders of them (default: results/ and those of the shipped weights)."""
    root: Path = Path(".")
    """The checkout whose pages are filled in."""
    page: Annotated[Path | None, UNSET] = None
    """Also write every record into this one HTML file."""
    check: bool = False
    """Write no table; exit with 1 when one would change."""
    json: bool = False
    """Print one JSON object and nothing else on standard output."""


def run(options: Options) -> int:
    """Fill in the tables, or with --check tell whether they are up to date."""
    records = found_records(options.records or default_places(options.root))
    changed = changed_pages(options.root, records)
    if not options.check:
        for path, text in changed.items():
            write_text(path, text)
        if (options.root / "README.md").exists():
            redraw(options.root / FIGURES, list(records.values()))
    if options.page is not None:
        write_text(options.page, records_page(records))
    announce(options, records, list(changed))
    return 1 if options.check and changed else 0


def default_places(root: Path) -> tuple[Path, ...]:
    """Return where a checkout keeps its records."""
    shipped = root / "src" / "recombine" / "zoo"
    return (root / "results", *[shipped] * shipped.exists())


def found_records(places: tuple[Path, ...]) -> dict[str, Record]:
    """Read the records at these places, by the name of their file."""
    records: dict[str, Record] = {}
    for place in places:
        if not place.exists():
            raise ValueError(f"{place} is not there; expected a record or a folder of records")
        inside = sorted(place.rglob("*.json")) if place.is_dir() else [place]
        for file in inside:
            if file.name == "experiment.json":
                continue
            if (name := record_name(file, place)) in records:
                raise ValueError(f"{file} is the second record named {name}; names must differ")
            records[name] = illustrated(Record.load(file))
    return records


def record_name(file: Path, place: Path) -> str:
    """Return what a record is called: its file, and the folder in which it lies with others.

    A run's record is called after its folders: experiment, variant, seed.
    """
    if file.name == "record.json":
        return "-".join(file.parts[-4:-1])
    return file.stem if file == place else file.relative_to(place).with_suffix("").as_posix()


def illustrated(record: Record) -> Record:
    """Return the record with the figure of its experiment, where there is one."""
    drawn = [name for name in figures() if is_of(record, (name,))]
    return replace(record, figure=str(FIGURES / f"{drawn[0]}.svg")) if drawn else record


def is_of(record: Record, experiments: Sequence[str]) -> bool:
    """Tell whether a record is of one of these experiments, run or asked of kept weights."""
    names = tuple(f"{name}:" for name in experiments)
    made = record.command.startswith(("recombine run ", "python benchmarks/asked.py "))
    return made and any(word.startswith(names) for word in record.command.split())


def redraw(folder: Path, records: Sequence[Record]) -> None:
    """Draw every figure that has records; the same records give the same file."""
    for name, draw in figures().items():
        mine = [record for record in records if is_of(record, experiments_of(name))]
        if mine:
            folder.mkdir(parents=True, exist_ok=True)
            with rc_context({"svg.hashsalt": name}):
                draw(mine).savefig(folder / f"{name}.svg", metadata={"Date": None})


def changed_pages(root: Path, records: Mapping[str, Record]) -> dict[Path, str]:
    """Return the pages whose text is not what the records say, with the text they should have."""
    changed = {}
    for path in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        if not path.exists():
            continue
        text = path.read_text(encoding="utf-8")
        with naming(path):
            filled = pasted(text, records, path.parent.relative_to(root))
        if filled != text:
            changed[path] = filled
    return changed


def records_page(records: Mapping[str, Record]) -> str:
    """Return one page with a section per record."""
    sections = [_section(name, record) for name, record in records.items()]
    return page("recombine: records", "Every measurement, with its interval and n.", sections)


def announce(options: Options, records: Mapping[str, Record], changed: list[Path]) -> None:
    """Say which pages changed, or would; unless that is all, print papers' numbers beside ours."""
    compared = comparisons(records.values())
    if options.json:
        told = {"records": len(records), "changed": [str(path) for path in changed]}
        print_json({"subject": "report", **told, "papers": [each.printed for each in compared]})
        return
    if compared and not options.check:
        Console().print(grid(compared))
    verb = "is out of date: run recombine report" if options.check else "updated"
    for path in changed:
        say(f"{path} {verb}")
    if not changed:
        say(f"every table agrees with the records ({len(records)})")


def grid(compared: Sequence[Comparison]) -> Grid:
    """Return the table of papers as a terminal shows it: a question once, above its numbers."""
    table = Grid(box=box.SIMPLE_HEAD)
    for name in PAPERS[1:]:
        table.add_column(name, overflow="fold")
    question = ""
    for each in compared:
        # As text: rich would take the brackets of an interval for its own marks.
        asked, *numbers = map(Text, each.row)
        if asked.plain != question:
            question = asked.plain
            table.add_row(Text(question, style="bold"), *[""] * (len(numbers) - 1))
        table.add_row(*numbers)
    return table


def _section(name: str, record: Record) -> Section:
    rows = tuple(
        (each, quoted(measured), "" if measured.paper is None else number(measured.paper))
        + (measured.grade or "", measured.verdict or "")
        for each, measured in record.measurements.items()
    )
    made = f"{name}, seed {record.seed}: {duration(record.seconds)} on {record.device}"
    head = ("measurement", "number", "paper", "grade", "verdict")
    return Section(record.question, made, record.command, table=Table(head, rows))
