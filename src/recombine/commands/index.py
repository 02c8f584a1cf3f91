"""What there is to run and to measure, readable without torch: worlds, studies, shipped weights.

To import a study takes seconds, and `recombine list`, its help and the completion of names should
not. So `recombine report` writes what they show into index.json beside this file, and a test
holds the two together.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

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
    headline: Sequence[str] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds of one run of every cell, by device."""


@dataclass(frozen=True)
class Index:
    """All of them, by name; weights with the command that trains the like."""

    worlds: Mapping[str, ListedWorld]
    studies: Mapping[str, ListedStudy]
    zoo: Mapping[str, str]


@runtime_checkable
class _Factor(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def concepts(self) -> Sequence[str]: ...


@runtime_checkable
class _World(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def factors(self) -> Sequence[_Factor]: ...


@runtime_checkable
class _Level(Protocol):
    @property
    def says(self) -> str: ...


@runtime_checkable
class _Axis(Protocol):
    @property
    def levels(self) -> Mapping[str, _Level]: ...


@runtime_checkable
class _Study(Protocol):
    @property
    def question(self) -> str: ...
    @property
    def axes(self) -> Mapping[str, _Axis]: ...
    @property
    def levels(self) -> Mapping[str, Mapping[str, str]]: ...
    @property
    def headline(self) -> Sequence[str]: ...


def indexed(
    worlds: Sequence[_World],
    studies: Mapping[str, _Study],
    zoo: Mapping[str, str],
    seconds: Mapping[str, Mapping[str, float]],
) -> Index:
    """Return the index of these worlds, studies and weights; seconds by study and device."""
    return Index(
        {world.name: listed_world(world) for world in worlds},
        {name: listed_study(study, seconds.get(name, {})) for name, study in studies.items()},
        dict(zoo),
    )


def listed_world(world: _World) -> ListedWorld:
    """Return what the index says of a world."""
    factors = {factor.name: list(factor.concepts) for factor in world.factors}
    return ListedWorld(world.size, factors)


def listed_study(study: _Study, seconds: Mapping[str, float]) -> ListedStudy:
    """Return what the index says of a study."""
    axes = {
        name: {key: level.says for key, level in axis.levels.items()}
        for name, axis in study.axes.items()
    }
    cells = {key: dict(levels) for key, levels in study.levels.items()}
    return ListedStudy(study.question, axes, cells, list(study.headline), dict(seconds))


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
