"""The command line: `recombine COMMAND`."""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from types import ModuleType

import torch

from recombine.commands import (
    bench,
    compute,
    demo,
    detect,
    listing,
    measure,
    records,
    render,
    report,
    run,
    sample,
)
from recombine.commands.console import say
from recombine.commands.parse import parsed
from recombine.report.words import nearest

COMMANDS: dict[str, ModuleType] = {
    "demo": demo,
    "list": listing,
    "render": render,
    "detect": detect,
    "run": run,
    "measure": measure,
    "sample": sample,
    "records": records,
    "report": report,
    "bench": bench,
}
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
    except (OSError, ImportError, torch.OutOfMemoryError) as error:
        return _said(str(error), FAILED)
    except KeyboardInterrupt:
        return _said("interrupted", INTERRUPTED)
    return code


def dispatched(words: Sequence[str]) -> int:
    """Find the command that the first word names and run it with the others."""
    if not words or words[0] in ("-h", "--help"):
        print(overview())
        return DONE if words else WRONG_USE
    if words[0] == "--version":
        print(f"recombine {version('recombine')}")
        return DONE
    name, *rest = words
    if name not in COMMANDS:
        known = ", ".join(COMMANDS)
        raise ValueError(f"{name!r} is not one of {known}{nearest(name, list(COMMANDS))}")
    command = COMMANDS[name]
    # What is computed has options of its own.
    if name == "run" and (computed := compute.named(rest)):
        return compute.run(computed, rest)
    kind = command.OPTIONS if hasattr(command, "OPTIONS") else command.Options
    return command.run(parsed(kind, f"recombine {name}", rest)) or DONE


def overview() -> str:
    """Return the list of commands."""
    lines = [
        f"  {name:8} {(command.__doc__ or '').partition(': ')[2].strip()}"
        for name, command in COMMANDS.items()
    ]
    head = "usage: recombine COMMAND [OPTIONS]\n\nCan a model make what it has never seen?\n\n"
    return head + "\n".join(lines) + "\n\nrecombine COMMAND --help tells more, with an example."


def _said(message: str, code: int) -> int:
    say("recombine: " + " ".join(message.split()))
    return code


if __name__ == "__main__":
    sys.exit(main())
