"""`recombine bench`: how fast we are, as ratios to named peers in one run."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro

from recombine.bench import linear, local, locality, render, sample, stacked, train
from recombine.commands import choice
from recombine.commands.console import print_json, say
from recombine.commands.grammar import UNSET, Device, Json
from recombine.commands.render import given
from recombine.measure.subject import Findings
from recombine.measurement import Measurement
from recombine.report.origin import device_name
from recombine.report.table import quoted
from recombine.results import Origin, Results, keep
from recombine.results.findings import rows
from recombine.worlds.clevr import Clevr

OTHERS = {
    "train": train.measured,
    "stacked": stacked.measured,
    "sample": sample.measured,
    "local": local.measured,
    "locality": locality.measured,
    "linear": linear.measured,
}


@dataclass(frozen=True)
class BenchOptions:
    """Measure speed as a ratio to a named peer; nothing else should run meanwhile.

    render: CLEVR scenes at 128 px against Blender, on a GPU at 64 px too. train and sample: our
    U-Net against one of about the same size from diffusers, where that is installed. local: one
    pass against 256.
    linear: Swing-by trajectories against scipy's solver, one by one.
    locality: influence on all pixels against a backward pass per pixel and channel.

    Example: recombine bench render --seconds 5 --json
    """

    what: Annotated[
        Literal["render", "train", "stacked", "sample", "local", "locality", "linear"],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="WHAT"),
    ]
    """What is measured: render, train, stacked, sample, local, locality or linear."""
    seconds: float = 5.0
    """How long to repeat each measurement."""
    scenes: Annotated[Path | None, UNSET] = None
    """render: a CLEVR scenes file (default: five scenes each of one to ten objects)."""
    with_blender: Annotated[Path | None, UNSET] = None
    """render: a Python that has bpy, to measure Blender here and now on the same scenes."""
    device: Device = None
    save: Annotated[Path | None, UNSET] = None
    """Keep the numbers in this folder of results."""
    json: Json = False


def run(options: BenchOptions) -> None:
    """Measure, print the result and keep the record."""
    if not options.seconds > 0:
        raise ValueError(f"--seconds is more than 0; got {options.seconds}")
    device = choice.chosen_device(options.device)
    started = time.perf_counter()
    found = measured(options, device)
    if options.save:
        keep([results(options, device, found, time.perf_counter() - started)], options.save)
    if options.json:
        print_json(options.what, found)
        return
    for name, each in found.items():
        say(f"{name:38} {quoted(each)}")


def measured(options: BenchOptions, device: torch.device) -> dict[str, Measurement]:
    """Run the benchmark that the options name."""
    if options.what == "render":
        scenes = given(options.scenes, Clevr(size=128))[0] if options.scenes else None
        return render.measured(scenes, options.with_blender, device, options.seconds)
    for name in ("scenes", "with_blender"):
        if getattr(options, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')} is for bench render, not {options.what}")
    return OTHERS[options.what](device, options.seconds)


def results(
    options: BenchOptions, device: torch.device, found: dict[str, Measurement], seconds: float
) -> Results:
    """Return the numbers as results; the cell is named after what ran and where, train_h200."""
    name = device_name(device)
    where = name.split()[-1].lower() if device.type == "cuda" else device.type
    words = ["recombine bench", options.what]
    words += ["--with-blender PYTHON"] if options.with_blender else []
    words += [f"--scenes {options.scenes}"] if options.scenes else []
    cell, command = f"{options.what}_{where}", " ".join(words)
    origin = Origin("bench", cell, 0, name, seconds=seconds, command=command)
    return Results(origin, rows(Findings(found)))
