"""From words on the command line to a dataclass of options, or to one line that says why not."""

import contextlib
import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

Options = TypeVar("Options")

UNSET = tyro.conf.arg(help_behavior_hint="")
"""Marks an option whose default is None: its help says in words what that means."""


def parsed(kind: type[Options], program: str, words: Sequence[str]) -> Options:
    """Read the options of a command; tyro's boxed complaint becomes a ValueError of one line."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.cli(
                kind,
                prog=program,
                args=words,
                config=(tyro.conf.FlagCreatePairsOff,),
                registry=_plain_words(),
            )
    except SystemExit as stop:
        if stop.code == 0:
            raise
        raise ValueError(one_line(complaint.getvalue(), program)) from stop


def one_line(box: str, program: str) -> str:
    """Return what tyro says inside its box: the reason, and the option it thinks was meant."""
    # Whether the box is coloured or drawn in ASCII depends on the terminal.
    plain = re.sub(r"\x1b\[[\d;]*m|[╭╮╰╯│]", "", box).replace("─", "-")
    _, *lines = plain.splitlines()
    paragraphs = re.split(r"\s*^\s*-{4,}\s*$\s*", "\n".join(lines), flags=re.MULTILINE)
    reason = next(filter(None, (" ".join(each.split()) for each in paragraphs)), "wrong options")
    meant = re.search(r"Perhaps you meant:?\s+(--[\w-]+)", plain)
    suggestion = f"; did you mean {meant[1]}?" if meant else ""
    return f"{reason}{suggestion} (see {program} --help)"


def _plain_words() -> ConstructorRegistry:
    """Read numbers, texts and paths so that a wrong one is named in words, not in Python's."""
    registry = ConstructorRegistry()
    registry.primitive_rule(_plain)
    return registry


def _plain(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    kinds = set(get_args(info.type) or (info.type,))
    read: dict[type, tuple[str, Callable[[str], Any]]] = {
        int: ("N", _whole),
        float: ("X", _decimal),
        str: ("TEXT", str),
        Path: ("PATH", Path),
    }
    found = [kind for kind in read if kinds - {NoneType} == {kind}]
    if not found:
        return None
    metavar, convert = read[found[0]]
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda words: convert(words[0]),
        is_instance=lambda value: isinstance(value, tuple(kinds)),
        str_from_instance=lambda value: [str(value)],
    )


def _whole(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise ValueError(f"expected a whole number, got {word!r}") from None


def _decimal(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"expected a number, got {word!r}") from None
