"""What is to be run: a cell of a study with a seed, its folder, and the facts that name it."""

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from recombine.own import OwnFile
from recombine.study import Cell, Computation, Study


@dataclass(frozen=True)
class Plan:
    """A cell as it is declared, shrunk or overridden, and a seed.

    Cells of a study with equal trainings share the folder of the first of them, `shared`. `file`
    is where a user declares the study. `remark` is what has to be known of an older run,
    `typed` the command where it is not `recombine run`.
    """

    study: str
    cell: str
    declared: Cell | Computation
    levels: Mapping[str, str]
    seed: int
    shared: str
    tiny: bool = False
    overrides: Mapping[str, Any] = field(default_factory=dict)
    file: OwnFile | None = None
    remark: str = ""
    typed: str = ""

    @property
    def source(self) -> str:
        """What the study is loaded by: its name, or the path of a user's file."""
        return self.file.path if self.file else self.study

    @property
    def name(self) -> str:
        """What the user types for it."""
        return f"{self.source}:{self.cell}"

    def folder(self, out: Path) -> Path:
        """Return where the run lies."""
        return out / self.study / (self.shared + "-tiny" * self.tiny) / f"seed{self.seed}"

    @property
    def command(self) -> str:
        """What to type to run it."""
        if self.typed:
            return self.typed
        options = [
            f"--{name.replace('_', '-')} {typed(value)}" for name, value in self.overrides.items()
        ]
        words = ["recombine run", shlex.quote(self.name), *["--tiny"] * self.tiny, *options]
        return f"{' '.join(words)} --seed {self.seed}"

    @property
    def trained(self) -> Cell:
        """The cell, which has to be one with a training."""
        if not isinstance(self.declared, Cell):
            raise ValueError(f"{self.name} is computed, not trained: it has no steps and weights")
        return self.declared

    @property
    def facts(self) -> dict[str, Any]:
        """What a folder or a checkpoint says of the run it belongs to."""
        training = self.trained.training
        return {
            "study": self.study,
            "cell": self.shared,
            "tiny": self.tiny,
            "overrides": dict(self.overrides),
            "seed": self.seed,
            "digest": training.digest,
            "training": training.spelled,
            **({"file": asdict(self.file)} if self.file else {}),
        }

    def remarked(self, facts: Mapping[str, Any]) -> "Plan":
        """Return the plan with a remark, where its file has changed since these facts."""
        before = facts.get("file", {}).get("digest")
        if self.file is None or before in (None, self.file.digest):
            return self
        return replace(self, remark=f"{self.file.path} has changed since this run began")

    def check(self, facts: Mapping[str, Any], where: Path) -> None:
        """Raise unless the facts are of this run."""
        ours = self.facts
        if all(facts.get(name) == ours[name] for name in ("digest", "seed")):
            return
        theirs = facts.get("training", {})
        spelled = ours["training"]
        differing = [name for name in spelled if theirs.get(name) != spelled[name]] or ["seed"]
        raise ValueError(
            f"{where} belongs to another training: it differs in {', '.join(differing)}; "
            f"choose another --out or remove {where.parent}"
        )


def typed(value: Any) -> str:
    """Write a value as it is typed on the command line: 1,3 for a tuple."""
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def planned(
    name: str,
    of: Study,
    key: str,
    seed: int | None = None,
    tiny: bool = False,
    overrides: Mapping[str, Any] | None = None,
) -> Plan:
    """Return the plan of a cell, shrunk first and then overridden, with a seed of it or the first.

    Overrides are fields of the training's budget, or of the computation.
    """
    cell = of.cells[key].tiny() if tiny else of.cells[key]
    seed = (cell.seeds[0] if isinstance(cell, Cell) else 0) if seed is None else seed
    cell = cell.of_seed(seed) if isinstance(cell, Cell) else cell
    changed = overridden(cell, overrides or {})
    study = of.file.name if of.file else name
    parts = (changed, of.levels[key], seed, of.folder(key), tiny, overrides or {}, of.file)
    return Plan(study, key, *parts)


def overridden(declared: Cell | Computation, overrides: Mapping[str, Any]) -> Cell | Computation:
    """Return a cell with fields of its budget changed, or a computation with its own."""
    if not isinstance(declared, Cell):
        value: Any = declared
        names = {each.name: getattr(value, each.name) for each in fields(value)}
        as_tuples = {
            name: tuple(new) if isinstance(names[name], tuple) else new
            for name, new in overrides.items()
        }
        return replace(value, **as_tuples)
    cell = declared.of_steps(overrides["steps"]) if "steps" in overrides else declared
    training = cell.training
    return replace(cell, training=replace(training, budget=replace(training.budget, **overrides)))
