"""How long trainings would take on a CPU, from a short warm-up whose weights are thrown away."""

import time
from collections.abc import Sequence
from pathlib import Path

import torch

from recombine.data import Stream
from recombine.objectives.jepa import JepaObjective
from recombine.run.kept import kept
from recombine.run.plan import Plan
from recombine.run.state import checkpoints
from recombine.train import Step, Weights, train
from recombine.training import Training

WARM_UP, STEPS = 1, 2
MOST = 16
"""Images of a step of the warm-up: a step of more of them takes as much longer."""


def seconds(plans: Sequence[Plan], out: Path) -> float:
    """Return how long the steps that are left would take, one run after the other."""
    # Cells with one training share its folder, and are trained once.
    runs = {plan.folder(out): plan for plan in plans}
    left = [(plan, steps_left(plan, folder)) for folder, plan in runs.items()]
    of_a_step: dict[str, float] = {}
    for plan, steps in left:
        # Seeds and lengths of one training take the same time a step.
        if steps and plan.name not in of_a_step:
            of_a_step[plan.name] = step_seconds(plan.trained.training)
    return float(sum(steps * of_a_step[plan.name] for plan, steps in left if steps))


def steps_left(plan: Plan, folder: Path) -> int:
    """Return how many steps a run has before it."""
    if kept(plan, folder) is not None:
        return 0
    done = [int(path.stem.partition("-")[2]) for path in checkpoints(folder)[:1]]
    return max(plan.trained.training.budget.steps - sum(done), 0)


def step_seconds(training: Training) -> float:
    """Return how long a step takes on this CPU; no random number of a run is used up."""
    batch = training.budget.batch
    try:
        return _warmed_up(training, min(batch, MOST)) * batch / min(batch, MOST)
    except ValueError:
        # Some objectives need many images, such as one that fills a codebook.
        return _warmed_up(training, batch)


def _warmed_up(training: Training, batch: int) -> float:
    """Return the time of a step with so many images."""
    budget = training.budget
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        model = training.untrained(0, torch.device("cpu"))
        weights = Weights.of(model, budget.ema, budget.weight_decay)
        jepa = isinstance(training.objective, JepaObjective)
        average = weights.average.module if jepa else None
        parts = (weights, training.objective, budget.clip, generator)
        step = Step(*parts, average=average, view=training.view)
        stream = Stream(training.world, batch, seed=0)
        examples = ((each.image, training.conditioner(each.scenes, generator)) for each in stream)
        taken = train(step, examples, budget.rate, range(1, WARM_UP + STEPS + 1))
        times = [time.perf_counter() for _ in taken]
        return (times[-1] - times[WARM_UP - 1]) / STEPS
