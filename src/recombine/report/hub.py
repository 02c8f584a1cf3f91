"""Measurements in the form that model hubs read: the `model-index` of a model card, as YAML.

    model-index:
    - name: length:grid_all           STUDY:CELL, a model
      results:
      - task:    {type: length, name: the question of the study}
        dataset: {type: clevr, name: clevr}       the world; a computation has `closed form`
        metrics:
        - type: k_max                 the measurement
          value: 9.0
          args: {low: 8.0, high: 10.0, n: 500, seed: 0, reader: detector, device: ..., commit: ...}

One entry a cell, one metric a measurement and seed. `low` and `high` are the ends of the 95 %
interval; what is not known is left out. huggingface_hub reads it (`model_index_to_eval_results`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import yaml
from huggingface_hub import EvalResult
from huggingface_hub.repocard_data import eval_results_to_model_index

from recombine.report.queries import finals

ARGUMENTS = ("low", "high", "n", "seed", "reader", "device", "commit")


@dataclass(frozen=True)
class Task:
    """What a model was measured for, and on which world."""

    study: str
    question: str
    world: str


def results(about: Task, rows: Iterable[Mapping[str, Any]]) -> list[EvalResult]:
    """Return rows with `measurement`, `value` and any of the arguments as a hub knows them."""
    return [
        EvalResult(
            task_type=about.study,
            task_name=about.question,
            dataset_type=about.world,
            dataset_name=about.world,
            metric_type=row["measurement"],
            metric_value=row["value"],
            metric_args={name: row[name] for name in ARGUMENTS if row.get(name) not in (None, "")},
        )
        for row in rows
    ]


def model_index(table: pd.DataFrame, about: Mapping[tuple[str, str], Task]) -> str:
    """Return the final numbers of a table as YAML, an entry a cell."""
    entries: list[Mapping[str, Any]] = []
    for (study, cell), group in finals(table).groupby(["study", "cell"], sort=False):
        plain = group.astype(object).where(group.notna(), None).to_dict("records")
        found = results(about[study, cell], plain)
        entries += eval_results_to_model_index(f"{study}:{cell}", found)
    return written({"model-index": entries})


def written(data: Mapping[str, Any] | Sequence[Any]) -> str:
    """Return data as YAML, in its order."""
    text: str = yaml.safe_dump(
        data, sort_keys=False, allow_unicode=True, width=100, default_flow_style=None
    )
    return text
