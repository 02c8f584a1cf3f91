"""What there is to run and to measure, readable without torch: worlds, studies, shipped weights.

To import a study takes seconds, and `recombine list`, its help and the completion of names should
not. So `recombine report` writes what they show into index.json beside this file, and a test
holds the two together.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recombine.scene import World
    from recombine.study import Study

PATH = Path(__file__).with_name("index.json")


@dataclass(frozen=True)
class ListedWorld:
    """A world: side of its images in pixels, and its factors with their concepts."""

    size: int
    factors: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class ListedStudy:
    """A study: what each level of each axis says, the levels of each cell, and what it costs."""

    question: str
    axes: Mapping[str, Mapping[str, str]]
    cells: Mapping[str, Mapping[str, str]]
    headline: Sequence[str]
    cost: str


@dataclass(frozen=True)
class Index:
    """All of them, by name; weights with the command that trains the like."""

    worlds: Mapping[str, ListedWorld]
    studies: Mapping[str, ListedStudy]
    zoo: Mapping[str, str]


def indexed(
    worlds: Sequence["World"], studies: Mapping[str, "Study"], zoo: Mapping[str, str]
) -> Index:
    """Return the index of these worlds, studies and weights."""
    return Index(
        {world.name: listed_world(world) for world in worlds},
        {name: listed_study(study) for name, study in studies.items()},
        dict(zoo),
    )


def listed_world(world: "World") -> ListedWorld:
    """Return what the index says of a world."""
    factors = {factor.name: list(factor.concepts) for factor in world.factors}
    return ListedWorld(world.size, factors)


def listed_study(study: "Study") -> ListedStudy:
    """Return what the index says of a study."""
    axes = {
        name: {key: level.says for key, level in axis.levels.items()}
        for name, axis in study.axes.items()
    }
    cells = {key: dict(levels) for key, levels in study.levels.items()}
    return ListedStudy(study.question, axes, cells, list(study.headline), study.cost)


def text(index: Index) -> str:
    """Return the content of the file."""
    return json.dumps(asdict(index), indent=1, ensure_ascii=False) + "\n"


def read(path: Path = PATH) -> Index:
    """Read the file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return Index(
        {name: ListedWorld(**each) for name, each in content["worlds"].items()},
        {name: ListedStudy(**each) for name, each in content["studies"].items()},
        content["zoo"],
    )
