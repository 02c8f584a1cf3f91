"""The commands: one file each, with a function `run(options)`.

The type of `options` is a frozen dataclass: what the command reads from the command line. A `run`
with a second parameter, `words`, is given the words that are not options of its own. A file is
imported when its command is run, so that the list of commands does not wait for torch.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

COMMANDS = {
    "demo": "shipped models draw more objects than they were trained on",
    "list": "worlds, studies and shipped weights",
    "render": "images of a world, and the scenes they show",
    "detect": "the objects in CLEVR-like images, in words",
    "score": "images made elsewhere: do they show what was requested?",
    "new": "a file to start from: a world, a study or a measurement of yours",
    "run": "train or resume, measure, and write the results",
    "probe": "train a reader of your own images' factors",
    "measure": "measure a trained model",
    "sample": "images by a model, with objects at the places you choose",
    "records": "the numbers on record, as a table to read or to compute with",
    "report": "write the tables, figures and pages of a checkout anew",
    "bench": "speed, as ratios to named peers in one run",
}
"""One line for the list of commands, by name."""


def command(name: str) -> Callable[..., int | None]:
    """Import a command and return its `run`; `list` is also a name of Python's."""
    run: Callable[..., int | None] = import_module(
        f"{__name__}.{'listing' if name == 'list' else name}"
    ).run
    return run


def options_of(run: Callable[..., int | None]) -> type[Any]:
    """Return the dataclass of a command's options."""
    found: type[Any] = run.__annotations__["options"]
    return found
