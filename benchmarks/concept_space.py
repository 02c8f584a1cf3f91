"""Concept space over all runs: intervals over seeds, the linear theory beside them, and a GIF.

    python benchmarks/concept_space.py runs/concept_space [results/concept_space.json]

Writes one record, and the trajectories as docs/figures/concept_space.gif. The theory has a single
free number, its time scale, fitted to the runs of all separations at once.
"""

import io
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import torch
from matplotlib.figure import Figure
from PIL import Image
from recombine.experiments.concept_space import REPORTED_RISE, separated, theory
from recombine.report.record import Record

from recombine.figures.concept_space import Line, lines, separation
from recombine.measure.trajectory import Course, Theory, time_scale
from recombine.measurement import Measurement, Number
from recombine.report.files import write_bytes

OVER_SEEDS = (
    "concept_mse",
    "concept_mse_rise",
    "concept_mse_rise_circles@0.25",
    "concept_mse_rise_circles@0.9",
    "concept_mse_rise_plotted",
    "concept_mse_highest",
    "blue_lowest",
    "blue_learned_at",
    "small_learned_at",
    "blue_seen_learned_at",
    "small_seen_learned_at",
    "colour_first",
    "colour_seen_first",
    "slow_down_rate",
    "slow_down_explained",
    "slow_down_explained_by_log",
)


def course(line: Line) -> Course:
    """Return the mean course over seeds."""
    rows = torch.tensor(line.mean).double()
    return Course(rows[:, 0], rows[:, 1:3])


def over_seeds(runs: Sequence[Record], name: str) -> Measurement | None:
    """Return the mean over the seeds that have this number, with Student's interval.

    Of equal numbers, which come from few looks, there is none, as it would claim to be sure; nor
    where it goes beyond what can be. A rise keeps it: whether it excludes 0 is the question.
    """
    found = [run.measurements[name].value for run in runs if name in run.measurements]
    if not found:
        return None
    mean = Measurement.mean(found) if len(set(found)) > 1 else None
    if mean and (name.startswith("concept_mse_rise") or possible(mean, found)):
        return mean
    return Measurement(fmean(found), None, None, n=len(found))


def possible(mean: Measurement, found: Sequence[Number]) -> bool:
    """Tell whether an interval stays at 0 or above, and at most 1 if these numbers do."""
    assert mean.low is not None
    assert mean.high is not None
    return mean.low >= 0 and (mean.high <= 1 or max(found) > 1)


def judged(rise: Measurement, separation: float) -> Measurement:
    """Put what is reported beside a rise, and say whether it is there beyond chance."""
    sure = rise.low is not None and rise.low > 0
    if separation <= 0.25:
        good = rise.value >= 0.1 and sure
    else:
        good = rise.value < 0.05 if separation >= 0.6 else None
    words = {True: "as asked", False: "not as asked", None: "nothing is asked"}[good]
    return replace(rise, paper=REPORTED_RISE.get(separation), grade="figure", verdict=words)


def expected(line: Line, law: Theory, scale: float) -> list[list[float]]:
    """Return [step, blue, small, error] of the theory at the steps of the runs."""
    steps = course(line).steps
    places = law.at(steps, scale)
    far = (places - 1).square().mean(dim=1, keepdim=True)
    rows = torch.cat([steps[:, None].to(places), places, far], dim=1).tolist()
    return shortened(rows)


def shortened(rows: Sequence[Sequence[Number]]) -> list[list[float]]:
    """Return numbers with five digits, as no figure shows more."""
    return [[float(f"{value:.5g}") for value in row] for row in rows]


def summary(records: Sequence[Record], where: str = "runs/concept_space") -> Record:
    """Return one record over all runs."""
    drawn = lines(records)
    if not drawn:
        raise ValueError("no run of concept_space has samples that are circles: nothing to fit")
    found: dict[str, Measurement] = {}
    for line in drawn:
        runs = [record for record in records if separation(record) == line.separation]
        named = {name: over_seeds(runs, name) for name in OVER_SEEDS}
        if rise := named["concept_mse_rise"]:
            named["concept_mse_rise"] = judged(rise, line.separation)
        found |= {f"{name}@{line.separation:g}": each for name, each in named.items() if each}
    laws = [theory(separated(line.separation).world) for line in drawn]
    fit = time_scale([course(line) for line in drawn], laws)
    found["theory_steps"] = Measurement(fit.steps, None, None, n=len(drawn))
    found["theory_error"] = Measurement(fit.error, None, None, n=len(drawn))
    curves: dict[str, list] = {}
    for line, law in zip(drawn, laws, strict=True):
        curves[f"course@{line.separation:g}"] = [shortened(seed) for seed in line.seeds]
        curves[f"theory@{line.separation:g}"] = expected(line, law, fit.steps)
    return Record(
        question="In what order are colour and size learned, and where is the way a detour?",
        command=f"recombine run concept_space:all && python benchmarks/concept_space.py {where}",
        experiment=f"summary of {len(records)} runs",
        seed=min(record.seed for record in records),
        device=", ".join(dict.fromkeys(record.device for record in records)),
        seconds=sum(record.seconds for record in records),
        measurements=found,
        headline=tuple(name for name in found if name.startswith("concept_mse_rise@")),
        curves=curves,
    )


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


def animated(records: Sequence[Record]) -> bytes:
    """Return the trajectories as a GIF, one frame per milestone; the last one stays."""
    drawn = lines(records)
    steps = sorted({int(row[0]) for line in drawn for row in line.mean})
    if not steps:
        raise ValueError("no run of concept_space has samples that are circles: nothing to show")
    frames = [frame(drawn, step) for step in steps]
    content = io.BytesIO()
    times = [150] * (len(frames) - 1) + [2500]
    first, rest = frames[0], frames[1:]
    first.save(content, "GIF", save_all=True, append_images=rest, duration=times, loop=0)
    return content.getvalue()


def main(folder: Path, path: Path) -> None:
    """Read every run, write the record and the GIF, and say what came out."""
    places = sorted(folder.rglob("record.json"))
    if not places:
        raise ValueError(f"{folder} has no record.json; expected the folder of runs")
    records = [Record.load(place) for place in places if "-tiny" not in str(place)]
    found = summary(records, str(folder))
    found.save(path)
    picture = Path("docs/figures/concept_space.gif")
    picture.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(picture, animated(records))
    for name in (*found.headline, "theory_steps", "theory_error"):
        print(name, found.measurements[name].printed, found.measurements[name].verdict or "")
    print(f"{path}; {picture} ({picture.stat().st_size:,} bytes)")


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit("usage: python benchmarks/concept_space.py RUNS [RECORD]")
    try:
        main(Path(sys.argv[1]), Path((*sys.argv[2:], "results/concept_space.json")[0]))
    except ValueError as error:
        sys.exit(f"concept_space: {error}")
