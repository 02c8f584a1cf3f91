"""One picture of many: rows and columns of pictures with words beside, above and below them."""

from collections.abc import Mapping, Sequence

from PIL import Image, ImageDraw
from PIL.ImageFont import load_default

_EDGE, _GAP, _LABELS = 18, 14, 158
_INK, _FAINT = "#1d2024", "#565c65"


def matrix(
    title: str,
    key: Sequence[tuple[Image.Image, str]],
    heads: Sequence[str],
    rows: Mapping[str, Sequence[tuple[Image.Image, str]]],
) -> Image.Image:
    """Return rows of pictures below a title, what its marks mean, and a head per column.

    Each row has its label at the left; each picture has a note below it. All are of one size.
    """
    wide, tall = next(iter(rows.values()))[0][0].size
    width = 2 * _EDGE + _LABELS + len(heads) * (wide + _GAP) - _GAP
    top, pitch = 152, tall + 44
    sheet = Image.new("RGB", (width, top + len(rows) * pitch + _EDGE - 14), "white")
    pen = ImageDraw.Draw(sheet)
    pen.text((_EDGE, _EDGE), title, _INK, load_default(30))
    _explain(sheet, key, 64)
    left = [_EDGE + _LABELS + column * (wide + _GAP) for column in range(len(heads))]
    for x, head in zip(left, heads, strict=True):
        pen.text((x + wide / 2, top - 14), head, _INK, load_default(21), anchor="ms")
    for number, (label, panels) in enumerate(rows.items()):
        y = top + number * pitch
        _write(pen, label, y + tall / 2)
        for x, (picture, note) in zip(left, panels, strict=True):
            sheet.paste(picture, (x, y))
            pen.text((x + wide / 2, y + tall + 21), note, _FAINT, load_default(18), "ms")
    return sheet


def _explain(sheet: Image.Image, key: Sequence[tuple[Image.Image, str]], y: int) -> None:
    """Write one line that says what each mark means."""
    pen, font, x = ImageDraw.Draw(sheet), load_default(19), _EDGE
    for mark, words in key:
        sheet.paste(mark, (x, y))
        x += mark.width + 9
        pen.text((x, y + mark.height / 2), words, _FAINT, font, anchor="lm")
        x += round(pen.textlength(words, font)) + 30


def _write(pen: ImageDraw.ImageDraw, words: str, middle: float) -> None:
    """Write words at the left, in lines that fit the column of labels, around a height."""
    lines: list[str] = []
    font = load_default(20)
    for word in words.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and pen.textlength(longer, font) <= _LABELS - _GAP:
            lines[-1] = longer
        else:
            lines.append(word)
    pen.multiline_text((_EDGE, middle), "\n".join(lines), _INK, font, anchor="lm", spacing=7)
