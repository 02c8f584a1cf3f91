"""The studies of coverage and of the factorial: what a seed stands for, and what cells train on."""

from typing import Any

import pytest
import torch

from recombine import run, studies
from recombine.data import Stream
from recombine.measure.composition import Composition
from recombine.split import Coverage, leaks
from recombine.studies.coverage import GRID, SEEN
from recombine.studies.factorial import PARTS

COVERAGE, FACTORIAL = studies.load("coverage"), studies.load("factorial")


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("key", ["dit", "maskgit-c40-small", "givt-c60", "maskgit-jepa"])
def test_a_seed_is_a_replicate_and_nothing_of_it_leaks(key: str, seed: int):
    plan = run.planned("coverage", COVERAGE, key, seed)
    cell: Any = plan.declared
    seen = int(COVERAGE.levels[key]["coverage"].removeprefix("c"))
    split = Coverage(GRID, seen, order=seed).split
    assert cell.training.world.among == split.seen
    (measure,) = cell.measures
    assert isinstance(measure, Composition)
    assert measure.split == split
    stream = leaks(Stream(cell.training.world, 64, seed), split)
    shown = torch.cat([next(stream).scenes.concepts[:, 0] for _ in range(8)]).unique(dim=0)
    assert len(shown) == seen


def test_replicates_are_paired_over_models_and_nested_over_coverage():
    keys = ["dit", "maskgit", "maskgit_squared-small", "dit-c60"]
    splits = [run.planned("coverage", COVERAGE, key, 2).declared.measures[0].split for key in keys]
    assert len({(split.test, split.dev) for split in splits}) == 1
    assert splits[0].seen == splits[1].seen == splits[2].seen
    assert set(splits[0].seen) < set(splits[3].seen)


def test_a_seed_of_the_papers_world_is_random_numbers_alone():
    cells = [run.planned("coverage", COVERAGE, "dit-papers", seed).declared for seed in (0, 5)]
    assert cells[0] == cells[1]
    assert len(cells[0].seeds) == 8


def test_every_declared_coverage_has_its_cells():
    for seen in SEEN:
        key = "givt" if seen == SEEN[0] else f"givt-c{seen}"
        assert len(COVERAGE.cells[key].training.world.among) == seen


@pytest.mark.parametrize("key", list(FACTORIAL.cells))
def test_a_cell_of_the_factorial_is_what_its_levels_say(key: str):
    levels, cell = FACTORIAL.levels[key], FACTORIAL.cells[key]
    made = PARTS[levels["corruption"], levels["loss"], levels["conditioning"]]
    assert cell.training.network == made.network
    inner = getattr(cell.training.objective, "objective", cell.training.objective)
    assert inner == made.objective
    assert (inner is not cell.training.objective) == (levels["auxiliary"] == "jepa")
    assert cell.training.view == made.view
    assert FACTORIAL.folder(key) == FACTORIAL.folder(
        "-".join(part for part in key.split("-") if part != levels["decoding"])
    )


@pytest.mark.parametrize("key", ["noise-cross_entropy-jepa", "noise-greedy"])
def test_what_does_not_go_together_is_no_cell(key: str):
    with pytest.raises(ValueError, match="is not one of"):
        studies.chosen(f"factorial:{key}")
