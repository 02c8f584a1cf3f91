"""Completion of the command line by a shell: a script that the shell reads once."""

import contextlib
import io
from collections.abc import Iterable, Sequence
from dataclasses import make_dataclass
from typing import Annotated, Any, Union

import tyro

from recombine.commands import COMMANDS, index
from recombine.commands.grammar import registry
from recombine.report.words import nearest

SHELLS = ("bash", "zsh", "fish")
OR_FILES = """
# Where nothing is to be completed there are files.
_recombine() {
  _tyro_recombine "$@"
  [[ -n "${COMPREPLY[*]}" ]] || COMPREPLY=()
}
complete -o default -F _recombine recombine
"""


def script(words: Sequence[str]) -> str:
    """Return the script for a shell, which tyro writes from the options of all commands."""
    if len(words) != 1 or words[0] not in SHELLS:
        got, known = " ".join(words), ", ".join(SHELLS)
        meant = nearest(got, SHELLS)
        raise ValueError(f"--print-completion: expected one of {known}, got {got!r}{meant}")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        tyro.cli(
            one_of((name, completed(name)) for name in COMMANDS),
            prog="recombine",
            args=["--tyro-print-completion", words[0]],
            config=(tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes),
            registry=registry(),
        )
    return one_line_helps(printed.getvalue()) + (OR_FILES if words[0] == "bash" else "")


def completed(command: str) -> Any:
    """Return the options of a command, which may also follow a name.

    tyro completes options and subcommands, so a name is written as a subcommand here.
    """
    kind, names = COMMANDS[command].options, names_for(command)
    if len(names) < 2:
        return kind
    after = one_of((name, kind) for name in names)
    return make_dataclass(f"{kind.__name__}OrName", [("options", kind), ("after", after)])


def names_for(command: str) -> list[str]:
    """Return the names that may be the first word after a command."""
    known = index.read()
    match command:
        case "run" | "list" | "records":
            return list(known.studies)
        case "measure" | "sample":
            return [f"zoo:{name}" for name in known.zoo]
    return []


def one_line_helps(text: str) -> str:
    """Join the help of each option in a script: a shell would offer every line of it."""
    return "".join(
        line.replace(r"\n", " ") if line.startswith("COMPLETION_SPEC") else line
        for line in text.splitlines(keepends=True)
    )


def one_of(kinds: Iterable[tuple[str, Any]]) -> Any:
    """Return the type of a choice between subcommands."""
    choices = [Annotated[kind, tyro.conf.subcommand(name)] for name, kind in kinds]
    return Annotated[Union[tuple(choices)], tyro.conf.OmitSubcommandPrefixes]  # noqa: UP007
