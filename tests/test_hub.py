"""Records as the YAML of model hubs: the hub's own reader finds every final number again."""

import json
from pathlib import Path

import pytest
import yaml
from huggingface_hub.repocard_data import model_index_to_eval_results

from recombine.__main__ import main
from recombine.measurement import Measurement
from recombine.results import keep
from recombine.results.query import records
from stub_results import a_run

RATE = Measurement(1 / 3, 1e-05, 0.75, n=256)
COLUMNS = ("study", "cell", "seed", "measurement", "value", "low", "high", "n", "device", "commit")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    runs = [
        a_run("grid_all", 0, {"k_max": 7, "success@9": RATE}, {"loss": [(10, 1 / 3)]}),
        a_run("grid_all", 1, {"k_max": 9}),
        a_run("grid_one-local", 0, {"k_max": 6}),
        a_run("base", 0, {"leak": 0.1}, study="laws"),
        a_run("theirs", 2, {"leak": 0.2}, study="own_study"),
    ]
    keep(runs, tmp_path / "results")
    return tmp_path / "results"


def printed(capsys: pytest.CaptureFixture[str], *words: object) -> list[dict]:
    assert main(["records", *map(str, words), "--yaml"]) == 0
    found = yaml.safe_load(capsys.readouterr().out)
    assert list(found) == ["model-index"]
    return found["model-index"]


def test_every_final_number_is_read_again_with_its_interval(results: Path, capsys):
    found = []
    for entry in printed(capsys, "--where", results):
        name, rows = model_index_to_eval_results([entry])
        study, cell = name.split(":")
        for each in rows:
            known = {"low": None, "high": None, "n": None, **each.metric_args}
            row = {**known, "study": study, "cell": cell, "value": each.metric_value}
            found.append({**row, "measurement": each.metric_type})
            assert each.task_type == study
    table = records(where=results)
    final = table[table["step"].isna()].astype(object)
    expected = final.where(final.notna(), None).to_dict("records")
    assert len(found) == 6
    assert [[row[name] for name in COLUMNS] for row in found] == [
        [row[name] for name in COLUMNS] for row in expected
    ]


def test_a_cell_is_one_model_with_the_question_and_the_world_it_was_measured_on(
    results: Path, capsys
):
    entries = {each["name"]: each["results"] for each in printed(capsys, "--where", results)}
    assert list(entries) == [
        *("laws:base", "length:grid_all", "length:grid_one-local", "own_study:theirs")
    ]
    (found,) = entries["length:grid_all"]
    assert found["dataset"] == {"name": "clevr", "type": "clevr"}
    assert found["task"]["name"].startswith("After at most three objects")
    assert [each["type"] for each in found["metrics"]] == ["k_max", "success@9", "k_max"]
    assert entries["laws:base"][0]["dataset"]["type"] == "closed form"
    assert entries["own_study:theirs"][0]["dataset"]["type"] == "unknown"


def test_rows_are_chosen_as_for_a_table(results: Path, capsys):
    words = ["length", "--cell", "grid_all", "--measurement", "k_*", "--where", results]
    ((found,),) = (each["results"] for each in printed(capsys, *words))
    assert [json.dumps(each["value"]) for each in found["metrics"]] == ["7.0", "9.0"]
