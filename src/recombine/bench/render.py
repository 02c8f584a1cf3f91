"""Scenes rendered per second, beside Blender."""

import json
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from recombine.bench import blender_peer
from recombine.bench.timing import known, over, speed
from recombine.measurement import Measurement
from recombine.render import engine, kernel
from recombine.scene import Scenes, concatenate
from recombine.worlds.clevr import Clevr, stage
from recombine.worlds.scene_file import write

BLENDER_SECONDS = 1.2
"""One 128 px image on 2 cores, measured with the reference renders (their README)."""
BLENDER_IMAGES = 10


def measured(
    scenes: Scenes | None, python: Path | None, device: torch.device, seconds: float
) -> dict[str, Measurement]:
    """Measure Blender, or take its stated time, and then ourselves on the same scenes."""
    scenes = one_to_ten() if scenes is None else scenes
    peer = known(1 / BLENDER_SECONDS) if python is None else blender(python, scenes)
    ours = on_cpu if device.type == "cpu" else on_gpu
    return {"images_per_second@blender": peer} | ours(scenes, seconds, device, peer)


def one_to_ten() -> Scenes:
    """Return five scenes each of one to ten objects, as the reference set has."""
    five = torch.arange(5)
    return concatenate([Clevr(objects=(k, k)).scenes(five, seed=0) for k in range(1, 11)])


def blender(python: Path, scenes: Scenes) -> Measurement:
    """Return the images per second of Blender, run by a Python that has it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "scenes.json"
        names = [f"{k}.png" for k in range(len(scenes))]
        path.write_text(json.dumps(write(scenes, Clevr(size=128), names)))
        command = [str(python), blender_peer.__file__, str(path), str(BLENDER_IMAGES)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            said = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
            raise ValueError(f"--with-blender {python} did not render: {said[-1]}") from error
    line = next(line for line in done.stdout.splitlines() if line.startswith("BLENDER "))
    seconds = json.loads(line.removeprefix("BLENDER "))["seconds"]
    # The first image loads Blender's own parts.
    return Measurement.mean([1 / each for each in seconds[1:]])


def on_cpu(
    scenes: Scenes, seconds: float, device: torch.device, peer: Measurement
) -> dict[str, Measurement]:
    """Measure the ray caster in tensor operations, and the kernel where it compiles."""
    pictures = stage(scenes)
    ways: dict[str, Callable[[], object]] = {"eager": partial(engine.twin_picture, pictures, 128)}
    if kernel.available(device):
        ways["kernel"] = partial(kernel.trace, pictures, 128)
    found = {}
    for name, work in ways.items():
        found[f"images_per_second@{name}"] = rate = speed(work, len(scenes), seconds)
        found[f"ratio@{name}"] = over(rate, peer)
    return found


def on_gpu(
    scenes: Scenes, seconds: float, device: torch.device, peer: Measurement
) -> dict[str, Measurement]:
    """Measure the time to the first batch, and the speed of large batches after it."""
    torch.zeros(1, device=device)
    started = time.perf_counter()
    world = Clevr(size=64, objects=(1, 3))
    world.image(world.scenes(torch.arange(256, device=device), seed=0))
    torch.cuda.synchronize(device)
    found = {"first_batch_seconds": known(time.perf_counter() - started)}
    index = torch.arange(4096, device=device)
    for objects in ((1, 3), (10, 10)):
        world = Clevr(size=64, objects=objects)
        name = f"64px_{objects[0]}-{objects[1]}_objects"
        found[f"scenes_per_second@{name}"] = speed(
            partial(world.scenes, index, 0), len(index), seconds
        )
        picture = partial(engine.picture, stage(world.scenes(index, seed=0)), 64)
        found[f"images_per_second@{name}"] = speed(picture, len(index), seconds)
    many = concatenate([scenes] * max(1, 2048 // len(scenes))).to(device)
    rate = speed(partial(engine.picture, stage(many), 128), len(many), seconds)
    return found | {"images_per_second@128px": rate, "ratio@128px": over(rate, peer)}
