"""The same trainings give the same losses as ever; CHANGELOG says so where one changes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from recombine import run, studies

LOSSES = {
    "length:list_all": 0.8203359246253967,
    "length:grid_one-local-guided": 0.8123577833175659,
    "toy:denoising": 1.6946598291397095,
    "circles:all_seen": 1.3946058750152588,
    "concept_space:0.137": 1.1113296747207642,
    "readers:probe": 1.3193928003311157,
    "tokenizers:vq": 0.5812328457832336,
    "tokenizers:kl": 0.7489320039749146,
    "coverage:dit_kl": 1.4194269180297852,
    "coverage:maskgit-small": 5.524584770202637,
    "coverage:givt": 1.5833425521850586,
}
"""Of the fifth step, seed 3; those of length, toy and circles are the first edition's."""


@pytest.mark.parametrize("name", LOSSES)
def test_a_tiny_training_has_the_loss_it_always_had(name: str, tmp_path: Path):
    study, key = name.split(":")
    plan = run.planned(study, studies.load(study), key, 3, True, {"steps": 5})
    plan = replace(plan, declared=replace(plan.trained, measures=(), milestones=()))
    run.together([plan], run.machine(torch.device("cpu")), [run.Settings(tmp_path)])
    lines = (plan.folder(tmp_path) / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["loss"] == pytest.approx(LOSSES[name], rel=1e-6)
