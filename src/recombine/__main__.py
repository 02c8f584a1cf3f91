"""The command line: `recombine COMMAND`."""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from recombine.commands import COMMANDS
from recombine.commands.console import say
from recombine.report.words import nearest

DONE, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130


def main(words: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; what goes wrong is said in one line."""
    try:
        code = dispatched(list(sys.argv[1:] if words is None else words))
        sys.stdout.flush()
    except ValueError as error:
        return _said(str(error), WRONG_USE)
    except BrokenPipeError:
        # The reader left, as `head` does; Python would complain when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (OSError, ImportError) as error:
        return _said(str(error), FAILED)
    except RuntimeError as error:
        if not _out_of_memory(error):
            raise
        return _said(str(error), FAILED)
    except KeyboardInterrupt:
        return _said("interrupted", INTERRUPTED)
    return code


def dispatched(words: Sequence[str]) -> int:
    """Find the command that the first word names and run it with the others."""
    if not words or words[0] in ("-h", "--help"):
        print(overview())
        return DONE if words else WRONG_USE
    name, *rest = words
    if name == "--version":
        print(f"recombine {version('recombine')}")
        return DONE
    if name == "--print-completion":
        from recombine.commands.completion import script

        print(script(rest))
        return DONE
    if name not in COMMANDS:
        known = ", ".join(COMMANDS)
        raise ValueError(f"{name!r} is not one of {known}{nearest(name, list(COMMANDS))}")
    return _run(name, rest)


def overview() -> str:
    """Return the list of commands."""
    lines = [f"  {name:8} {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: recombine COMMAND [OPTIONS]",
            "",
            "Can a visual generative model make what it has never seen, out of parts it has?",
            "",
            *lines,
            "",
            "recombine COMMAND --help shows its options, with an example.",
            "recombine --print-completion bash (or zsh, fish) prints completion for that shell.",
        ]
    )


def _run(name: str, words: Sequence[str]) -> int:
    from recombine.commands.parse import parsed, recognized

    command, program = COMMANDS[name].module, f"recombine {name}"
    kind: type[Any] = COMMANDS[name].options
    if getattr(command, "FIELDS", False):
        options, others = recognized(kind, program, words)
        return command.run(options, others) or DONE
    return command.run(parsed(kind, program, words)) or DONE


def _out_of_memory(error: RuntimeError) -> bool:
    import torch

    return isinstance(error, torch.OutOfMemoryError)


def _said(message: str, code: int) -> int:
    say("recombine: " + " ".join(message.split()))
    return code


if __name__ == "__main__":
    sys.exit(main())
