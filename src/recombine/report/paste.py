"""Numbers pasted into pages, so that none can differ from what is on record.

A table stands between the lines <!-- table: NAME --> and <!-- /table -->, a number of the text
between <!-- number: STUDY:CELL:MEASUREMENT --> and <!-- / -->. After a comma the marker says how
the number is written: `interval`, `percent`, `seeds` (that of every seed), `seed2` (of this one).
"""

import re
from collections.abc import Callable

import pandas as pd

from recombine.report.queries import Shown, each_seed, finals, value
from recombine.report.seeds import Summary, summarised
from recombine.report.table import markdown, number
from recombine.report.templates import TEMPLATES
from recombine.report.words import listed, nearest

_TABLE = re.compile(r"^<!-- (?:table: (?P<name>\S+)|(?P<end>/table)) -->$")
_NUMBER = re.compile(r"(<!-- number: ([^>\n]*?)(?:, (\w+))? -->)([^<\n]*)(<!-- / -->)?")
_FORMATS: dict[str, Callable[[Summary], str]] = {
    "interval": value,
    "percent": lambda found: f"{100 * found.value:.0f} %",
    "seeds": each_seed,
}


def pasted(text: str, table: pd.DataFrame) -> str:
    """Return a page with every marked table and number filled in."""
    lines: list[str] = []
    opened: str | None = None
    for line in text.splitlines():
        marker = _TABLE.match(line.strip())
        if marker and bool(marker["end"]) == (opened is None):
            met = "a table ends" if marker["end"] else f"table {marker['name']} begins"
            where = f"inside table {opened}" if opened else "outside a table"
            raise ValueError(f"{met} {where}; expected pairs of table: NAME and /table")
        if marker or opened is None:
            lines.append(_with_numbers(line, table))
        if marker:
            opened = marker["name"]
        if marker and opened:
            lines += ["", written(filled(opened, table)), ""]
    if opened:
        raise ValueError(f"table {opened} does not end; expected <!-- /table -->")
    return "\n".join(lines) + ("\n" if text.endswith("\n") else "")


def filled(name: str, table: pd.DataFrame) -> Shown:
    """Return the table of this name, filled in from results."""
    if name not in TEMPLATES:
        known = f"expected one of {listed(TEMPLATES, 40)}{nearest(name, list(TEMPLATES))}"
        raise ValueError(f"table {name!r} is not known; {known}")
    return TEMPLATES[name](table)


def written(shown: Shown) -> str:
    """Return a table as Markdown, with its note."""
    if not shown.rows:
        return "Nothing is on record yet."
    note = f"\n\n{shown.note}" if shown.note else ""
    return markdown(shown.head, shown.rows) + note


def _with_numbers(line: str, table: pd.DataFrame) -> str:
    def replaced(marker: re.Match[str]) -> str:
        begin, name, form, _, end = marker.groups()
        if not end:
            raise ValueError(f"the number {name} does not end; expected <!-- / -->")
        return f"{begin}{written_number(name, form, table)}{end}"

    return _NUMBER.sub(replaced, line)


def written_number(name: str, form: str | None, table: pd.DataFrame) -> str:
    """Return one number after training as the text has it: STUDY:CELL:MEASUREMENT."""
    mine = finals(table)
    words = name.split(":")
    for column, word in zip(("study", "cell", "measurement"), words, strict=False):
        known = [str(each) for each in mine[column].unique()]
        if word not in known:
            expected = f"expected one of {listed(known)}{nearest(word, known)}"
            raise ValueError(f"number {name}: {word!r} is not on record; {expected}")
        mine = mine[mine[column] == word]
    if len(words) != 3:
        raise ValueError(f"a number is named STUDY:CELL:MEASUREMENT; got {name!r}")
    if form and (seed := re.fullmatch(r"seed(\d+)", form)):
        mine, form = mine[mine["seed"] == int(seed[1])], None
        if mine.empty:
            raise ValueError(f"number {name}: seed {seed[1]} is not on record")
    found = summarised(mine)
    if form is None:
        return number(found.value)
    if form in _FORMATS:
        return _FORMATS[form](found)
    raise ValueError(f"number {name}: {form!r} is not one of {', '.join(_FORMATS)}, seed0")
