"""From a plan to its results: the one chapter that knows files, devices, clocks and seeds.

A run is a folder. Whatever stops it, the same command goes on from its last checkpoint, and on a
CPU the weights and metrics are, to the bit, those of a run that was never stopped. Stacked runs
have the numbers of runs alone up to rounding.

plan      what is to be run, and its folder       session   one run in progress
state     checkpoints and metrics                 stack     which runs take their steps as one
lock      one process to a folder                 many      several runs at once
kept      the results of a run                    model     a trained model: sample it, measure it
devices   GPUs, processes, streams                compute   a question answered without training
needs     what must be there before it starts     estimate  how long a training takes on a CPU
record    what is known of a model                pretrained  a model as a folder, with its card
declared  declared values as data and back        trackers  log.csv, TensorBoard, trackio, wandb
"""

from recombine.called import also_a_function
from recombine.run.compute import compute
from recombine.run.devices import machine
from recombine.run.kept import Kept
from recombine.run.many import together
from recombine.run.model import Model, load, loaded, plan_of
from recombine.run.plan import Plan, planned
from recombine.run.session import Diverged, Interrupted, Session, Settings, Watch
from recombine.run.stack import groups

__all__ = [
    "Diverged",
    "Interrupted",
    "Kept",
    "Model",
    "Plan",
    "Session",
    "Settings",
    "Watch",
    "compute",
    "groups",
    "load",
    "loaded",
    "machine",
    "plan_of",
    "planned",
    "together",
]
also_a_function(__name__)
