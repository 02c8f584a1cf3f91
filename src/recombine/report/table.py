"""Numbers as they are read, and tables of Markdown."""

from collections.abc import Iterable, Sequence

from recombine.measurement import Measurement, Number


def number(value: Number) -> str:
    """Write a number with three digits that count: 0.0123, 4.57, 89, 12,346."""
    # 99.95 would round to 100, which the other form writes.
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def interval(value: Number, low: Number | None, high: Number | None) -> str:
    """Write a number with its interval, where it has one: 0.93 [0.9, 0.96]."""
    ends = "" if low is None or high is None else f" [{number(low)}, {number(high)}]"
    return number(value) + ends


def duration(seconds: Number) -> str:
    """Write a time the way one says it: 0.4 s, 45 s, 12 min, 3.5 h, 2.5 days."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"


def quoted(measured: Measurement) -> str:
    """Write a measurement with its interval and n: 0.93 [0.9, 0.96], n = 500."""
    return f"{interval(measured.value, measured.low, measured.high)}, n = {measured.n:,}"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a bar or a line break inside a cell does not end it."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def latex(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table for LaTeX with the package booktabs."""
    lines = [" & ".join(map(_escaped, line)) + r" \\" for line in (head, *rows)]
    body = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
    begin, end = rf"\begin{{tabular}}{{{'l' * len(head)}}}", r"\end{tabular}"
    return "\n".join([begin, *body, end])


def _escaped(text: str) -> str:
    plain = text.replace("`", "").replace("\\", r"\textbackslash ")
    return "".join(f"\\{letter}" if letter in "_%&#${}" else letter for letter in plain)
