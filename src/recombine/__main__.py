"""The command line: `recombine COMMAND`."""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from recombine import commands, own
from recombine.commands import COMMANDS
from recombine.commands.console import say
from recombine.report.words import nearest

DONE, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130
OVERVIEW = """\
usage: recombine COMMAND [OPTIONS]

Can a visual generative model make what it has never seen, out of parts it has?

{commands}

recombine COMMAND --help shows its options, with an example.
recombine --print-completion bash (or zsh, fish) prints completion for that shell."""


def main(words: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; what goes wrong is said in one line."""
    try:
        code = dispatched(list(sys.argv[1:] if words is None else words))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader left, as `head` does; Python would complain when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return _said("interrupted", INTERRUPTED)
    except Exception as error:
        if (blamed := own.blamed(error)) and not is_of_memory(error):
            return _said(blamed, WRONG_USE)
        if isinstance(error, ValueError):
            return _said(error, WRONG_USE)
        if not (isinstance(error, OSError | ImportError) or is_of_memory(error)):
            raise
        return _said(error, FAILED)
    return code


def is_of_memory(error: Exception) -> bool:
    """Return whether a device has no memory left."""
    if not isinstance(error, RuntimeError):
        return False
    from torch import OutOfMemoryError  # here, as torch takes seconds to import

    return isinstance(error, OutOfMemoryError)


def dispatched(words: Sequence[str]) -> int:
    """Find the command that the first word names and run it with the others."""
    if not words or words[0] in ("-h", "--help"):
        listed = [f"  {name:8} {summary}" for name, summary in COMMANDS.items()]
        print(OVERVIEW.format(commands="\n".join(listed)))
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
    from recombine.commands.parse import parsed, recognized

    run, program = commands.command(name), f"recombine {name}"
    kind = commands.options_of(run)
    if "words" in run.__annotations__:
        return run(*recognized(kind, program, rest)) or DONE
    return run(parsed(kind, program, rest)) or DONE


def _said(error: object, code: int) -> int:
    say("recombine: " + " ".join(str(error).split()))
    return code


if __name__ == "__main__":
    sys.exit(main())
