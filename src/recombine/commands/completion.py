"""Completion of the command line by a shell: a script that the shell reads once."""

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import make_dataclass
from typing import Annotated, Any, Union

import tyro

from recombine import commands
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
            one_of({name: completed(name) for name in COMMANDS}),
            prog="recombine",
            args=["--tyro-print-completion", words[0]],
            config=(tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes),
            registry=registry(),
        )
    # A shell would offer every line of a help that has several.
    lines = (
        line.replace(r"\n", " ") if line.startswith("COMPLETION_SPEC") else line
        for line in printed.getvalue().splitlines(keepends=True)
    )
    return "".join(lines) + OR_FILES * (words[0] == "bash")


def completed(command: str) -> Any:
    """Return the options of a command, which may also follow the name of a study or of weights.

    tyro completes options and subcommands, so a name is written as a subcommand here.
    """
    kind, known = commands.options_of(commands.command(command)), index.read()
    names = {
        **dict.fromkeys(("run", "list", "records"), list(known["studies"])),
        **dict.fromkeys(("measure", "sample"), [f"zoo:{name}" for name in known["zoo"]]),
    }
    if command not in names:
        return kind
    after = one_of(dict.fromkeys(names[command], kind))
    return make_dataclass(f"{kind.__name__}OrName", [("options", kind), ("after", after)])


def one_of(kinds: Mapping[str, Any]) -> Any:
    """Return the type of a choice between subcommands."""
    choices = [Annotated[kind, tyro.conf.subcommand(name)] for name, kind in kinds.items()]
    return Annotated[Union[tuple(choices)], tyro.conf.OmitSubcommandPrefixes]  # noqa: UP007
