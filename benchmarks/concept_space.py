"""Concept space over all runs: the linear theory fitted to them, and a GIF.

    python benchmarks/concept_space.py runs/concept_space [results]

Keeps the theory in the results as the cell `theory` of the study, and draws the trajectories as
docs/figures/concept_space.gif. The theory has a single free number, its time scale, fitted to the
runs of all separations at once.
"""

import io
import sys
from collections.abc import Sequence
from functools import cache
from math import exp, log, sqrt
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from PIL import Image
from scipy.optimize import minimize_scalar
from torch import Tensor

from recombine.figures.concept_space import THEORY, Line, lines
from recombine.linear.sim import Sim
from recombine.linear.symmetric import jacobian, trajectories
from recombine.measure.concept_space import signals
from recombine.measure.subject import Findings
from recombine.measurement import Measurement
from recombine.report.files import write_bytes
from recombine.report.table import number
from recombine.results import Origin, Results, keep, read, rows, table
from recombine.results.store import files
from recombine.studies.concept_space import world
from recombine.worlds.circles import Circles

PICTURE = Path("docs/figures/concept_space.gif")


class Course(NamedTuple):
    """Measured coordinates at steps of training."""

    steps: Float[Tensor, " time"]
    coordinates: Float[Tensor, "time axis"]


class Theory(NamedTuple):
    """Coordinates at moments of the theory's own time, from 0 on."""

    moments: Float[Tensor, " moment"]
    coordinates: Float[Tensor, "moment axis"]

    def at(self, steps: Float[Tensor, " time"], scale: float) -> Float[Tensor, "time axis"]:
        """Return the coordinates when a unit of time is `scale` steps; straight between moments."""
        time = (steps.to(self.moments) / scale).clamp(max=float(self.moments[-1]))
        after = torch.searchsorted(self.moments, time).clamp(1, len(self.moments) - 1)
        begin, end = self.moments[after - 1], self.moments[after]
        return torch.lerp(
            self.coordinates[after - 1],
            self.coordinates[after],
            ((time - begin) / (end - begin))[:, None],
        )


class TimeScale(NamedTuple):
    """Steps to a unit of the theory's time, and the root mean square distance that is left."""

    steps: float
    error: float


def time_scale(courses: Sequence[Course], theories: Sequence[Theory]) -> TimeScale:
    """Fit one time scale to all courses at once, every one beside its own theory."""

    def error(log_scale: float) -> float:
        scale = exp(log_scale)
        apart = [
            (theory.at(course.steps, scale) - course.coordinates.to(theory.moments)).square()
            for course, theory in zip(courses, theories, strict=True)
        ]
        return float(torch.cat([each.flatten() for each in apart]).mean())

    # The error may have several valleys: look everywhere, then closely at the deepest.
    first = min(float(course.steps.min()) for course in courses)
    last = max(float(course.steps.max()) for course in courses)
    longest = max(float(theory.moments[-1]) for theory in theories)
    shortest = min(float(theory.moments[1]) for theory in theories)
    ends = log(first / longest), log(last / shortest)
    places = torch.linspace(*ends, 400, dtype=torch.float64).tolist()
    best, gap = min(places, key=error), places[1] - places[0]
    close = minimize_scalar(error, bounds=(best - gap, best + gap), method="bounded")
    return TimeScale(exp(close.x), float(close.fun) ** 0.5)


@cache
def theory(world: Circles, size: float = 0.1, correlation: float = 0.99) -> Theory:
    """Return the course of two tied linear layers on clusters as far apart as these concepts.

    Red and big is the origin; the deviations are those of the world's own law along each axis. The
    start is W = size [[1, correlation], [correlation, 1]]; only a time scale is left to be fitted.
    """
    means = torch.tensor(signals(world)).double()
    # A channel swings by 1/8 of the separation, two of them make the axis; a radius by 3/8.
    deviations = means * torch.tensor([sqrt(2 / 3) / 16, sqrt(1 / 3) * 3 / 8]).double()
    task = Sim(tuple(means.tolist()), tuple(deviations.tolist()), 2, origin=True)
    identity = torch.eye(2).double()
    start = torch.linalg.cholesky(size * (correlation + (1 - correlation) * identity))
    moments = torch.linspace(0, 1, 401).double() ** 2 * 12 / float(task.rates.min())
    course = trajectories(start, task.rates, moments, 1e-9, lambda u: jacobian(u) @ task.target)
    return Theory(moments, course / task.target)


def course(line: Line) -> Course:
    """Return the mean course over seeds."""
    found = torch.tensor(line.mean).double()
    return Course(found[:, 0], found[:, 1:3])


def fitted(drawn: Sequence[Line]) -> Findings:
    """Return the time scale, what is left of the distance, and the courses of the theory."""
    if not drawn:
        raise ValueError("no run of concept_space has samples that are circles: nothing to fit")
    laws = [theory(world(line.separation)) for line in drawn]
    fit = time_scale([course(line) for line in drawn], laws)
    found = {
        f"theory_{name}": Measurement(value, None, None, n=len(drawn))
        for name, value in (("steps", fit.steps), ("error", fit.error))
    }
    curves = {
        f"{name}@{line.separation:g}": each
        for line, law in zip(drawn, laws, strict=True)
        for name, each in zip(THEORY, expected(line, law, fit.steps), strict=True)
    }
    return Findings(found, curves)


def expected(line: Line, law: Theory, scale: float) -> list[list[list[float]]]:
    """Return the curves of blue, small and the error of the theory at the steps of the runs."""
    steps = course(line).steps
    places = law.at(steps, scale)
    error = (places - 1).square().mean(dim=1)
    columns = [*places.T.tolist(), error.tolist()]
    return [list(map(list, zip(steps.tolist(), each, strict=True))) for each in columns]


def frame(drawn: Sequence[Line], step: int) -> Image.Image:
    """Return the plane of concepts up to a step."""
    figure = Figure(figsize=(3.6, 3.7), dpi=100, layout="constrained")
    axes = figure.subplots()
    for line in drawn:
        past = [row for row in line.mean if row[0] <= step]
        if past:
            places = [row[1] for row in past], [row[2] for row in past]
            axes.plot(*places, color=line.colour, linewidth=1.4, label=f"{line.separation:g}")
            axes.plot(*([each[-1]] for each in places), "o", color=line.colour, markersize=5)
    axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
    axes.set(xlabel="share of blue", ylabel="share of small", title=f"step {step:,}")
    if axes.lines:
        axes.legend(loc="lower left", fontsize=7, frameon=False, title="colours apart by")
    content = io.BytesIO()
    figure.savefig(content, format="png")
    return Image.open(content).convert("P", palette=Image.Palette.ADAPTIVE, colors=32)


def animated(drawn: Sequence[Line]) -> bytes:
    """Return the trajectories as a GIF, one frame per milestone; the last one stays."""
    steps = sorted({int(row[0]) for line in drawn for row in line.mean})
    if not steps:
        raise ValueError("no run of concept_space has samples that are circles: nothing to show")
    first, *rest = [frame(drawn, step) for step in steps]
    content = io.BytesIO()
    times = [150] * len(rest) + [2500]
    first.save(content, "GIF", save_all=True, append_images=rest, duration=times, loop=0)
    return content.getvalue()


def main(folder: Path, out: Path) -> None:
    """Read every run, keep the theory and draw the GIF, and say what came out."""
    runs = [each for path in files(folder) if "-tiny" not in str(path) for each in read(path)]
    runs = [each for each in runs if each.origin.study == "concept_space" and each.origin.levels]
    if not runs:
        raise ValueError(f"{folder} has no results of concept_space; expected the folder of runs")
    drawn = lines(table(runs))
    found = fitted(drawn)
    devices = dict.fromkeys(each.origin.device for each in runs)
    origin = Origin(
        study="concept_space",
        cell="theory",
        seed=0,
        device=", ".join(devices),
        seconds=sum(each.origin.seconds for each in runs),
        command=f"python benchmarks/concept_space.py {folder}",
    )
    (kept,) = keep([Results(origin, rows(found))], out, {})
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(PICTURE, animated(drawn))
    for name, each in found.measurements.items():
        print(name, number(each.value))
    print(f"{kept}; {PICTURE} ({PICTURE.stat().st_size:,} bytes)")


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit("usage: python benchmarks/concept_space.py RUNS [RESULTS]")
    try:
        main(Path(sys.argv[1]), Path((*sys.argv[2:], "results")[0]))
    except ValueError as error:
        sys.exit(f"concept_space: {error}")
