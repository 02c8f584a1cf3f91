"""From a plan to its results: the one chapter that knows files, devices, clocks and seeds.

A run is a folder. Whatever stops it, the same command goes on from its last checkpoint, and on a
CPU the weights and metrics are, to the bit, those of a run that was never stopped.

plan      what is to be run, and its folder       session   one run in progress
state     checkpoints and metrics                 many      several runs at once
lock      one process to a folder                 model     a trained model: sample it, measure it
kept      the results of a run                    compute   a question answered without training
devices   GPUs, processes, streams
"""

from recombine.called import also_a_function
from recombine.run.compute import compute
from recombine.run.devices import machine
from recombine.run.kept import Kept
from recombine.run.many import AT_ONCE, together
from recombine.run.model import Model, load, loaded, plan_of
from recombine.run.plan import Plan, planned
from recombine.run.session import Diverged, Interrupted, Session, Settings, Watch

__all__ = [
    "AT_ONCE",
    "Diverged",
    "Interrupted",
    "Kept",
    "Model",
    "Plan",
    "Session",
    "Settings",
    "Watch",
    "compute",
    "load",
    "loaded",
    "machine",
    "plan_of",
    "planned",
    "together",
]
also_a_function(__name__)
