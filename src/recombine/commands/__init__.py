"""The commands: one file each, with the dataclass OPTIONS and a function run(options).

A file is imported when its command is run, so that the list of commands does not wait for torch.
"""

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType


@dataclass(frozen=True)
class Command:
    """A command: the file it is in, and one line for the list of commands.

    The file holds OPTIONS, a frozen dataclass, and `run(options)`. A file with FIELDS = True has
    `run(options, words)` instead and is given the words that are not options of its own.
    """

    file: str
    summary: str

    @property
    def module(self) -> ModuleType:
        """Import the file."""
        return import_module(f"{__name__}.{self.file}")

    @property
    def options(self) -> type:
        """Return the dataclass of its options."""
        found: type = self.module.OPTIONS
        return found


COMMANDS: dict[str, Command] = {
    "demo": Command("demo", "shipped models draw more objects than they were trained on"),
    "list": Command("listing", "worlds, studies and shipped weights"),
    "render": Command("render", "images of a world, and the scenes they show"),
    "detect": Command("detect", "the objects in CLEVR-like images, in words"),
    "run": Command("run", "train or resume, measure, and write the results"),
    "measure": Command("measure", "measure a trained model"),
    "sample": Command("sample", "images by a model, with objects at the places you choose"),
    "records": Command("records", "the numbers on record, as a table to read or to compute with"),
    "report": Command("report", "write the tables, figures and pages of a checkout anew"),
    "bench": Command("bench", "speed, as ratios to named peers in one run"),
}
