"""`recombine probe`: train a reader of your own factors, and say how far it can be trusted."""

import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import tyro

from recombine import run as runner
from recombine.checkpoint import Checkpoint
from recombine.commands import choice, console
from recombine.commands.console import print_json, say, show_table
from recombine.commands.grammar import Device, Json
from recombine.commands.run import watching
from recombine.condition import Conditioner, all_objects
from recombine.measure.held_out_error import HeldOutError
from recombine.models.probe import Probe
from recombine.objectives.classification import Classification, concepts
from recombine.report.table import duration, interval
from recombine.run import Kept, Plan
from recombine.run.state import checkpoints
from recombine.study import Cell
from recombine.train import cosine
from recombine.training import Budget, Training
from recombine.views import Unchanged
from recombine.worlds.files.images import ImageFolder
from recombine.zoo import probes

FAILED, INTERRUPTED = 1, 130


@dataclass(frozen=True)
class ProbeOptions:
    """Train a probe on labelled images, measure it on others, and keep it in OUT.

    The table of labels has a column called file; every other column is a factor. The probe also
    learns to say "none of these". The same command again goes on where it was stopped.

    Example: recombine probe photos --labels labels.csv --out my_probe
    """

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
    """Folder of the images: PNG, JPEG, TIFF or WebP."""
    labels: Path = Path("labels.csv")
    """Table of the labels, in the folder or anywhere."""
    out: Path = Path("my_probe")
    """Folder for the probe."""
    size: int = 64
    """Side in pixels to which images are brought."""
    fit: str = "crop"
    """How they become square: crop keeps the middle, stretch all."""
    tested: float = 0.2
    """Share of the images of each composition to measure on; the others are learned from."""
    steps: int = 1000
    """Steps of training, of 64 images each."""
    width: int = 48
    """Channels of the network's first layer."""
    seed: int = 0
    """Which start and order of images."""
    tiny: bool = False
    """Shrink to seconds: does it run at all?"""
    device: Device = None
    json: Json = False


def run(options: ProbeOptions) -> int:
    """Train, measure, and write the probe into one file."""
    plan = planned(options)
    try:
        kept = trained(plan, options)
    except (runner.Interrupted, runner.Diverged) as stop:
        say(f"recombine: {stop}")
        return INTERRUPTED if isinstance(stop, runner.Interrupted) else FAILED
    newest = Checkpoint.load(checkpoints(plan.folder(options.out))[0])
    path = probes.pack(newest, probe_of(plan), kept.measurements, options.out / probes.FILE)
    if options.json:
        print_json(str(path), kept.measurements, alarms=[*kept.alarms])
        return 0
    rows = [
        (name, interval(each.value, each.low, each.high), str(each.n))
        for name, each in kept.measurements.items()
    ]
    show_table(("measurement", "value [95 % interval]", "images"), rows)
    for text in kept.alarms:
        say(f"alarm: {text}")
    say(f'{path} is written in {duration(kept.seconds)}; a measurement reads by reader="{path}"')
    return 0


def planned(options: ProbeOptions) -> Plan:
    """Return what is trained; what is wrong with the table is said before anything starts."""
    world = ImageFolder(
        options.folder, options.labels, options.size, options.fit, tested=options.tested
    )
    of = Probe(options.size, world.factors, options.width, rejects=True)
    training = Training(
        world=world,
        network=of,
        budget=Budget(options.steps, 64, 1e-3, warm_up=50, decay=cosine, ema=0.99),
        conditioner=Conditioner(all_objects, concepts),
        objective=Classification(tuple(of.counts), own_debris=True),
        view=Unchanged(),
    )
    cell = Cell(training, measures=(HeldOutError(),), seeds=(options.seed,))
    return Plan(
        study="probe",
        cell="own",
        declared=cell.tiny() if options.tiny else cell,
        levels={},
        seed=options.seed,
        shared="own",
        tiny=options.tiny,
        typed=typed(options),
    )


def typed(options: ProbeOptions) -> str:
    """Return the command with every option that is not the usual one and that numbers depend on."""
    words = ["recombine", "probe", str(options.folder)]
    for each in fields(options):
        value = getattr(options, each.name)
        if each.name not in ("folder", "device", "json") and value != each.default:
            words += [f"--{each.name}"] if value is True else [f"--{each.name}", str(value)]
    return shlex.join(words)


def probe_of(plan: Plan) -> Probe:
    """Return the network that a plan trains."""
    network = plan.trained.training.network
    assert isinstance(network, Probe)
    return network


def trained(plan: Plan, options: ProbeOptions) -> Kept:
    """Train and measure, or return the results that are there."""
    accelerator = runner.machine(choice.chosen_device(options.device))
    with console.bar() as bar:
        settings = runner.Settings(options.out, watch=watching(plan, bar))
        (kept,) = runner.together([plan], accelerator, [settings])
    if kept is None:
        raise ValueError("a probe is trained by one process")
    return kept
