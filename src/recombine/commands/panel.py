"""The part of the demo's page that says why: what a place in the image depends on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from PIL.ImageFont import load_default

from recombine import zoo
from recombine.commands.tour import Visit
from recombine.figures.locality import HeatMap, heat_maps
from recombine.report.page import Group, Picture, Section
from recombine.report.table import quoted
from recombine.results.query import HOME, arrays

CAPTION = (
    "If each place depends only on the condition near it, nine requested objects are nine easy "
    "requests of one object. If a place depends on all of them, every further object is a new "
    "situation. Each map is of one noisy image with four requested objects. Dark: the noisy pixels "
    "on which the denoised image at the blue circle depends. Circles: the requested objects, each "
    "with its share of the condition's influence at the blue one. A local network is local by "
    "construction."
)
_SIDE, _REACH = 480, 26


def influence_map(name: str) -> HeatMap | None:
    """Return a map of a shipped model at the highest noise, where its study's results are."""
    if not HOME.exists():
        return None
    facts = zoo.load(name).facts
    found = heat_maps(arrays(facts["study"]), f"{facts['cell']}/seed{facts['seed']}")
    return found[-1] if found else None


def dependence(visits: Sequence[Visit]) -> list[Section]:
    """Return the section on locality; none where no model has a map."""
    groups = tuple(group for visit in visits if (group := _group(visit)))
    if not groups:
        return []
    command = "recombine measure zoo:grid_all --what locality"
    return [Section("Why: what a place depends on", CAPTION, command, groups=groups)]


def _group(visit: Visit) -> Group | None:
    """Return the map of one model, with the measured locality."""
    stop, locality = visit.stop, visit.numbers.locality if visit.numbers else None
    if locality is None or (shown := influence_map(stop.name)) is None:
        return None
    note = (
        f"Share of the condition's influence that comes from near by (conditional locality): "
        f"{quoted(locality)} scenes."
    )
    own = f"{100 * shown.shares[shown.own]:.0f} %"
    words = f"{stop.label}: {own} of the influence is that of the object requested there"
    return Group(stop.label, note, (Picture.of(drawn(shown), words),))


def drawn(shown: HeatMap) -> Image.Image:
    """Return the map, with a circle and a share at each requested place, its own in blue."""
    # Square roots, so that faint influence shows.
    levels = 255 - 190 * np.sqrt(np.array(shown.pixels))
    grey = Image.fromarray(levels.astype(np.uint8)).resize((_SIDE, _SIDE), Image.Resampling.NEAREST)
    picture = grey.convert("RGB")
    pen, font = ImageDraw.Draw(picture), load_default(_SIDE / 18)
    for number, (place, share) in enumerate(zip(shown.requested, shown.shares, strict=True)):
        colour = "#1f6fd1" if number == shown.own else "#a8441f"
        x, y = (_SIDE * end for end in place)
        pen.circle((x, y), _REACH, outline=colour, width=4)
        words = f"{100 * share:.0f} %"
        rim: Any = {"stroke_width": 3, "stroke_fill": "white"}
        pen.text((x, y - _REACH - 5), words, colour, font, "ms", **rim)
    return picture
