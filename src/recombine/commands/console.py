"""What a command says: results on standard output, messages and progress on standard error."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def say(message: str) -> None:
    """Write a message that is not a result."""
    print(message, file=sys.stderr, flush=True)


def print_json(result: Mapping[str, Any]) -> None:
    """Print one JSON object on standard output."""
    print(json.dumps(result, indent=2, allow_nan=False), flush=True)


@contextmanager
def bar(quiet: bool = False) -> Iterator[Progress]:
    """Show progress on standard error, with a column for the speed; none without a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    hidden = quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        yield progress


@contextmanager
def image_progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar with images per second; call what it yields with each number of new images."""
    with bar() as progress:
        task = progress.add_task(what, total=total, speed="")
        started = time.perf_counter()
        made = 0

        def advance(images: int) -> None:
            nonlocal made
            made += images
            speed = f"{made / (time.perf_counter() - started):,.0f} images/s"
            progress.update(task, completed=made, speed=speed)

        yield advance


@contextmanager
def drawing(what: str) -> Iterator[Callable[[float, int], None]]:
    """Show a bar; call what it yields with the images drawn and their total. It may start anew."""
    with bar() as progress:
        task = progress.add_task(what, total=None, speed="")
        started = time.perf_counter()

        def watch(drawn: float, total: int) -> None:
            nonlocal started
            if drawn < progress.tasks[task].completed:
                progress.reset(task)
                started = time.perf_counter()
            speed = f"{drawn / (time.perf_counter() - started):,.1f} images/s"
            progress.update(task, completed=drawn, total=total, speed=speed)

        yield watch
