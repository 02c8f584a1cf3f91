"""`recombine bench`: how fast we are, as ratios to named peers in one run."""

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

import torch
import tyro

from recombine.commands import blender_peer, choice
from recombine.commands.console import print_json, say
from recombine.commands.parse import UNSET
from recombine.commands.render import given
from recombine.render import engine, kernel
from recombine.report.origin import device_name
from recombine.report.record import Measurement, Record
from recombine.report.table import number
from recombine.scene import Scenes, concatenate
from recombine.worlds.clevr import Clevr, stage
from recombine.worlds.scene_file import write

BLENDER_SECONDS = 1.2
"""One 128 px image on 2 cores, measured with the reference renders (their README)."""
FEWEST_ROUNDS = 3


@dataclass(frozen=True)
class Options:
    """Measure speed as a ratio to a named peer; nothing else should run meanwhile.

    render: CLEVR scenes of one to ten objects at 128 px against Blender, and on a GPU at 64 px too.

    Example: recombine bench render --seconds 5 --json
    """

    what: Annotated[Literal["render"], tyro.conf.Positional]
    """What is measured."""
    seconds: float = 5.0
    """How long to repeat each measurement."""
    scenes: Annotated[Path | None, UNSET] = None
    """A CLEVR scenes file (default: five scenes each of one to ten objects)."""
    with_blender: Annotated[Path | None, UNSET] = None
    """A Python that has bpy: measures Blender here and now, on the same scenes."""
    device: Annotated[str | None, UNSET] = None
    """Where to measure: cpu, cuda, cuda:1 (default: the accelerator if there is one)."""
    save: Annotated[Path | None, UNSET] = None
    """Write a record to this file."""
    json: bool = False
    """Print one JSON object and nothing else on standard output."""


def run(options: Options) -> None:
    """Measure, say what came out and keep the record."""
    if not options.seconds > 0:
        raise ValueError(f"--seconds is more than 0; got {options.seconds}")
    device = choice.chosen_device(options.device)
    started = time.perf_counter()
    scenes = chosen_scenes(options.scenes)
    measured = blender(options.with_blender, scenes)
    if device.type == "cpu":
        measured |= on_cpu(scenes, options.seconds, measured["images_per_second@blender"])
    else:
        measured |= on_gpu(scenes, options.seconds, device, measured["images_per_second@blender"])
    if options.save:
        record(options, device, measured, time.perf_counter() - started).save(options.save)
    if options.json:
        print_json({"subject": "render", "measurements": shown(measured)})
        return
    for name, each in measured.items():
        say(f"{name:34} {number(each.value):>12}  (n {each.n})")


def chosen_scenes(path: Path | None) -> Scenes:
    """Return the scenes of a file, or five each of one to ten objects."""
    if path is not None:
        return given(path, Clevr(size=128), None)[0]
    five = torch.arange(5)
    return concatenate([Clevr(objects=(k, k)).scenes(five, seed=0) for k in range(1, 11)])


def blender(python: Path | None, scenes: Scenes) -> dict[str, Measurement]:
    """Return Blender's speed: as stated, or measured by a Python that has it."""
    if python is None:
        return {"images_per_second@blender": Measurement(1 / BLENDER_SECONDS, None, None, n=1)}
    say("rendering ten of the scenes with Blender ...")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "scenes.json"
        names = [f"{k}.png" for k in range(len(scenes))]
        path.write_text(json.dumps(write(scenes, Clevr(size=128), names)))
        command = [str(python), blender_peer.__file__, str(path), "10"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
            raise ValueError(f"--with-blender {python} did not render: {said[-1]}") from error
    line = next(line for line in done.stdout.splitlines() if line.startswith("BLENDER "))
    seconds = json.loads(line.removeprefix("BLENDER "))["seconds"]
    # The first image loads Blender's own parts.
    return {"images_per_second@blender": Measurement.mean([1 / each for each in seconds[1:]])}


def on_cpu(scenes: Scenes, seconds: float, peer: Measurement) -> dict[str, Measurement]:
    """Measure the ray caster in tensor operations, and the kernel where it compiles."""
    pictures = stage(scenes)
    ways: dict[str, Callable[[], object]] = {"eager": partial(engine.twin_picture, pictures, 128)}
    if kernel.available(torch.device("cpu")):
        ways["kernel"] = partial(kernel.trace, pictures, 128)
    measured = {}
    for name, work in ways.items():
        rate = speed(work, len(scenes), seconds)
        measured[f"images_per_second@{name}"] = rate
        measured[f"ratio@{name}"] = over(rate, peer)
    return measured


def on_gpu(
    scenes: Scenes, seconds: float, device: torch.device, peer: Measurement
) -> dict[str, Measurement]:
    """Measure the time to the first batch, and the speed of large batches after it."""
    torch.zeros(1, device=device)
    started = time.perf_counter()
    world = Clevr(size=64, objects=(1, 3))
    world.image(world.scenes(torch.arange(256, device=device), seed=0))
    torch.cuda.synchronize(device)
    first = time.perf_counter() - started
    measured = {"first_batch_seconds": Measurement(first, None, None, n=1)}
    for objects in ((1, 3), (10, 10)):
        world = Clevr(size=64, objects=objects)
        index = torch.arange(4096, device=device)
        name = f"64px_{objects[0]}-{objects[1]}_objects"
        places = speed(lambda w=world, i=index: w.scenes(i, 0), len(index), seconds)  # type: ignore[misc]
        picture = partial(engine.picture, stage(world.scenes(index, seed=0)), 64)
        measured[f"scenes_per_second@{name}"] = places
        measured[f"images_per_second@{name}"] = speed(picture, len(index), seconds)
    many = concatenate([scenes] * (2048 // len(scenes))).to(device)
    rate = speed(partial(engine.picture, stage(many), 128), len(many), seconds)
    return measured | {"images_per_second@128px": rate, "ratio@128px": over(rate, peer)}


def speed(work: Callable[[], object], images: int, seconds: float) -> Measurement:
    """Return images per second over repeated rounds, the first of which does not count."""
    rates: list[float] = []
    _timed(work)
    stop = time.perf_counter() + seconds
    while len(rates) < FEWEST_ROUNDS or time.perf_counter() < stop:
        rates.append(images / _timed(work))
    return Measurement.mean(rates)


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - started


def over(rate: Measurement, peer: Measurement) -> Measurement:
    """Return how many times faster than the peer; the interval is that of our rate."""
    low, high = (None if end is None else end / peer.value for end in (rate.low, rate.high))
    return Measurement(rate.value / peer.value, low, high, n=rate.n)


def record(
    options: Options, device: torch.device, measured: dict[str, Measurement], seconds: float
) -> Record:
    """Return what is kept of this run."""
    headline = [name for name in measured if name.startswith("ratio@")]
    # Where this machine keeps its files is nobody's business.
    declared = replace(options, save=None, with_blender=None, json=False)
    return Record(
        question=f"How much faster than Blender are scenes rendered ({device.type})?",
        command="recombine bench render",
        experiment=repr(declared),
        seed=0,
        device=device_name(device),
        seconds=seconds,
        measurements=measured,
        headline=tuple(headline),
    )


def shown(measured: dict[str, Measurement]) -> dict[str, dict[str, float | int | None]]:
    """Return measurements as the command line prints them."""
    return {
        name: {"value": each.value, "low": each.low, "high": each.high, "n": each.n}
        for name, each in measured.items()
    }
