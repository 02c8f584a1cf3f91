"""Plain words: the package and its pages use the field's terms, within a budget of words."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path for path in (ROOT / "src").rglob("*") if path.suffix in {".py", ".cpp", ".html", ".css"}
)
PAGES = sorted((ROOT / "docs").rglob("*.md"))
# These quote older names and sentences.
QUOTING = ("docs/decisions/", "docs/history/", "docs/log.md")
READ = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *SOURCES, *PAGES]

# The left column of the table "Plain words" of the house style, as far as a search can find it.
# Names are taken apart first: `objects_told` and `ToldObjects` hold the word "told".
AVOIDED = {
    r"(un|re)?told|telling": "conditioned on, requested",
    r"hear|hears|heard|hearing|unheard": "depends on, influence of ... on ...",
    r"listen|listens|listened|listening": "depends on, collects",
    r"asked|asks|asking": "requested, measured",
    r"steer|steered|steering|by tokens": "adaLN, prefix tokens",
    r"(stand|stands|stood|standing) still|places vary": "fixed position, random position",
    r"(by|with) squares": "squared error",
    r"of what (is|was) seen": "trained on seen compositions",
    r"has (0?\.\d+|all|most|none) of level": "level-2 accuracy .7",
    r"what (is|was) said": "the hidden states",
    r"loud|louder|loudness|quiet|quieter|quietly": "scale of the condition",
    r"answers as ever": "the network plus one predictor per JEPA layer",
    r"fewer than none": "the interval is clipped at 0",
    r"whoever only": "parameters are counted on the meta device",
    r"a vote over many": "regresses a code vector instead of classifying",
    r"not a number is not": "`not <` also catches NaN",
}
PATTERNS = {re.compile(rf"\b(?:{words})\b", re.IGNORECASE): use for words, use in AVOIDED.items()}


def taken_apart(text: str) -> str:
    """Return text whose names are words: `toldAt` and `told_at` are "told At" and "told at"."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", text)


def avoided(text: str) -> list[str]:
    """Return what is found of the words that we avoid, by line, each with what to write instead."""
    return [
        f"line {number}: {found[0]!r}, write: {use}"
        for number, line in enumerate(text.splitlines(), 1)
        for pattern, use in PATTERNS.items()
        for found in pattern.finditer(taken_apart(line))
    ]


def prose(text: str) -> int:
    """Return how many words a page has outside its tables."""
    return sum(len(line.split()) for line in text.splitlines() if not line.startswith("|"))


def linked(page: Path) -> set[Path]:
    """Return the pages that a page links to; a link to a folder leads to every page in it."""
    paths = re.findall(r"\]\((?!\w+:)([^)\s#]+)", page.read_text(encoding="utf-8"))
    ends = {(page.parent / path).resolve() for path in paths}
    folders = {inside for end in ends if end.is_dir() for inside in end.glob("*.md")}
    return {end for end in ends | folders if end.suffix == ".md" and end.exists()}


def reachable(start: Path) -> set[Path]:
    """Return the pages that one comes to by links, one after the other."""
    found, coming = {start}, [start]
    while coming:
        new = linked(coming.pop()) - found
        found |= new
        coming.extend(new)
    return found


def relative(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", READ, ids=relative)
def test_words_are_plain(path: Path):
    if not relative(path).startswith(QUOTING):
        assert avoided(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    ["what it was told", "objects_told", "class Told:", "ToldObjects", "Hears all", "BY SQUARES"],
)
def test_a_word_that_we_avoid_is_found(text: str):
    assert len(avoided(text)) == 1


@pytest.mark.parametrize(
    "text", ["untitled", "shear(x)", "masked", "basket", "square", "it is still so"]
)
def test_a_word_that_only_holds_one_is_not(text: str):
    assert avoided(text) == []


def test_the_pages_have_at_most_25_000_words_without_tables():
    assert sum(prose(page.read_text(encoding="utf-8")) for page in PAGES) <= 25_000


def test_readme_is_short():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 1_200
    assert max(len(line) for line in text.splitlines()) <= 120


def test_a_table_is_not_prose():
    assert prose("two words\n| a | table |\nand three more") == 5


def test_every_page_is_reachable_from_readme():
    assert set(PAGES) - reachable(ROOT / "README.md") == set()


def test_a_page_without_a_link_is_not_reached(tmp_path: Path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "start.md").write_text("[a](a.md) [folder](deep)")
    for name in ("a.md", "lost.md", "deep/b.md"):
        (tmp_path / name).write_text("[back](start.md)")
    found = {page.relative_to(tmp_path).as_posix() for page in reachable(tmp_path / "start.md")}
    assert found == {"start.md", "a.md", "deep/b.md"}
