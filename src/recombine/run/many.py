"""Several runs at once: those of one architecture as a stack, others a step of each in turn.

On a CPU the numbers of runs in turn are those of runs alone to the bit, those of stacked runs are
up to rounding.
"""

import threading
from collections.abc import Sequence
from itertools import chain

import torch
from accelerate import Accelerator

from recombine.run.devices import own_stream
from recombine.run.kept import Kept
from recombine.run.plan import Plan
from recombine.run.session import Diverged, Interrupted, Session, Settings
from recombine.run.stack import Unit, check_count, in_step, steps, units
from recombine.run.state import checkpoints
from recombine.train import interruptible


def together(
    plans: Sequence[Plan], accelerator: Accelerator, settings: Sequence[Settings]
) -> list[Kept | None]:
    """Train, measure and write the results of several plans; only the first process has them.

    Small networks leave much of a GPU idle: there each stack, and each run that is not stacked, has
    a stream of its own. A run that diverges is reported when the others are done.
    """
    folders = [str(plan.folder(each.out)) for plan, each in zip(plans, settings, strict=True)]
    if twice := [each for each in folders if folders.count(each) > 1]:
        raise ValueError(f"one run at a time writes into a folder; got {twice[0]} twice")
    alike = units(plans, stacked=accelerator.num_processes == 1)
    check_count(plans, len(alike))
    sessions: list[Session] = []
    try:
        stacked = [number for unit in alike if len(unit) > 1 for number in unit]
        for number, (plan, each) in enumerate(zip(plans, settings, strict=True)):
            sessions.append(Session(plan, accelerator, each, len(plans), number in stacked))
            sessions[-1].open()
        with interruptible() as stop:
            diverged = _in_turn(in_step(sessions, alike), stop)
        done = [session for session in sessions if session not in diverged]
        first = accelerator.is_main_process
        found = [session.finish() if first else None for session in done]
    except KeyboardInterrupt as stopped:
        last = [path for session in sessions for path in checkpoints(session.folder)[:1]]
        at = f"saved as {', '.join(map(str, last))}" if last else "nothing is saved yet"
        raise Interrupted(f"stopped: {at}; the same command goes on from there") from stopped
    finally:
        for session in sessions:
            session.log.finish()
            session.lock.release()
    for error in diverged.values():
        raise error
    accelerator.wait_for_everyone()
    sessions.clear()
    accelerator.free_memory()
    return found


def _in_turn(units: Sequence[Unit], stop: threading.Event) -> dict[Session, Diverged]:
    """Take a step of each in turn; before a stop, all are saved. Return those that diverged."""
    working = list(chain.from_iterable(units))
    device = working[0].accelerator.device
    diverged: dict[Session, Diverged] = {}
    interrupted = None
    left = [(each, steps(each, stop, diverged), own_stream(device, len(units))) for each in units]
    while left:
        for each in tuple(left):
            unit, taking, here = each
            before, over = len(diverged), False
            try:
                with here:
                    next(taking)
            except StopIteration:
                over = True
            except Interrupted as error:
                interrupted, over = error, True
            if not over and len(diverged) == before:
                continue
            if over:
                left.remove(each)
            for session in unit:
                if over or session in diverged:
                    session.keep_time(0)
            working = [session for session in working if session.at_once]
            for session in working:
                session.keep_time(len(working))
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    if interrupted:
        raise interrupted
    return diverged
