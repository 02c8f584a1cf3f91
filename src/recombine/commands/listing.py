"""`recombine list`: what there is to choose from."""

from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from recombine import zoo
from recombine.commands.console import print_json
from recombine.experiments import declared
from recombine.figures import figures
from recombine.scene import World
from recombine.worlds import WORLDS


@dataclass(frozen=True)
class Options:
    """Show the worlds, with their factors and sizes, the experiments, figures and weights.

    Example: recombine list --json
    """

    json: bool = False
    """Print one JSON object and nothing else."""


def run(options: Options) -> None:
    """Print every world, experiment and figure, and what is in the zoo."""
    experiments = {name: list(variants) for name, variants in declared().items()}
    if options.json:
        worlds = [described(world) for world in WORLDS]
        known = {"experiments": experiments, "figures": list(figures()), "zoo": zoo.names()}
        print_json({"worlds": worlds, **known})
        return
    table = Table("world", "image", "factors", title="Worlds", title_justify="left")
    for world in WORLDS:
        table.add_row(world.name, f"{world.size} px", factors_in_words(world, "\n"))
    Console().print(table)
    table = Table("experiment", "variants", "figure", title="Experiments", title_justify="left")
    for name, variants in experiments.items():
        table.add_row(name, ", ".join(variants), "yes" if name in figures() else "")
    Console().print(table)
    table = Table("weights", "trained by", title="Zoo", title_justify="left")
    for name in zoo.names():
        table.add_row(f"zoo:{name}", zoo.record(name).command)
    Console().print(table)


def described(world: World) -> dict[str, Any]:
    """Return what is said of a world in JSON."""
    factors = {factor.name: list(factor.concepts) for factor in world.factors}
    return {"name": world.name, "size": world.size, "factors": factors}


def factors_in_words(world: World, between: str) -> str:
    """Return the factors with their concepts: "shape (cube, sphere); colour (red, blue)"."""
    return between.join(f"{factor.name} ({', '.join(factor.concepts)})" for factor in world.factors)
