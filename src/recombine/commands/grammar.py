"""What a word on the command line means: a number, a list such as 3,6-9, or none.

The type of a field decides: an int is N, a tuple of ints 3,6-9, a tuple of floats 0.1,0.5, and
`Names` is a list of names such as length,locality. A range 3-9 includes both ends. The word
`none` means None where that is allowed, and the empty list.
"""

import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

T = TypeVar("T")
MOST = 100_000
NONE = "none"


def reading(convert: Callable[[str], T], expected: str) -> Callable[[str], T]:
    """Return what converts a word, or says what was expected."""

    def read(word: str) -> T:
        try:
            return convert(word)
        except ValueError:
            raise ValueError(f"expected {expected}, got {word!r}") from None

    return read


def whole_list(word: str) -> tuple[int, ...]:
    """Read 3,6-9 as 3, 6, 7, 8 and 9."""
    found: list[int] = []
    for part in word.split(","):
        match = re.fullmatch(r"\s*(-?\d{1,9})(?:-(\d{1,9}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise ValueError(f"expected whole numbers such as 3,6-9, got {word!r}")
        if len(found) + last - first >= MOST:
            raise ValueError(f"expected at most {MOST:,} numbers, got {word!r}")
        found += range(first, last + 1)
    return tuple(found)


def name_list(word: str) -> tuple[str, ...]:
    """Read length,locality."""
    names = tuple(part.strip() for part in word.split(","))
    if not all(names):
        raise ValueError(f"expected names with commas between them, got {word!r}")
    return names


def written(value: Any) -> str:
    """Write a value as it would be typed."""
    if value is None or value == ():
        return NONE
    if not isinstance(value, tuple):
        return str(value)
    if not all(isinstance(each, int) for each in value):
        return ",".join(map(str, value))
    parts: list[str] = []
    # In a run, numbers grow as fast as their positions.
    for _, run in groupby(enumerate(value), lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in run]
        long = len(numbers) > 2 and numbers[0] >= 0
        parts += [f"{numbers[0]}-{numbers[-1]}"] if long else map(str, numbers)
    return ",".join(parts)


def registry() -> ConstructorRegistry:
    """Return the rules of this file in the form that tyro takes."""
    rules = ConstructorRegistry()
    rules.primitive_rule(_rule)
    return rules


def _rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    kind, optional = _kind(info.type)
    listed = get_origin(kind) is tuple and get_args(kind)[1:] == (...,)
    if listed and {tyro.conf.Positional, tyro.conf.UseAppendAction} & info.markers:
        return None
    one, read = (_kind(get_args(kind)[0])[0], _LISTS) if listed else (kind, _WORDS)
    return _spec(*read[one], optional, listed) if one in read else None


def _kind(hint: Any) -> tuple[Any, bool]:
    """Return the one type of a hint, and whether it may be None; a whole number is a number too."""
    of_several = get_origin(hint) in (Union, UnionType)
    kinds = set(get_args(hint)) if of_several else {hint}
    ours = kinds - {NoneType} - ({int} if float in kinds else set())
    return (ours.pop() if len(ours) == 1 else None), NoneType in kinds


def _spec(
    metavar: str, read: Callable[[str], Any], optional: bool = False, listed: bool = True
) -> PrimitiveConstructorSpec[Any]:
    # A file, or whatever else a text names, may be called none.
    nothing = (optional or listed) and read not in (str, Path)

    def instance(words: list[str]) -> Any:
        if nothing and words[0] == NONE:
            return None if optional else ()
        return read(words[0])

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=instance,
        is_instance=lambda value: True,
        str_from_instance=lambda value: [written(value)],
    )


def _decimals(word: str) -> tuple[float, ...]:
    return tuple(map(float, word.split(",")))


_WORDS: dict[Any, tuple[str, Callable[[str], Any]]] = {
    int: ("N", reading(int, "a whole number")),
    float: ("X", reading(float, "a number")),
    str: ("TEXT", str),
    Path: ("PATH", Path),
}
_LISTS: dict[Any, tuple[str, Callable[[str], Any]]] = {
    int: ("N,N-N", whole_list),
    float: ("X,X", reading(_decimals, "numbers such as 0.1,0.5")),
}

Names: TypeAlias = Annotated[tuple[str, ...], _spec("NAME,NAME", name_list)]
"""A list of names with commas between them: one word, unlike the words of a positional."""
UNSET = tyro.conf.arg(help_behavior_hint="")
"""Marks an option whose default is None: its help says in words what that means."""
Device: TypeAlias = Annotated[
    str | None,
    UNSET,
    tyro.conf.arg(
        help="Where to compute: cpu, cuda, cuda:1 (default: the accelerator if there is one)."
    ),
]
SamplerName: TypeAlias = Annotated[
    Literal["quick", "declared"] | None,
    UNSET,
    tyro.conf.arg(
        help="declared is that of the study, quick takes a few steps of it, in bf16 where a CPU "
        "has that (default: quick on a CPU, otherwise declared). docs/speed.md compares them."
    ),
]
Json: TypeAlias = Annotated[
    bool, tyro.conf.arg(help="Print one JSON object and nothing else on standard output.")
]
