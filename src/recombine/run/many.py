"""Several runs at once, a step of each in turn; their numbers are those of runs alone."""

import threading
from collections.abc import Sequence

import torch
from accelerate import Accelerator

from recombine.run.devices import own_stream
from recombine.run.kept import Kept
from recombine.run.plan import Plan
from recombine.run.session import Diverged, Interrupted, Session, Settings
from recombine.run.state import checkpoints
from recombine.train import interruptible

AT_ONCE = 8
"""Runs that may be trained at once: torch compiles no more networks of a kind."""


def together(
    plans: Sequence[Plan], accelerator: Accelerator, settings: Sequence[Settings]
) -> list[Kept | None]:
    """Train, measure and write the results of several plans; only the first process has them.

    Small networks leave much of a GPU idle: there each run has a stream of its own. A run that
    diverges is reported when the others are done.
    """
    folders = [str(plan.folder(each.out)) for plan, each in zip(plans, settings, strict=True)]
    if twice := [each for each in folders if folders.count(each) > 1]:
        raise ValueError(f"one run at a time writes into a folder; got {twice[0]} twice")
    if not 1 <= len(plans) <= AT_ONCE:
        raise ValueError(f"1 to {AT_ONCE} runs are trained at once; got {len(plans)}")
    sessions: list[Session] = []
    try:
        for plan, each in zip(plans, settings, strict=True):
            sessions.append(Session(plan, accelerator, each, len(plans)))
            sessions[-1].open()
        with interruptible() as stop:
            diverged = _in_turn(sessions, stop)
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


def _in_turn(sessions: Sequence[Session], stop: threading.Event) -> dict[Session, Diverged]:
    """Take a step of each in turn; before a stop, all are saved. Return those that diverged."""
    device = sessions[0].accelerator.device
    diverged: dict[Session, Diverged] = {}
    interrupted = None
    left = {each: (each.steps(stop), own_stream(device, len(sessions))) for each in sessions}
    while left:
        for session, (steps, here) in tuple(left.items()):
            try:
                with here:
                    next(steps)
                continue
            except StopIteration:
                pass
            except Interrupted as error:
                interrupted = error
            except Diverged as error:
                diverged[session] = error
            del left[session]
            session.keep_time(0)
            for other in left:
                other.keep_time(len(left))
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    if interrupted:
        raise interrupted
    return diverged
