"""How well the shipped reader sees Blender's CLEVR: images it was never trained on.

    python -m benchmarks.detector       # prints the numbers, keeps them in results/fidelity.csv

The images are those of tests/data/clevr_reference, 128 pixels, 1 to 10 objects: 50 with the camera
and lamps at their places, 40 jittered. Target: exact count >= 0.90.
"""

import json
import sys
import time
from pathlib import Path

from benchmarks.fidelity import FOLDER, ROOT, stacked
from torch import Tensor

from recombine import zoo
from recombine.measure.detection import reading_errors, together, truth_of
from recombine.measure.subject import Findings
from recombine.measurement import Measurement
from recombine.reader import Found, Reader
from recombine.report.origin import device_name
from recombine.report.table import quoted
from recombine.results import Origin, Results, keep, rows
from recombine.worlds.clevr import Clevr
from recombine.worlds.scene_file import read

SPLITS = ("fixed", "jittered")


def reference(split: str) -> tuple[Tensor, Found]:
    """Return Blender's images and the objects in them."""
    data = json.loads((FOLDER / f"{split}_scenes.json").read_text())
    scenes, _ = read(data, Clevr(size=128))
    images = stacked(FOLDER / f"{split}_images.png")
    return images.permute(0, 3, 1, 2) / 255, truth_of(scenes)


def measured(reader: Reader) -> dict[str, Measurement]:
    """Return the reader's errors on each split and on all images."""
    found: list[Found] = []
    truth: list[Found] = []
    errors: dict[str, Measurement] = {}
    for split in SPLITS:
        images, there = reference(split)
        found.append(reader(images))
        truth.append(there)
        errors |= reading_errors(found[-1], there, Clevr.factors, f"@{split}")
    return reading_errors(together(found), together(truth), Clevr.factors) | errors


def main() -> None:
    """Print the rates and keep the record."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "results"
    started = time.perf_counter()
    reader = zoo.detector()
    errors = measured(reader)
    for name, each in errors.items():
        print(f"{name:28} {quoted(each)}")
    folder.mkdir(exist_ok=True)
    command, seconds = "python -m benchmarks.detector", time.perf_counter() - started
    origin = Origin("fidelity", "detector", 0, device_name("cpu"), seconds=seconds, command=command)
    keep([Results(origin, rows(Findings(errors), reader="detector"))], folder)
    print(f"wrote fidelity.csv to {folder.name}")


if __name__ == "__main__":
    main()
