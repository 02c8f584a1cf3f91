"""A page as a browser lays it out: nothing sticks out of a phone's screen, every picture loads."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from recombine.report.page import Group, Picture, Section, page
from recombine.report.picture import Ring, enlarged, ring_alone

DESKTOP, PHONE = 1280, 390
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium here: apt-get install chromium")
    with api.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield opened
        opened.close()


def wide_page() -> str:
    """A page with all that a page can hold: long words, wide tables, large and small pictures."""
    image = Image.new("RGB", (64, 38), "#777777")
    large = Picture.of(enlarged(image, 8, [Ring((0.5, 0.5), True)]), "one object requested")
    small = Picture.of(enlarged(image, 4), "one object requested")
    key = (Picture.of(ring_alone(False, 96), "none found there"),)
    groups = tuple(Group(f"model {n}", "9 of 9 found", (large, small, small)) for n in range(4))
    head = ("model", *(f"measurement_{n}" for n in range(9)))
    rows = tuple((f"model {n}", *["0.0126 [0.00631, 0.987], n = 4,096"] * 9) for n in range(3))
    command = f"recombine measure zoo:grid_one_local --out {'a-long-folder/' * 9}"
    sections = [
        Section("Large pictures", "A caption.", command, key=key, groups=groups, large=True),
        Section("Small pictures", groups=(Group("", "", (small, small)), Group("", "", (small,)))),
        Section("A table", head=head, rows=rows),
    ]
    return page("Can a model draw nine objects?", "A lead.", sections)


@pytest.fixture(params=[DESKTOP, PHONE])
def opened(request: pytest.FixtureRequest, browser: Any, tmp_path: Path) -> Iterator[Any]:
    (tmp_path / "page.html").write_text(wide_page(), encoding="utf-8")
    shown = browser.new_page(viewport={"width": request.param, "height": 800})
    shown.goto((tmp_path / "page.html").as_uri())
    yield shown
    shown.close()


def test_nothing_is_wider_than_the_screen(opened: Any):
    width = opened.viewport_size["width"]
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    if width == PHONE:
        # Not even a table that scrolls inside the page.
        inside = "[...document.querySelectorAll('pre, .scroll')].map(e => e.scrollWidth)"
        assert max(opened.evaluate(inside)) <= PHONE


def test_every_picture_is_loaded_and_the_first_of_a_group_is_large(opened: Any):
    loaded = "[...document.images].map(e => e.complete && e.naturalWidth > 0)"
    assert opened.evaluate(loaded) == [True] * (1 + 4 * 3 + 2 + 1)
    widths = (
        "[...document.querySelectorAll('.large img')].map(e => e.getBoundingClientRect().width)"
    )
    first, second, *_ = opened.evaluate(widths)
    assert first > 300
    assert first > 2.5 * second


def test_a_phone_shows_the_head_of_a_column_beside_each_cell(opened: Any):
    shown = "getComputedStyle(document.querySelector('td:nth-child(2)'), '::before').content"
    assert ("measurement_0" in opened.evaluate(shown)) == (opened.viewport_size["width"] == PHONE)
