"""Which runs are trained as one stack, and the steps of a stack or of a run that is none."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from recombine.data import batch_of
from recombine.graph import GraphedStep
from recombine.run.plan import Plan
from recombine.run.session import Diverged, Interrupted, Session
from recombine.spelling import spelled
from recombine.stacked import StackedStep
from recombine.train import OneStep, train

AT_ONCE = 8
"""Networks that may be trained at once: torch compiles no more of a kind. A stack is one."""

Unit: TypeAlias = list[Session]
"""Runs that take their steps as one; mostly a single one."""


def architecture(plan: Plan) -> dict[str, str] | None:
    """Return what runs of a stack have in common, by field; nothing for a run to be left alone.

    They may differ in world, seed, learning rate and the values of their conditions. Networks with
    convolutions are left alone: batched over weights, these are slower than one after another.
    """
    training = plan.trained.training
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        network = training.objective.wrap(training.network.build())
    if any(isinstance(each, nn.Conv2d) for each in network.modules()):
        return None
    scenes = batch_of(training.world, torch.arange(1), plan.seed).scenes
    condition = training.conditioner(scenes, torch.Generator())
    common = ("network", "objective", "view")
    return {
        **{name: spelled(getattr(training, name)) for name in common},
        "budget": spelled(replace(training.budget, learning_rate=1e-9)),
        "size of images": str(training.world.size),
        "condition": f"{condition.dtype} {tuple(condition.shape)}",
    }


def units(plans: Sequence[Plan], stacked: bool = True) -> list[list[int]]:
    """Return the numbers of the plans of each architecture, in the order of the first ones."""
    found: list[tuple[dict[str, str] | None, list[int]]] = []
    for number, plan in enumerate(plans):
        mine = architecture(plan) if stacked and len(plans) > 1 else None
        same = [those for kind, those in found if mine is not None and kind == mine]
        if same:
            same[0].append(number)
        else:
            found.append((mine, [number]))
    return [those for _, those in found]


def groups(plans: Sequence[Plan], at_once: int, stacked: bool = True) -> list[list[Plan]]:
    """Return which plans are trained at once: so many, of no more than AT_ONCE architectures.

    Cells that share a folder come after each other: the later ones only measure.
    """
    folders = [plan.folder(Path()) for plan in plans]
    again = [plan for at, plan in enumerate(plans) if folders[at] in folders[:at]]
    if again and at_once > 1:
        plans = [plan for at, plan in enumerate(plans) if folders[at] not in folders[:at]]
        return groups(plans, at_once, stacked) + groups(again, at_once, stacked)
    found: list[list[list[int]]] = []
    for unit in units(plans, stacked and at_once > 1):
        for part in (unit[at : at + at_once] for at in range(0, len(unit), at_once)):
            before = found[-1] if found else []
            full = len(before) == AT_ONCE or sum(map(len, before)) + len(part) > at_once
            if full or not found:
                found.append([])
            found[-1].append(part)
    return [[plans[number] for number in chain.from_iterable(each)] for each in found]


def check_count(plans: Sequence[Plan], count: int) -> None:
    """Raise unless no more networks are to be trained at once than torch compiles."""
    if 1 <= count <= AT_ONCE:
        return
    raise ValueError(
        f"1 to {AT_ONCE} networks are trained at once, and runs of one architecture count as one; "
        f"got {count}, which differ in {differing(plans)}"
    )


def differing(plans: Sequence[Plan]) -> str:
    """Return in words why plans are no stack."""
    every = [architecture(plan) for plan in plans]
    known = [each for each in every if each is not None]
    names = [name for name in known[0] if len({each[name] for each in known}) > 1] if known else []
    convolve = ["convolutions, which are not stacked"] * (len(known) < len(every))
    return ", ".join([*names, *convolve]) or "nothing: there are several processes"


def in_step(sessions: Sequence[Session], alike: Sequence[Sequence[int]]) -> list[Unit]:
    """Return the units of runs: those of an architecture that stand at the same step."""

    def stands(session: Session) -> int:
        return session.stream.step

    found: list[Unit] = []
    for unit in alike:
        those = sorted((sessions[number] for number in unit), key=stands)
        found += [list(each) for _, each in groupby(those, key=stands)]
    return found


def steps(unit: Unit, stop: threading.Event, diverged: dict[Session, Diverged]) -> Iterator[None]:
    """Take the steps that are left, one at a time; look, measure and save on the way.

    A run that diverges is noted and its numbers are not looked at any more; the others go on.
    """
    first = unit[0]
    for taken in train(_step(unit), _batches(unit), _rate(unit), first.left):
        stopping, interrupted = stop.is_set(), None
        for session, loss in zip(unit, taken.loss.reshape(-1).unbind(), strict=True):
            if session in diverged:
                continue
            try:
                session.took(taken.index, loss, stopping)
            except Diverged as error:
                diverged[session] = error
            except Interrupted as error:
                interrupted = error
        if interrupted:
            raise interrupted
        if all(session in diverged for session in unit):
            return
        yield


def _step(unit: Unit) -> OneStep:
    """Return what takes a step of the unit, on one GPU as a graph."""
    first = unit[0]
    step: Any = first.step()
    if first.stacked:
        step = StackedStep([session.step() for session in unit], first.compiles)
    on_gpu = first.accelerator.device.type == "cuda"
    return GraphedStep(step) if on_gpu and not first.share else step


def _batches(unit: Unit) -> Iterator[tuple[Tensor, Tensor]]:
    if not unit[0].stacked:
        yield from unit[0].examples()
    for each in zip(*(session.examples() for session in unit), strict=True):
        images, conditions = zip(*each, strict=True)
        yield torch.stack(images), torch.stack(conditions)


def _rate(unit: Unit) -> Callable[[int], Any]:
    rates = [session.cell.training.budget.rate for session in unit]
    return (lambda step: [rate(step) for rate in rates]) if unit[0].stacked else rates[0]
