"""What is known of a trained model beside its weights: where it is from, and its numbers."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from recombine import studies
from recombine.measurement import Measurement, Number
from recombine.run.kept import kept
from recombine.run.plan import Plan
from recombine.study import Cell, Study


@dataclass(frozen=True)
class Record:
    """The run a model is from, in names and sentences, and what was measured of it."""

    study: str = "own"
    cell: str = "model"
    seed: int = 0
    levels: Mapping[str, str] = field(default_factory=dict)
    tiny: bool = False
    overrides: Mapping[str, Any] = field(default_factory=dict)
    question: str = ""
    title: str = ""
    note: str = ""
    command: str = ""
    step: int | None = None
    seconds: Number | None = None
    measured: Mapping[str, Measurement] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What the user types for it."""
        return f"{self.study}:{self.cell}"

    def plan(self, cell: Cell) -> Plan:
        """Return the run that a declared cell makes with it."""
        names = (self.study, self.cell)
        return Plan(*names, cell, self.levels, self.seed, self.cell, self.tiny, self.overrides)

    @property
    def data(self) -> dict[str, Any]:
        """The record as data for JSON."""
        return asdict(self)

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> "Record":
        """Return the record that data describe, or say what of them is not known."""
        try:
            measured = {name: Measurement(**each) for name, each in data["measured"].items()}
            return cls(**{**data, "measured": measured})
        except (TypeError, KeyError, AttributeError) as error:
            known = ", ".join(each.name for each in fields(cls))
            raise ValueError(f"a record has the fields {known}: {error}") from error


def recorded(plan: Plan, facts: Mapping[str, Any], path: Path, of: Study | None = None) -> Record:
    """Return what is known of the model of a checkpoint; `of` is a study that has no file."""
    study = of or studies.load(plan.source)
    measured = {name: Measurement(*each) for name, each in facts.get("measured", {}).items()}
    if not measured and facts.get("step") == plan.trained.training.budget.steps:
        done = kept(plan, path.parent)
        measured = dict(done.measurements) if done else {}
    return Record(
        plan.study,
        plan.cell,
        plan.seed,
        dict(plan.levels),
        plan.tiny,
        dict(plan.overrides),
        study.question,
        study.title(plan.cell),
        study.note,
        plan.command,
        facts.get("step"),
        facts.get("seconds"),
        measured,
    )
