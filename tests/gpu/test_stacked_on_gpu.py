"""Stacked runs on a GPU: the numbers of runs alone, replayed as a graph, compiled or not."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from recombine import run, studies
from recombine.checkpoint import Checkpoint
from recombine.graph import GraphedStep
from recombine.run.state import checkpoints
from recombine.stacked import StackedStep
from recombine.train import train
from stacked_runs import FAMILIES, alone, losses_of, rates, started, together

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
STEPS = 20
SOME = ["dit", "dit_jepa", "maskgit", "squared_adaln_jepa", "givt", "mar", "codes"]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_stacked_run_is_the_run_alone(name: str):
    """In float32; products are summed in another order, so the bound is that of a GPU."""
    family = FAMILIES[name]
    expected, _ = alone(family, STEPS, "cuda")
    taken = train(
        StackedStep(started(family, "cuda")), together(family, "cuda"), rates, range(1, STEPS + 1)
    )
    torch.testing.assert_close(losses_of(taken), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", SOME)
def test_a_graph_replays_the_stacked_step(name: str, compiled: bool):
    """Same random numbers, same rates, same losses, same averages of each run."""
    family = FAMILIES[name]
    losses, averages = [], []
    for graphed in (False, True):
        stack = StackedStep(started(family, "cuda"), compiled and graphed)
        step = GraphedStep(stack) if graphed else stack
        taken = train(step, together(family, "cuda"), rates, range(1, STEPS + 1))
        losses.append(losses_of(taken))
        averages.append({name: value.clone() for name, value in stack.averages.items()})
    torch.testing.assert_close(losses[1], losses[0], atol=1e-4, rtol=1e-3)
    assert len(losses[1].unique()) == losses[1].numel()
    for key, value in averages[0].items():
        torch.testing.assert_close(averages[1][key], value, atol=1e-3, rtol=1e-2)


@pytest.mark.parametrize(
    "key", ["noise", "masks-cross_entropy-tokens-jepa", "masks-token_diffusion"]
)
def test_a_stack_of_a_study_ends_where_its_runs_do(key: str, tmp_path: Path):
    """In mixed precision, compiled, from the seeds of the study, with the tokenizer inside."""
    study = studies.load("factorial")
    plans = [run.planned("factorial", study, key, seed, False, {"steps": 100}) for seed in (1, 2)]
    plans = [replace(p, declared=replace(p.trained, measures=(), milestones=())) for p in plans]
    machine = run.machine(torch.device("cuda"))
    run.together(plans, machine, [run.Settings(tmp_path / "stacked")] * 2)
    for plan in plans:
        run.together([plan], machine, [run.Settings(tmp_path / "alone")])
        found = []
        for out in (tmp_path / "stacked", tmp_path / "alone"):
            tensors = Checkpoint.load(checkpoints(plan.folder(out))[0]).tensors
            found.append({n: value for n, value in tensors.items() if n.startswith("average")})
        assert len(found[1]) > 20
        for name, value in found[1].items():
            torch.testing.assert_close(found[0][name], value, atol=5e-3, rtol=5e-2)
