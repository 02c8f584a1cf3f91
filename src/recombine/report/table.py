"""Tables of Markdown made from records, and pasted into pages between markers.

A page says `<!-- table:NAME -->` and `<!-- /table -->`; what stands between them is replaced.
NAME is `findings` (every question, one row each, but for records in a folder of their own),
`findings:RECORD,...` (only the questions of these, in this order, with all their seeds),
`papers` or `papers:RECORD,...` (what a paper reports, beside ours, or beside these alone),
`measurements:RECORD` or `measurements:RECORD:MEASUREMENT,...` (one record, whole or in part),
`compared:RECORD,...:MEASUREMENT,...` (a row per record),
`seeds:RECORD,...:MEASUREMENT,...` (a row per variant, with all its seeds and their mean),
`paired:RECORD,...:MEASUREMENT,...` (what a second variant has more than a first, seed by seed) or
`correlated:RECORD,...:MEASUREMENT,MEASUREMENT` (over the checkpoints of these runs).
In tables of several records, a RECORD with a * stands for all that match it.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePath
from statistics import fmean

from recombine.measurement import Measurement, Number, student_t
from recombine.report.correlation import Pairs, rank_correlation
from recombine.report.record import Record
from recombine.report.words import listed, nearest

_MARKER = re.compile(r"^<!-- (?:table:(?P<name>\S+)|(?P<end>/table)) -->$")
_FINDINGS = ("question", "command", "time", "number", "figure")
PAPERS = ("question", "measurement", "paper", "grade", "ours", "verdict")
_MEASUREMENTS = ("measurement", "value", "95 % interval", "n", "paper", "grade", "verdict")


def number(value: Number) -> str:
    """Write a number with three digits that count: 0.0123, 4.57, 89, 12,346."""
    # 99.95 would round to 100, which the other form writes.
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def duration(seconds: Number) -> str:
    """Write a time the way one says it: 0.4 s, 45 s, 12 min, 3.5 h."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def quoted(measured: Measurement) -> str:
    """Write a measurement with its interval and n: 0.93 [0.9, 0.96], n = 500."""
    return f"{_value(measured)}, n = {measured.n:,}"


def over_seeds(runs: Sequence[Measurement]) -> str:
    """Write one measurement of several seeds: Student's interval, then that of the first seed.

    Listed are whole numbers, as 7.5 is not a count, two seeds, as an interval from two values says
    little, and seeds whose interval cannot be right: without width, or beyond the ends of a share.
    """
    values = [run.value for run in runs]
    if len(runs) > 2 and not all(isinstance(value, int) for value in values):
        low, high = student_t(values)
        if low < high and (_in_unit(low, high) or not all(map(_is_share, runs))):
            mean = f"{number(fmean(values))}{_interval(low, high)}"
            return f"{mean} over {len(runs)} seeds (first seed: {quoted(runs[0])})"
    samples = dict.fromkeys(f"{run.n:,}" for run in runs)
    return f"{', '.join(map(_value, runs))}, n = {' and '.join(samples)}"


@dataclass(frozen=True)
class Comparison:
    """A measurement that a paper reports too, as the runs of one question have it."""

    question: str
    measurement: str
    seeds: tuple[int, ...]
    ours: tuple[Measurement, ...]

    @property
    def row(self) -> list[str]:
        """What a table says of it, in the order of PAPERS."""
        first = self.ours[0]
        paper = "" if first.paper is None else number(first.paper)
        words = [self.question, self.measurement, paper, first.grade or ""]
        return [*words, over_seeds(self.ours), self._verdict]

    @property
    def printed(self) -> dict[str, object]:
        """What the command line prints of it."""
        ours = [
            {"seed": seed, **run.printed, "verdict": run.verdict}
            for seed, run in zip(self.seeds, self.ours, strict=True)
        ]
        named = {"question": self.question, "measurement": self.measurement}
        return {**named, "paper": self.ours[0].paper, "grade": self.ours[0].grade, "ours": ours}

    @property
    def _verdict(self) -> str:
        """Each verdict once, with its seeds where they disagree."""
        seeds: dict[str, list[str]] = {}
        for seed, run in zip(self.seeds, self.ours, strict=True):
            seeds.setdefault(run.verdict or "no verdict", []).append(str(seed))
        if len(seeds) == 1:
            return self.ours[0].verdict or ""
        return "; ".join(f"{words} (seed {', '.join(of)})" for words, of in seeds.items())


def comparisons(records: Iterable[Record]) -> list[Comparison]:
    """Return every measurement that a paper reports too, question by question."""
    found = []
    for runs in _by_question(records):
        names = dict.fromkeys(name for run in runs for name in run.measurements)
        for name in names:
            mine = [
                (run.seed, measured)
                for run in runs
                if (measured := run.measurements.get(name)) and measured.paper is not None
            ]
            if mine:
                found.append(Comparison(runs[0].question, name, *zip(*mine, strict=True)))
    return found


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a bar or a line break inside a cell does not end it."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def findings(records: Sequence[Record], beside: PurePath) -> str:
    """Return one row per question; the runs of a question differ in their seed only."""
    return markdown(_FINDINGS, [_finding(runs, beside) for runs in _by_question(records)])


def papers(records: Iterable[Record]) -> str:
    """Return what papers report beside what we measure."""
    return markdown(PAPERS, [each.row for each in comparisons(records)])


def measurements(record: Record, names: Iterable[str] | None = None) -> str:
    """Return every measurement of a record, or these, beside the paper's value."""
    asked = record.measurements if names is None else names
    return markdown(_MEASUREMENTS, [_row(name, record.measurements[name]) for name in asked])


def variant(record: Record) -> str:
    """Return what was run; what was overridden stays in the name, as a longer run is another."""
    return record.command.split(":", 1)[-1].rsplit(" --seed", 1)[0]


def compared(runs: Sequence[Record], names: Sequence[str]) -> str:
    """Return a row per run and a column per measurement, empty where a run does not have it."""
    head = ["variant", "seed", *names]
    rows = [
        [variant(run), str(run.seed), *(_value(run.measurements.get(name)) for name in names)]
        for run in runs
    ]
    return f"{markdown(head, rows)}\n\n{_counts(runs, names)}; in brackets, 95 % intervals."


def _counts(runs: Sequence[Record], names: Sequence[str]) -> str:
    """Return what n each measurement has: n = 64 (`accuracy`), 192 (`loss`)."""
    of: dict[str, list[str]] = {}
    for name in names:
        counts = dict.fromkeys(f"{run.measurements[name].n:,}" for run in _having(name, runs))
        of.setdefault(" and ".join(counts), []).append(f"`{name}`")
    said = [f"{n} ({', '.join(which)})" if len(of) > 1 else n for n, which in of.items()]
    return f"n = {', '.join(said)}"


def paired(runs: Sequence[Record], names: Sequence[str]) -> str:
    """Return what a second variant has more than the first: its runs beside those of one seed.

    Two seeds are listed; of three or more the mean is told, with Student's interval.
    """
    by: dict[str, dict[int, Record]] = {}
    for run in runs:
        by.setdefault(variant(run), {})[run.seed] = run
    if len(by) != 2 or len({frozenset(seeds) for seeds in by.values()}) != 1:
        found = ", ".join(f"{name} seed {run.seed}" for name in by for run in by[name].values())
        raise ValueError(f"pairs are of two variants with the same seeds; got {found}")
    first, second = by.values()
    rows = []
    for name in names:
        if len(_having(name, runs)) < len(runs):
            raise ValueError(f"{name!r} is not measured in every run of the pairs")
        pairs = [[of[seed].measurements[name] for of in (first, second)] for seed in first]
        more = [b.value - a.value for a, b in pairs]
        mean = f"{number(fmean(more))}{_interval(*student_t(more))}" if len(more) > 2 else ""
        alone = [_listed(each) for each in zip(*pairs, strict=True)]
        rows.append([name, *alone, ", ".join(map(number, more)), mean])
    seeds = ", ".join(map(str, first))
    return markdown((f"seeds {seeds}", *by, "difference", "mean difference"), rows)


def seeds(runs: Sequence[Record], names: Sequence[str]) -> str:
    """Return a row per variant: each measurement in its seeds, and the mean of three or more."""
    by: dict[str, dict[int, Record]] = {}
    for run in runs:
        mine = by.setdefault(variant(run), {})
        if run.seed in mine:
            both = " and ".join(f"`{each.command}`" for each in (mine[run.seed], run))
            raise ValueError(f"a row has one run of a seed; got {both}")
        mine[run.seed] = run
    rows = []
    for name, mine in by.items():
        ordered = [mine[seed] for seed in sorted(mine)]
        cells = [_listed([run.measurements.get(each) for run in ordered]) for each in names]
        rows.append([name, ", ".join(str(run.seed) for run in ordered), *cells])
    return f"{markdown(('variant', 'seeds', *names), rows)}\n\n{_counts(runs, names)}."


def _listed(runs: Sequence[Measurement | None]) -> str:
    """Return the numbers of these runs, a dash for one without, and the mean of three or more."""
    values = [run.value for run in runs if run is not None]
    if not values:
        return ""
    listed = ", ".join("-" if run is None else number(run.value) for run in runs)
    return f"{listed} (mean {number(fmean(values))})" if len(values) > 2 else listed


def checkpoints(run: Record, names: Sequence[str]) -> list[tuple[Number, Number]]:
    """Return two measurements at every milestone that has both, and at the end of training."""
    early, late = (dict(run.curves.get(name, [])) for name in names)
    pairs = [(early[step], late[step]) for step in sorted(early.keys() & late.keys())]
    end = [run.measurements.get(name) for name in names]
    if end[0] is not None and end[1] is not None:
        pairs.append((end[0].value, end[1].value))
    return pairs


def correlation(
    runs: Iterable[Record], names: Sequence[str], part: slice = slice(None)
) -> Measurement | None:
    """Return the rank correlation of two measurements over checkpoints, or a part of each run's.

    The runs may come in any order: the bootstrap would not give the same interval for another.
    """
    ordered = sorted(runs, key=lambda run: (run.command, run.seed))
    found: list[Pairs] = [checkpoints(run, names)[part] for run in ordered]
    return rank_correlation(found)


def correlated(runs: Sequence[Record], names: Sequence[str]) -> str:
    """Return how the order of one measurement tells that of the other, over training and after."""
    if len(names) != 2:
        raise ValueError(f"two measurements are correlated; got {', '.join(names)}")
    counted = [run for run in runs if checkpoints(run, names)]
    size = [str(len({variant(run) for run in counted})), str(len(counted))]
    rows = []
    for words, part in (("all", slice(None)), ("the last of each run", slice(-1, None))):
        found = correlation(runs, names, part)
        n = "" if found is None else f"{found.n:,}"
        rows.append([words, *size, n, _value(found) or "undefined"])
    return markdown(("checkpoints", "models", "runs", "n", "Spearman"), rows)


_OF_RUNS = {"compared": compared, "seeds": seeds, "paired": paired, "correlated": correlated}
"""Tables of some measurements of some runs."""


def pasted(text: str, records: Mapping[str, Record], beside: PurePath) -> str:
    """Return a page with every marked table filled in; `beside` is the page's own folder."""
    lines: list[str] = []
    opened: str | None = None
    for line in text.splitlines():
        marker = _MARKER.match(line.strip())
        if marker and bool(marker["end"]) == (opened is None):
            met = "a table ends" if marker["end"] else f"table {marker['name']} begins"
            where = f"inside table {opened}" if opened else "outside a table"
            raise ValueError(f"{met} {where}; expected pairs of table:NAME and /table")
        if marker or opened is None:
            lines.append(line)
        if marker:
            opened = marker["name"]
        if marker and opened:
            lines += ["", _table(opened, records, beside), ""]
    if opened:
        raise ValueError(f"table {opened} does not end; expected <!-- /table -->")
    return "\n".join(lines) + ("\n" if text.endswith("\n") else "")


def _table(name: str, records: Mapping[str, Record], beside: PurePath) -> str:
    kind, _, subject = name.partition(":")
    if kind == "findings":
        every = [each for at, each in records.items() if "/" not in at]
        asked = dict.fromkeys(each.question for each in _named(subject, records)) if subject else {}
        chosen = [[each for each in every if each.question == question] for question in asked]
        return findings([*chain(*chosen)] if asked else every, beside)
    if kind == "papers":
        return papers(_named(subject, records) if subject else records.values())
    if kind == "measurements" and subject in records:
        return measurements(records[subject])
    if kind == "measurements" and subject.partition(":")[0] in records:
        (record,), names = _chosen(subject, records)
        return measurements(record, names)
    if kind in _OF_RUNS:
        return _OF_RUNS[kind](*_chosen(subject, records))
    known = ", ".join(["findings", "papers", *(f"measurements:{each}" for each in records)])
    raise ValueError(f"table {name!r} is not known; expected one of {known}")


def _chosen(subject: str, records: Mapping[str, Record]) -> tuple[list[Record], list[str]]:
    """Return the records and the measurements of RECORD,...:MEASUREMENT,... where all are known."""
    which, _, measured = subject.partition(":")
    runs, names = _named(which, records), measured.split(",")
    for name in names:
        if not _having(name, runs):
            found = dict.fromkeys(each for run in runs for each in run.measurements)
            known = ", ".join(each for each in found if "@" not in each)
            raise ValueError(f"{name!r} is measured in none of {which}; measured there: {known}")
    return runs, names


def _named(which: str, records: Mapping[str, Record]) -> list[Record]:
    """Return the records of these names, in this order, each once."""
    named: dict[str, Record] = {}
    for each in which.split(","):
        found = sorted(at for at in records if at == each or ("*" in each and _matches(at, each)))
        if not found:
            meant = nearest(each, [*records])
            raise ValueError(
                f"record {each!r} is not known; expected one of {listed(records)}{meant}"
            )
        named |= {at: records[at] for at in found}
    return [*named.values()]


def _matches(at: str, pattern: str) -> bool:
    """Tell whether a name is this, with anything but a folder for every star."""
    return re.fullmatch("[^/]*".join(map(re.escape, pattern.split("*"))), at) is not None


def _having(name: str, runs: Iterable[Record]) -> list[Record]:
    return [run for run in runs if name in run.measurements]


def _in_unit(low: Number, high: Number) -> bool:
    return low >= 0 and high <= 1


def _is_share(measured: Measurement) -> bool:
    """Tell whether this looks like a share of something: it and its interval are from 0 to 1."""
    ends = (measured.low, measured.high)
    return _in_unit(measured.value, measured.value) and all(
        end is None or 0 <= end <= 1 for end in ends
    )


def _value(measured: Measurement | None) -> str:
    if measured is None:
        return ""
    return f"{number(measured.value)}{_interval(measured.low, measured.high)}"


def _by_question(records: Iterable[Record]) -> list[list[Record]]:
    questions: dict[str, list[Record]] = {}
    for record in records:
        questions.setdefault(record.question, []).append(record)
    return [sorted(runs, key=lambda run: run.seed) for runs in questions.values()]


def _finding(runs: Sequence[Record], beside: PurePath) -> list[str]:
    first = runs[0]
    answers = [
        f"{name} {over_seeds([run.measurements[name] for run in runs if name in run.measurements])}"
        for name in first.headline
    ]
    times: dict[str, list[Number]] = {}
    for run in runs:
        times.setdefault(run.device, []).append(run.seconds)
    return [
        first.question,
        f"`{first.command}`",
        ", ".join(duration(fmean(each)) for each in times.values()),
        "; ".join(answers) + f" ({', '.join(times)})",
        f"[figure]({os.path.relpath(first.figure, beside)})" if first.figure else "",
    ]


def _row(name: str, measured: Measurement) -> list[str]:
    paper = "" if measured.paper is None else number(measured.paper)
    interval = _interval(measured.low, measured.high).strip()
    remarks = [paper, measured.grade or "", measured.verdict or ""]
    return [name, number(measured.value), interval, f"{measured.n:,}", *remarks]


def _interval(low: Number | None, high: Number | None) -> str:
    return "" if low is None or high is None else f" [{number(low)}, {number(high)}]"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
