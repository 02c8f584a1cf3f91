"""`recombine demo`: conditioned on nine places after training on at most three, what is drawn?"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import torch

from recombine import zoo
from recombine.commands import choice
from recombine.commands.combinations import SHOWN, combinations
from recombine.commands.console import image_progress, print_json, say, show_table, tell_time
from recombine.commands.grammar import UNSET, Device, Json, SamplerName
from recombine.commands.index import listed_world
from recombine.commands.listing import factors_in_words
from recombine.commands.measure import chosen_model
from recombine.commands.panel import dependence
from recombine.commands.tour import (
    SEEN,
    TOUR,
    Answer,
    Stop,
    Visit,
    drawn,
    figure,
    in_words,
    requests,
    study_numbers,
    true_renders,
)
from recombine.report.files import write_bytes, write_text
from recombine.report.origin import device_name
from recombine.report.page import Group, Picture, Section, page
from recombine.report.picture import pictures, png, ring_alone
from recombine.report.table import interval, quoted
from recombine.worlds import WORLDS

COUNTS = (1, 3, 6, 9)
SCALE = 8
PAGE_SECONDS = 10
"""What the page takes beside the samples, about, on two cores: renders, influence, pictures."""
HEAD = ("model", "requested", "share found", "all found", "objects")
TITLE = "Can a model draw nine objects when its training images had at most three?"
LEAD = (
    "Three small diffusion models were trained on the same images of one to three objects. "
    "Each is conditioned on the places of one, three, six and nine objects and draws an image. "
    "A detector, a network of its own, then looks for an object at each requested place. "
    "The model whose condition gave every object in training draws more objects than it ever saw. "
    "The model whose condition gave only one of them fails, and the same training with a local "
    "network succeeds again."
)


TRY_IT = Section(
    "Try it",
    caption="Choose the places yourself; find objects in any picture; measure a model again.",
    command=(
        "recombine sample zoo:grid_all --at 0.3,0.4 0.5,0.7 0.7,0.5 --mark --out mine.png\n"
        "recombine detect mine.png\n"
        "recombine measure zoo:grid_one_local --what length --samples 16 --objects 1-9"
    ),
)


@dataclass(frozen=True)
class DemoOptions:
    """Draw with the shipped models, count, and write one page that needs no other file.

    Example: recombine demo --out recombine-demo
    """

    out: Path = Path("recombine-demo")
    """Folder for report.html and figure.png; those of an earlier demo are replaced."""
    samples: int = 4
    """Images per model and number of objects."""
    steps: Annotated[int | None, UNSET] = None
    """Steps of the sampler (default: those of --sampler)."""
    sampler: SamplerName = None
    seed: int = 0
    """Which scenes, and which noise to start from."""
    device: Device = None
    json: Json = False


def run(options: DemoOptions) -> None:
    """Draw with every model, count, and write the page."""
    if options.samples < 2:
        raise ValueError(f"--samples is at least 2; got {options.samples}")
    device = choice.chosen_device(options.device)
    with torch.inference_mode():
        visits = tour(options, device)
        picture = png(figure(visits))
        there = set(SHOWN) <= set(zoo.names())
        unseen = [combinations(options.seed, device)] if there else []
        text = whole_page(visits, unseen, options, device)
    options.out.mkdir(parents=True, exist_ok=True)
    write_bytes(options.out / "figure.png", picture)
    report = options.out / "report.html"
    write_text(report, text)
    announce(options, report, visits)


def tour(options: DemoOptions, device: torch.device) -> list[Visit]:
    """Return true renders, and what every model draws of the same scenes from the same noise."""
    reader = zoo.detector()
    say(f"placing {', '.join(map(str, COUNTS))} objects")
    models = [
        chosen_model(zoo.path(stop.name), device, options.steps, sampler=options.sampler)
        for stop in TOUR
    ]
    placed = requests(models[0].training, COUNTS, options.samples, options.seed, device)
    condition = torch.cat([each.request.condition for each in placed])
    tell_time(sum(model.seconds(condition) for model in models) + PAGE_SECONDS, "the demo")
    visits = [true_renders(placed, reader)]
    for stop, model in zip(TOUR, models, strict=True):
        say(f"{stop.name} ({stop.label}) draws {options.samples * len(COUNTS)} images")
        with image_progress(stop.name) as watch:
            answers = drawn(replace(model, watch=watch), placed, reader, options.seed)
        visits.append(Visit(stop, answers, study_numbers(stop.name)))
    return visits


def whole_page(
    visits: list[Visit], unseen: list[Section], options: DemoOptions, device: torch.device
) -> str:
    """Return the page: the images, the counts, why, the full study, and how to go on."""
    sections = [
        *images_by_number(visits),
        counts(visits, options, device),
        *dependence(visits),
        study(visits),
        *unseen,
        TRY_IT,
        worlds(options.seed, device),
    ]
    return page(TITLE, LEAD, sections)


def images_by_number(visits: list[Visit]) -> list[Section]:
    """Return the images of each number of objects, the most first, where models are introduced."""
    key = (
        Picture.of(ring_alone(True, 96), "object found at the requested place"),
        Picture.of(ring_alone(False, 96), "none found there"),
    )
    sections: list[Section] = []
    for answers in list(zip(*(visit.answers for visit in visits), strict=True))[::-1]:
        objects = answers[0].objects
        beyond = "as in training" if objects <= SEEN else f"training images had at most {SEEN}"
        pairs = zip(visits, answers, strict=True)
        groups = tuple(group(visit.stop, answer, not sections) for visit, answer in pairs)
        title = f"{in_words(objects)}, {beyond}"
        sections.append(Section(title, key=key, groups=groups, large=True))
    return sections


def group(stop: Stop, answer: Answer, introduced: bool) -> Group:
    """Return what one model drew of one number of objects, the first image large."""
    words = f"{stop.label}: {in_words(answer.objects)} requested"
    samples = len(answer.images)
    scales = (SCALE, *[SCALE // 2] * (samples - 1))
    tiles = (answer.picture(*each) for each in enumerate(scales))
    shown = tuple(Picture.of(tile, words) for tile in tiles)
    note = f"{answer.note(samples)} (mean of {samples} images). "
    return Group(stop.label, f"{note}{stop.words * introduced}", shown)


def rows(visit: Visit) -> list[tuple[str, ...]]:
    """Return a row per number of objects; n is the number of images."""
    return [
        (
            str(answer.objects),
            *(interval(each.value, each.low, each.high) for each in answer.measurements.values()),
        )
        for answer in visit.answers
    ]


def counts(visits: list[Visit], options: DemoOptions, device: torch.device) -> Section:
    """Return the table of what was counted."""
    steps = "" if options.steps is None else f" --steps {options.steps}"
    return Section(
        "What was counted",
        caption=(
            f"{options.samples} images per row, with 95 % intervals; drawn on "
            f"{device_name(device)}. Share found: the requested places at which the detector found "
            "an object, within 3 pixels of 64. All found: images with an object at every requested "
            "place. Objects: how many the image has in all. The detector makes errors too: its "
            "numbers for true renders are the most that can be expected of a model."
        ),
        command=f"recombine demo --samples {options.samples} --seed {options.seed}{steps}",
        head=HEAD,
        rows=tuple((visit.stop.label, *row) for visit in visits for row in rows(visit)),
    )


def study(visits: list[Visit]) -> Section:
    """Return what the full study measured of the shipped models."""
    known = [(visit.stop, visit.numbers) for visit in visits if visit.numbers is not None]
    lines = [
        (
            f"{stop.label} (zoo:{stop.name})",
            "undefined" if numbers.k_max is None else quoted(numbers.k_max),
            numbers.published,
            numbers.trained,
        )
        for stop, numbers in known
    ]
    return Section(
        "The full study",
        caption=(
            "K_max is the largest number of objects that a model draws reliably: at every number "
            "up to it, the lower end of the 95 % interval of success is at least 0.5. Published: "
            "Bradley 2025 (arXiv 2509.16447), whose criterion is not the same."
        ),
        command=known[0][1].command,
        head=("model", "K_max", "published", "training, on one H200"),
        rows=tuple(lines),
    )


def worlds(seed: int, device: torch.device) -> Section:
    """Return one picture of every world."""
    shown = []
    for world in WORLDS:
        (image,) = pictures(world.image(world.scenes(torch.arange(1, device=device), seed)))
        factors = factors_in_words(listed_world(world)["factors"], "; ")
        picture = Picture.of(image, world.name)
        shown.append(Group(world.name, f"{world.size} px; {factors}", (picture,)))
    return Section(
        "The worlds",
        caption="Where the images come from: scenes of which everything is known.",
        command="recombine render clevr --count 24 --out clevr",
        groups=tuple(shown),
    )


def announce(options: DemoOptions, report: Path, visits: list[Visit]) -> None:
    """Print the table, or the numbers as JSON, and say where the page is."""
    if options.json:
        values = {
            f"{name}@{answer.objects}@{visit.stop.name}": each
            for visit in visits
            for answer in visit.answers
            for name, each in answer.measurements.items()
        }
        print_json("demo", values, report=str(report))
        return
    lines = [
        (visit.stop.name, *(cell.replace(" [", "\n[") for cell in row))
        for visit in visits
        for row in rows(visit)
    ]
    show_table(HEAD, lines, f"{options.samples} images per row, 95 % intervals")
    for visit in visits:
        if visit.numbers is not None and visit.numbers.k_max is not None:
            print(f"{visit.stop.name}, in the full study: K_max {quoted(visit.numbers.k_max)}")
    say(f"The page is {report}: open it in a browser.")
