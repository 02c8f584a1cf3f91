"""`recombine list`: what there is to choose from."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from recombine import zoo
from recombine.commands.console import print_json
from recombine.commands.parse import UNSET
from recombine.scene import World


@dataclass(frozen=True)
class ListOptions:
    """Show worlds, studies and shipped weights; of one study, its axes and cells.

    Example: recombine list length
    """

    study: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="STUDY")] = None
    """A study, to show its cells and which of them have results."""
    out: Path = Path("runs")
    """Folder of your runs."""
    json: bool = False
    """Print one JSON object and nothing else."""


OPTIONS = ListOptions
