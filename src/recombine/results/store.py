"""Results as text: a file holds runs of one study, a line of JSON each, and their rows as CSV.

The lines of JSON begin with #, so that whatever reads CSV can skip them. The first one has the
version of the format. Arrays, such as heat maps, lie beside the text as safetensors.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save

from recombine.measurement import Number
from recombine.report.files import naming, write_bytes, write_text
from recombine.results.rows import Origin, Results, Row

SCHEMA = 1
"""The version of the format."""
NAME = "results.csv"
"""What the file in the folder of a run is called."""
COLUMNS = ("run", "step", "measurement", "value", "low", "high", "n", "reader")
_MARK = "recombine results"


def write(found: Results, folder: Path, arrays: Mapping[str, Any] | None = None) -> Path:
    """Write the results of a run into its folder, the file of rows last and whole."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    kept = {f"{found.origin.run}/{name}": array for name, array in (arrays or {}).items()}
    _write_arrays(path.with_suffix(".safetensors"), kept)
    write_text(path, text([found]))
    return path


def keep(
    found: Iterable[Results], folder: Path, arrays: Mapping[str, np.ndarray] = MappingProxyType({})
) -> list[Path]:
    """Add runs to the files of a folder, one file a study, in the place of the same runs there.

    Arrays are named RUN/NAME, such as grid_all/seed0/heat_map, and belong to one study.
    """
    studies: dict[str, dict[str, Results]] = {}
    for each in found:
        studies.setdefault(each.origin.study, {})[each.origin.run] = each
    for study, new in studies.items():
        path = folder / f"{study}.csv"
        old = {each.origin.run: each for each in read(path)} if path.exists() else {}
        stored = folder / "arrays" / f"{study}.safetensors"
        kept = load_file(stored) if stored.exists() else {}
        kept = {name: array for name, array in kept.items() if name.rpartition("/")[0] not in new}
        added = {name: each for name, each in arrays.items() if name.rpartition("/")[0] in new}
        _write_arrays(stored, {**kept, **added})
        folder.mkdir(parents=True, exist_ok=True)
        write_text(path, text([*{**old, **new}.values()]))
    return [folder / f"{study}.csv" for study in studies]


def _write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    if not arrays:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, save({name: np.ascontiguousarray(each) for name, each in arrays.items()}))


def text(found: Iterable[Results]) -> str:
    """Return runs of one study as the text of a file."""
    every = list(found)
    if len({each.origin.study for each in every}) != 1:
        raise ValueError("a file of results has the runs of one study")
    lines = [{_MARK: SCHEMA, "study": every[0].origin.study}]
    for number, each in enumerate(every):
        described = {name: value for name, value in asdict(each.origin).items() if name != "study"}
        lines.append({"run": number, "rows": len(each.rows), **described})
    head = "".join(f"# {json.dumps(line, allow_nan=False, ensure_ascii=False)}\n" for line in lines)
    buffer = io.StringIO()
    out = csv.writer(buffer, lineterminator="\n")
    out.writerow(COLUMNS)
    for number, each in enumerate(every):
        # Numbers get as many digits as are needed to read the same ones again.
        out.writerows([number, *(getattr(row, name) for name in COLUMNS[1:])] for row in each.rows)
    return head + buffer.getvalue()


def read(path: Path) -> list[Results]:
    """Read a file of results, or all in a folder; or say in one line what is wrong."""
    if path.is_dir():
        return [each for file in files(path) for each in read(file)]
    with naming(path):
        try:
            written = path.read_text(encoding="utf-8")
        except OSError as error:
            raise ValueError(f"cannot be read: {error.strerror}") from error
        return list(parsed(written))


def files(folder: Path) -> list[Path]:
    """Return the files of results in a folder: its own, one a study, and those of runs below."""
    return sorted({*folder.glob("*.csv"), *folder.rglob(NAME)})


def parsed(written: str) -> Iterator[Results]:
    """Yield the runs of a file; nothing of it is trusted."""
    lines = written.splitlines()
    commented = [line[1:] for line in lines if line.startswith("#")]
    try:
        head, *runs = [json.loads(line) for line in commented]
        version = int(head[_MARK])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError("is not a file of results: its first line has no version") from error
    if version != SCHEMA:
        raise ValueError(f"has version {version}; this recombine reads version {SCHEMA}")
    table = csv.reader(lines[len(commented) :])
    columns = tuple(next(table, ()))
    if set(columns) != set(COLUMNS):
        found = ", ".join(columns)
        raise ValueError(f"has the columns {found}; expected {', '.join(COLUMNS)}")
    if not runs:
        raise ValueError("is not whole: it describes no run")
    rows: dict[str, list[Row]] = {}
    for number, cells in enumerate(table, start=len(commented) + 2):
        if len(cells) != len(columns):
            raise ValueError(f"line {number} has {len(cells)} values instead of {len(columns)}")
        named = dict(zip(columns, cells, strict=True))
        rows.setdefault(named["run"], []).append(_row(named))
    for described in runs:
        mine = rows.pop(str(described.get("run")), [])
        if len(mine) != described.get("rows"):
            raise ValueError(f"is not whole: it has {len(mine)} rows of {described}")
        yield Results(_origin({"study": head.get("study"), **described}), tuple(mine))
    if rows:
        raise ValueError(f"has rows of the runs {', '.join(rows)}, which it does not describe")


def _row(cells: Mapping[str, str]) -> Row:
    try:
        value, low, high, step = (_number(cells[name]) for name in ("value", "low", "high", "step"))
        n = int(cells["n"]) if cells["n"] else None
    except ValueError as error:
        raise ValueError(f"has a row that is not of numbers: {error} in {dict(cells)}") from error
    if value is None:
        raise ValueError(f"has a row without a value: {dict(cells)}")
    return Row(cells["measurement"], value, low, high, n, step, cells["reader"])


def _number(cell: str) -> Number | None:
    if not cell:
        return None
    try:
        return int(cell)
    except ValueError:
        return float(cell)


def _origin(described: Mapping[str, Any]) -> Origin:
    known = [each.name for each in fields(Origin)]
    if missing := sorted({*known} - described.keys()):
        raise ValueError(f"does not say the {', '.join(missing)} of {described}")
    values = {name: described[name] for name in known}
    return Origin(**values | {"notes": tuple(values["notes"])})
