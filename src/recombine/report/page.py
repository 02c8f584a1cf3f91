"""One self-contained page: text, tables and pictures in a single HTML file."""

from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from PIL import Image

from recombine.report.picture import data_uri


@dataclass(frozen=True)
class Picture:
    """A picture as an address, what it shows in words, and its size in pixels."""

    address: str
    words: str
    width: int
    height: int

    @classmethod
    def of(cls, picture: Image.Image, words: str) -> "Picture":
        """Return a picture that lies inside the page."""
        return cls(data_uri(picture), words, *picture.size)


@dataclass(frozen=True)
class Group:
    """Pictures that belong together under a title, with a note."""

    title: str
    note: str
    pictures: tuple[Picture, ...]


@dataclass(frozen=True)
class Section:
    """A part of the page: text, the command that made it, groups of pictures, a table.

    `key` explains the marks in the pictures. `large` shows groups two to a row, and the first
    picture of each as large as it is.
    """

    title: str
    caption: str = ""
    command: str = ""
    groups: tuple[Group, ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    key: tuple[Picture, ...] = ()
    large: bool = False


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """Return the page as HTML; all text is escaped."""
    pages = Environment(
        loader=PackageLoader("recombine.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return pages.get_template("page.html").render(title=title, lead=lead, sections=sections)
