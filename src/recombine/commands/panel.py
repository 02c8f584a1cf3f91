"""The part of the demo's page that says why: what a told place listens to, by the full study."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from recombine.commands.tour import Visit
from recombine.figures.locality import HeatMap, draw_map, heat_maps
from recombine.report.page import Group, Picture, Section
from recombine.report.record import Record
from recombine.report.table import quoted

CAPTION = (
    "Where each place hears the object told of there and no other, nine told objects ask nothing "
    "of it that three did not; where a place listens to all of them, every object more is news to "
    "it (grid_one_local cannot but be local: it is built so). Grey: which noisy pixels the middle "
    "of the square listens to at high noise, in one scene of four told objects; crosses: of what "
    "is heard there of the four, each one's share in per cent."
)


def listening(visits: Sequence[Visit]) -> list[Section]:
    """Return the section on locality; none where a record does not have it."""
    groups = tuple(group for visit in visits if (group := _group(visit.stop.name, visit.record)))
    if not groups:
        return []
    command = "recombine measure zoo:grid_all --what locality"
    return [Section("What does a place listen to?", CAPTION, command, groups=groups)]


def _group(name: str, record: Record) -> Group | None:
    """Return what one model listens to, at the highest noise of which it keeps a map."""
    measured, maps = record.measurements.get("conditional_locality"), kept_maps(record)
    places = record.curves.get("locality_places", [])
    if measured is None or not maps or not places:
        return None
    shown = max(maps, key=lambda each: float(each["sigma"]))
    own, others = heard(shown, places)
    here = f"At sigma {shown['sigma']} the square's place hears its own object to {own}"
    note = (
        f"Conditional locality at high noise: {quoted(measured)}. {here}, the others to {others}."
    )
    return Group(name, note, (Picture.of(drawn(shown, places), f"{name}: {here}."),))


def heard(shown: Mapping[str, Any], places: Sequence[Sequence[float]]) -> tuple[str, str]:
    """Return the share of the object told of at this place in what is heard, and of each other."""
    own = min(range(len(places)), key=lambda each: math.dist(places[each], shown["pixel"]))
    shares = [f"{100 * share:.0f}" for share in shown["heard"]]
    return f"{shares.pop(own)} %", f"{', '.join(shares)} %"


def drawn(shown: Mapping[str, Any], places: Sequence[Sequence[float]]) -> Image.Image:
    """Return a heat map as a picture."""
    figure = Figure(figsize=(2.1, 2.1), dpi=230)
    canvas = FigureCanvasAgg(figure)
    draw_map(figure.add_axes((0, 0, 1, 1)), shown, places)
    canvas.draw()
    size = canvas.get_width_height()
    return Image.frombuffer("RGBA", size, bytes(canvas.buffer_rgba())).convert("RGB")
