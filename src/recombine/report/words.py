"""Words for those who mistype: what they may have meant."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def nearest(word: str, known: Sequence[str]) -> str:
    """Return "; did you mean X?" when something like the word is known, else nothing."""
    close = get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def listed(names: Iterable[str], most: int = 12) -> str:
    """Return names with commas between them; of many, the first and how many more there are."""
    every = list(names)
    more = [f"{len(every) - most:,} more"] if len(every) > most else []
    return ", ".join([*every[:most], *more])
