"""Completion of the command line by a shell: a script that the shell reads once."""

import contextlib
import io
from collections.abc import Sequence
from typing import Annotated, Any, Union

import tyro

from recombine.commands import COMMANDS, index
from recombine.commands.grammar import registry
from recombine.report.words import nearest

SHELLS = ("bash", "zsh", "fish")
NAMED = {"run": "studies", "list": "studies", "measure": "zoo", "sample": "zoo"}
"""Commands whose first word is a name, and where the index has the names."""


def script(words: Sequence[str]) -> str:
    """Return the script for a shell, as tyro writes it for the options of all commands."""
    if len(words) != 1 or words[0] not in SHELLS:
        got = " ".join(words)
        raise ValueError(
            f"--print-completion: expected one of {', '.join(SHELLS)}, got {got!r}"
            f"{nearest(got, SHELLS)}"
        )
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        tyro.cli(
            one_of({name: options(name) for name in COMMANDS}),
            prog="recombine",
            args=["--tyro-print-completion", words[0]],
            config=(tyro.conf.FlagCreatePairsOff,),
            registry=registry(),
        )
    return printed.getvalue()


def options(name: str) -> Any:
    """Return the options of a command; where it takes a name, they follow each of the names.

    tyro completes options and subcommands, so a name is written as a subcommand here.
    """
    kind = COMMANDS[name].module.OPTIONS
    names = names_for(name)
    return one_of(dict.fromkeys(names, kind)) if len(names) > 1 else kind


def names_for(command: str) -> list[str]:
    """Return what may be the first word after a command."""
    known = index.read()
    match NAMED.get(command):
        case "studies":
            return list(known.studies)
        case "zoo":
            return [f"zoo:{name}" for name in known.zoo]
    return []


def one_of(kinds: dict[str, Any]) -> Any:
    """Return the type of a choice between subcommands."""
    return Union[  # noqa: UP007
        tuple(
            Annotated[kind, tyro.conf.subcommand(name, prefix_name=False)]
            for name, kind in kinds.items()
        )
    ]
