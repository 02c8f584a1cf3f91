"""What a command says: results on standard output, messages and progress on standard error."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from recombine.measurement import Measurement, Number
from recombine.report.table import duration


def say(message: str) -> None:
    """Write a message that is not a result."""
    print(message, file=sys.stderr, flush=True)


LONG = 20
"""What may take longer than so many seconds says so before it starts."""


def tell_time(seconds: float, what: str = "this") -> None:
    """Say how long something is going to take, where that is long."""
    if seconds >= LONG:
        say(f"{what} takes about {duration(seconds)} here, by a short warm-up")


def tell_time_of(things: int, work: Callable[[int], object], what: str) -> None:
    """Do the work on two of many things, and say how long all of them take."""
    few = 2
    if things < 4 * few:
        return
    work(few)  # what is slow the first time only
    started = time.perf_counter()
    work(few)
    tell_time((time.perf_counter() - started) / few * things, what)


def print_json(subject: str, measured: Mapping[str, Measurement], **others: Any) -> None:
    """Print one JSON object on standard output: what it is about, numbers, and more.

    docs/json.md says which keys the others are.
    """
    values = {name: each.printed for name, each in measured.items()}
    result = {"subject": subject, "measurements": values, **others}
    print(json.dumps(result, indent=2, allow_nan=False), flush=True)


def show_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None
) -> None:
    """Print a table; what stands in it is text, not marks of rich."""
    table = Table(title=title or None, title_justify="left", box=SIMPLE_HEAD)
    for number, name in enumerate(head):
        table.add_column(name, overflow="fold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)


@contextmanager
def bar(hidden: bool = False) -> Iterator[Progress]:
    """Show progress on standard error, with a column for the speed; none without a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    hidden = hidden or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        yield progress


@contextmanager
def image_progress(what: str) -> Iterator[Callable[[Number, int], None]]:
    """Show a bar; call what it yields with the images made and their total. It may start anew."""
    with bar() as progress:
        task = progress.add_task(what, total=None, speed="")
        started = time.perf_counter()

        def watch(made: Number, total: int) -> None:
            nonlocal started
            if made < progress.tasks[task].completed:
                progress.reset(task)
                started = time.perf_counter()
            speed = f"{made / (time.perf_counter() - started):,.1f} images/s"
            progress.update(task, completed=made, total=total, speed=speed)

        yield watch
