"""`recombine demo`: told where nine objects are after seeing at most three, what is drawn?"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import torch
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table as Printed

from recombine import run as runner
from recombine import zoo
from recombine.commands import choice
from recombine.commands.console import drawing, print_json, say
from recombine.commands.listing import factors_in_words
from recombine.commands.measure import plan_of, with_steps
from recombine.commands.panel import listening
from recombine.commands.parse import UNSET
from recombine.commands.tour import SEEN, TOUR, Answer, Visit, figure, in_a_few_words, requests
from recombine.commands.tour import visit as visited
from recombine.measurement import Measurement
from recombine.report.files import write_bytes, write_text
from recombine.report.origin import device_name
from recombine.report.page import Group, Picture, Section, Table, page
from recombine.report.picture import pictures, png
from recombine.report.table import duration, number, quoted
from recombine.scene import World
from recombine.worlds import WORLDS

COUNTS = (1, 3, 6, 9)
HEAD = ("model", "told", "hit rate", "(true)", "all hit", "(true)", "objects")
TITLE = "Told where nine objects are after seeing at most three, what does a model draw?"
LEAD = (
    "Three small diffusion models, shipped with the package, have seen scenes of one to three "
    "objects. Here each is told where one, three, six and nine objects are, and draws. "
    "A detector counts: a white dot is a told place with an object on it, a red ring is a told "
    "place without."
)


@dataclass(frozen=True)
class Options:
    """Take the tour on shipped weights; it ends in one page that needs no other file.

    Example: recombine demo --out recombine-demo
    """

    out: Path = Path("recombine-demo")
    """Folder for report.html and figure.png; an earlier demo is replaced."""
    samples: int = 4
    """Images per model and number of objects."""
    steps: Annotated[int | None, UNSET] = None
    """Steps of the sampler (default: the full study's)."""
    seed: int = 0
    """Which scenes, and which noise to start from."""
    device: Annotated[str | None, UNSET] = None
    """Where to draw: cpu, cuda, cuda:1 (default: the accelerator if there is one)."""
    json: bool = False
    """Print one JSON object and nothing else on standard output."""


def run(options: Options) -> None:
    """Visit every model of the tour, count, and write the page."""
    if options.samples < 2:
        raise ValueError(f"--samples is at least 2; got {options.samples}")
    device = choice.chosen_device(options.device)
    with torch.inference_mode():
        visits = tour(options, device)
        drawn = figure(visits)
        text = whole_page(visits, options, device)
    options.out.mkdir(parents=True, exist_ok=True)
    write_bytes(options.out / "figure.png", png(drawn))
    report = options.out / "report.html"
    write_text(report, text)
    announce(options, report, visits)


def tour(options: Options, device: torch.device) -> list[Visit]:
    """Ask every model for the same scenes, from the same noise."""
    reader = zoo.detector()
    paths = [zoo.path(stop.name) for stop in TOUR]
    records = [zoo.record(stop.name) for stop in TOUR]
    plans = [plan_of(path) for path in paths]
    plans = [replace(plan, experiment=with_steps(plan.experiment, options.steps)) for plan in plans]
    say(f"placing {', '.join(map(str, COUNTS))} objects")
    machine = runner.machine(device)
    asked = requests(plans[0].experiment, COUNTS, options.samples, options.seed, device)
    visits = []
    for stop, path, record, plan in zip(TOUR, paths, records, plans, strict=True):
        say(f"{stop.name} draws {options.samples * len(COUNTS)} images")
        with drawing(stop.name) as watch:
            trained = runner.loaded(plan, path, machine, watch)
            visits.append(visited(stop, record, trained, asked, reader, options.seed))
    return visits


def whole_page(visits: list[Visit], options: Options, device: torch.device) -> str:
    """Return the page: what each model drew, the counts, the full study, and how to go on."""
    sections = [
        *map(section, visits),
        counts(visits, options, device),
        *listening(visits),
        study(visits),
        further(),
        worlds(options.seed, device),
    ]
    return page(TITLE, f"{LEAD} {story(visits)}".strip(), sections)


def story(visits: list[Visit]) -> str:
    """Return how the tour ends, where the full study ended the way the paper did."""
    if [visit.composes for visit in visits] != [True, False, True]:
        return ""
    return (
        "The first one composes. The second one fails. The third one is the second one's data "
        "again, repaired by a local network."
    )


def section(visit: Visit) -> Section:
    """Return the part of the page about one model."""
    verdict = f": {visit.verdict}" if visit.verdict else ""
    last = visit.answers[-1]
    drew = f"Told of {last.asked} objects: {in_a_few_words(last)}, on average."
    return Section(
        f"{visit.stop.name}{verdict}",
        caption=f"{visit.stop.words} {drew} ({visit.stop.paper} of the paper.)",
        groups=tuple(map(group, visit.answers)),
    )


def group(answer: Answer) -> Group:
    """Return the images of one number of objects."""
    beyond = "" if answer.asked <= SEEN else ", never seen"
    words = f"{answer.asked} object{'s' * (answer.asked > 1)} told{beyond}"
    shown = [Picture.of(tile, words) for tile in answer.tiles(3)]
    return Group(words, in_a_few_words(answer), tuple(shown))


def rows(visits: list[Visit]) -> list[tuple[str, ...]]:
    """Return a row per model and number of objects; n is the number of images."""
    return [
        (visit.stop.name, str(answer.asked))
        + tuple(
            number(found[name].value) if "ceiling" in name else interval(found[name])
            for name in ("hit_rate", "hit_rate_ceiling", "all_hit", "all_hit_ceiling", "count")
        )
        for visit in visits
        for answer in visit.answers
        if (found := answer.measurements)
    ]


def interval(measured: Measurement) -> str:
    """Write a measurement without its n, which the caption says."""
    return quoted(measured).rpartition(", n = ")[0]


def counts(visits: list[Visit], options: Options, device: torch.device) -> Section:
    """Return the table of what was counted."""
    return Section(
        "What was counted here",
        caption=(
            f"n = {options.samples} images per row, with 95 % intervals; drawn on "
            f"{device_name(device)}. A hit: an object found within a 21st of the image "
            "side of a told place; objects: how many were found. In brackets, true renders of the "
            "same scenes, read by the same detector: the most that can be expected."
        ),
        command=command_of(options),
        table=Table(HEAD, tuple(rows(visits))),
    )


def command_of(options: Options) -> str:
    """Return what to type to count this again."""
    steps = "" if options.steps is None else f" --steps {options.steps}"
    return f"recombine demo --samples {options.samples} --seed {options.seed}{steps}"


def study(visits: list[Visit]) -> Section:
    """Return what the records of the shipped weights say: many samples, and a declared rule."""
    lines = []
    for visit in visits:
        record, k_max = visit.record, visit.k_max
        ours = "not named" if k_max is None else quoted(k_max)
        theirs = "" if k_max is None or k_max.paper is None else number(k_max.paper)
        grade = "" if k_max is None else k_max.grade or ""
        verdict = "" if k_max is None else k_max.verdict or ""
        made = f"{duration(record.seconds)} on {record.device}"
        lines.append((visit.stop.name, ours, theirs, grade, verdict, made))
    return Section(
        "The full study",
        caption=(
            "K_max is the largest number of objects up to which a model draws what it is told: at "
            "every number up to it the lower end of the 95 % interval of success is at least 0.5. "
            "Quoted from the records of the shipped weights."
        ),
        command=visits[0].record.command,
        table=Table(("model", "K_max", "paper", "grade", "verdict", "trained"), tuple(lines)),
    )


def further() -> Section:
    """Return commands to go on with."""
    return Section(
        "Try it",
        caption="Choose the places yourself; read any picture; measure a model again.",
        command=(
            "recombine sample zoo:grid_all --at 0.3,0.4 0.5,0.7 0.7,0.5 --dots --out mine.png\n"
            "recombine detect mine.png\n"
            "recombine measure zoo:grid_one_local --what length --samples 16 --objects 1-9"
        ),
    )


def worlds(seed: int, device: torch.device) -> Section:
    """Return one picture of every world."""
    shown = []
    for world in WORLDS:
        (image,) = pictures(world.image(world.scenes(torch.arange(1, device=device), seed)))
        shown.append(Group(world.name, about(world), (Picture.of(image, world.name),)))
    return Section(
        "The worlds in which we ask",
        caption="Every picture shows a scene that is known exactly.",
        command="recombine render clevr --count 24 --out clevr",
        groups=tuple(shown),
    )


def about(world: World) -> str:
    """Return the size of a world's images and its factors."""
    return f"{world.size} px; {factors_in_words(world, '; ')}"


def printed(visits: list[Visit], samples: int) -> Printed:
    """Return the table as a terminal of 80 columns shows it: intervals below their numbers."""
    table = Printed(
        *HEAD,
        title=f"n = {samples} images per row, 95 % intervals",
        title_justify="left",
        box=SIMPLE,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.columns[0].no_wrap = True
    for row in rows(visits):
        cells = [cell.replace(" [", "\n[") for cell in row]
        table.add_row(*cells, end_section=row[1] == str(COUNTS[-1]))
    return table


def announce(options: Options, report: Path, visits: list[Visit]) -> None:
    """Print the table, or the numbers as JSON, and say where the page is."""
    if options.json:
        values = {
            f"{name}@{answer.asked}@{visit.stop.name}": each.printed
            for visit in visits
            for answer in visit.answers
            for name, each in answer.measurements.items()
        }
        print_json({"subject": "demo", "measurements": values, "report": str(report)})
        return
    if visits:
        Console().print(printed(visits, options.samples))
    for visit in visits:
        if visit.k_max is not None:
            said = f"{visit.stop.name}: {visit.verdict}; K_max {quoted(visit.k_max)}"
            print(f"{said}, paper {visit.k_max.paper}")
    say(f"The page is {report}: open it in a browser.")
