"""Every link between our pages leads somewhere, to the heading if it names one."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!\w+:)([^)\s#]*)(?:#([^)\s]+))?\)")


def slug(heading: str) -> str:
    """Return the anchor of a heading: GitHub keeps letters, digits, hyphens, and spaces as -."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = re.sub(r"(?ms)^```.*?^```$", "", page.read_text(encoding="utf-8"))
    return {slug(heading) for heading in re.findall(r"(?m)^#+ (.+)$", text)}


def broken(page: Path, text: str) -> list[str]:
    """Return the links of a page's text that lead nowhere."""
    wrong = []
    for path, anchor in LINK.findall(text):
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(f"{path}#{anchor}")
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    assert broken(page, page.read_text(encoding="utf-8")) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("# Is it so?\n\n## What `it` is, *here*\n")
    text = (
        "[a](page.md#is-it-so) [b](#what-it-is-here) [c](#what-it-was) [d](no.md) [e](http://x/y)"
    )
    assert broken(page, text) == ["#what-it-was", "no.md#"]
