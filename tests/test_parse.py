"""What words on the command line mean, and the one line that says why they mean nothing."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import pytest
import tyro
from hypothesis import given
from hypothesis import strategies as st

from recombine.commands import grammar
from recombine.commands.grammar import UNSET, Names, written
from recombine.commands.parse import overridden, parsed, recognized


@dataclass(frozen=True)
class Cooking:
    """Options with one of each kind.

    Example: recombine cook soup
    """

    dish: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DISH")]
    """What to cook."""
    guests: int = 2
    """How many eat."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """Which seeds."""
    spices: Names = ()
    """Which spices."""
    salt: Annotated[float | None, UNSET] = None
    """How much salt."""
    pot: Annotated[Path | None, UNSET] = None
    """Which pot."""
    label: Annotated[str | None, UNSET] = None
    """What it says on it."""
    heat: Literal["low", "high"] = "low"
    """How hot."""
    fast: bool = False
    """Hurry."""


@dataclass(frozen=True)
class Tasting:
    """Options after several names."""

    dishes: Annotated[tuple[str, ...], tyro.conf.Positional]
    fast: bool = False


@dataclass(frozen=True)
class Dice:
    """A declared value whose fields can be set."""

    starts: int = 8
    """How often to throw."""
    faces: tuple[float, ...] = (1.0, 2.0)
    """What the faces show."""
    depths: tuple[int, ...] = (1, 2, 3, 7)
    loaded: bool = False
    fair: bool = True
    scale: float | int = 1.0
    most: int | None = 6
    law: Literal["fair", "odd"] = "fair"
    throw: Callable[[int], int] = abs
    """How to throw."""

    def __post_init__(self) -> None:
        if self.starts < 2:
            raise ValueError(f"throw at least twice; got {self.starts}")


def cooked(*words: str) -> Cooking:
    return parsed(Cooking, "recombine cook", ["soup", *words])


def thrown(*words: str) -> Dice:
    return overridden(Dice(), words, "recombine run dice")


# The grammar


@pytest.mark.parametrize(
    ("word", "numbers"),
    [
        ("4", (4,)),
        ("3,6,9", (3, 6, 9)),
        ("3-6", (3, 4, 5, 6)),
        ("1,3-5", (1, 3, 4, 5)),
        ("0-0", (0,)),
        ("-1,2", (-1, 2)),
        (" 1, 2 ", (1, 2)),
        ("2,2,1", (2, 2, 1)),
    ],
)
def test_a_list_has_commas_and_a_range_a_dash(word: str, numbers: tuple[int, ...]):
    assert grammar.whole_list(word) == numbers
    assert cooked("--seeds", word).seeds == numbers


@pytest.mark.parametrize("word", ["", ",", "1,", "3-1", "1-2-3", "1--2", "a", "1.5", "1 2", "1;2"])
def test_what_is_no_list_of_numbers_is_named(word: str):
    with pytest.raises(ValueError, match="expected whole numbers such as 3,6-9, got") as refused:
        grammar.whole_list(word)
    assert repr(word) in str(refused.value)


def test_a_range_does_not_fill_the_memory():
    with pytest.raises(ValueError, match="expected at most 100,000 numbers, got '0-999999999'"):
        grammar.whole_list("0-999999999")


@given(st.lists(st.integers(-99, 99) | st.integers(0, 9), max_size=12).map(tuple))
def test_what_is_written_reads_back(numbers: tuple[int, ...]):
    assert not numbers or grammar.whole_list(written(numbers)) == numbers
    assert len(written(numbers)) <= len(",".join(map(str, numbers))) or not numbers


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=6).map(tuple))
def test_decimal_numbers_read_back_to_the_last_digit(numbers: tuple[float, ...]):
    assert thrown("--faces", written(numbers)).faces == numbers


@given(st.lists(st.sets(st.integers(0, 40), min_size=1, max_size=8), min_size=1, max_size=3))
def test_lists_joined_by_commas_are_joined_lists(parts: list[set[int]]):
    lists = [tuple(sorted(part)) for part in parts]
    joined = ",".join(map(written, lists))
    assert grammar.whole_list(joined) == sum(lists, ())


def test_none_is_nothing_but_in_a_name():
    assert thrown("--most", "none").most is None
    assert thrown("--faces", "none").faces == ()
    assert cooked("--salt", "none", "--spices", "none") == Cooking("soup")
    assert cooked("--pot", "none", "--label", "None") == Cooking(
        "soup", pot=Path("none"), label="None"
    )


def test_every_kind_of_option_is_read():
    words = ["--spices", "pepper, thyme", "--salt", "-0.5", "--pot", "a/b", "--heat", "high"]
    assert cooked(*words, "--guests=3", "--fast") == Cooking(
        "soup", 3, (0, 1, 2), ("pepper", "thyme"), -0.5, Path("a/b"), None, "high", True
    )


# One line for each kind of mistake


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "DISH is missing"),
        (["soup", "salad"], "'salad' is one too many"),
        (["soup", "--geusts", "3"], "--geusts is not an option; did you mean --guests?"),
        (["soup", "--geusts=3"], "--geusts is not an option; did you mean --guests?"),
        (["soup", "--xyz"], "--xyz is not an option (see"),
        (["soup", "--di"], "--di is not an option (see"),
        (["--spces", "pepper", "soup"], "--spces is not an option; did you mean --spices?"),
        (["--salt", "-1", "--spces"], "--spces is not an option; did you mean --spices?"),
        (["--guests", "2"], "DISH is missing"),
        (["soup", "--guests"], "--guests needs a value, N"),
        (["soup", "--guests", "--fast"], "--guests needs a value, N"),
        (["soup", "--guests", "many"], "--guests: expected a whole number, got 'many'"),
        (["soup", "--guests", "1e2"], "--guests: expected a whole number, got '1e2'"),
        (["soup", "--salt", "much"], "--salt: expected a number, got 'much'"),
        (["soup", "--seeds", "2-0"], "--seeds: expected whole numbers such as 3,6-9, got '2-0'"),
        (["soup", "--spices", "a,,b"], "--spices: expected names with commas between them"),
        (["soup", "--heat", "hgih"], "--heat: expected one of low, high, got 'hgih'; did you"),
        (["soup", "--no-fast"], "--no-fast is not an option; did you mean --fast?"),
    ],
)
@pytest.mark.parametrize("width", ["40", "200"])
def test_bad_options_are_one_line(words, line, width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", width)
    with pytest.raises(ValueError, match="see recombine cook --help") as refused:
        parsed(Cooking, "recombine cook", words)
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--face", "1"], "--face is not an option; did you mean --faces?"),
        (["--learning-rate", "1"], "--learning-rate is not an option"),
        (["--throw", "1"], "--throw cannot be set on the command line"),
        (["again"], "'again' is one too many"),
        (["--faces", "1,x"], "--faces: expected numbers such as 0.1,0.5, got '1,x'"),
        (["--starts", "0-2"], "--starts: expected a whole number, got '0-2'"),
        (["--starts", "1"], "throw at least twice; got 1"),
        (["--law", "od"], "--law: expected one of fair, odd, got 'od'; did you mean odd?"),
    ],
)
def test_bad_fields_are_one_line(words, line, capsys):
    with pytest.raises(ValueError, match=r"\(see recombine run dice --help\)$") as refused:
        thrown(*words)
    assert str(refused.value).startswith(line)
    assert capsys.readouterr() == ("", "")


# Fields of a declared value


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["--starts", "3"], "starts", 3),
        (["--faces", "1,2.5"], "faces", (1.0, 2.5)),
        (["--faces", "-1,2"], "faces", (-1.0, 2.0)),
        (["--depths", "1,3-5"], "depths", (1, 3, 4, 5)),
        (["--loaded"], "loaded", True),
        (["--no-fair"], "fair", False),
        (["--scale", "2"], "scale", 2.0),
        (["--most", "4"], "most", 4),
        (["--law", "odd"], "law", "odd"),
    ],
)
def test_a_field_is_read_by_its_type(words: list[str], field: str, value: object):
    changed = thrown(*words)
    assert getattr(changed, field) == value
    assert type(getattr(changed, field)) is type(value)
    assert replace(changed, **{field: getattr(Dice(), field)}) == Dice()
    assert overridden(changed, [], "x") == changed


def test_help_shows_the_fields_with_their_words_and_defaults(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as stop:
        thrown("--help")
    assert stop.value.code == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "--faces X,X What the faces show. (default: 1.0,2.0)" in shown
    assert "--depths N,N-N (default: 1-3,7)" in shown
    assert "--most N (default: 6)" in shown
    assert "--throw" not in shown


def test_words_of_a_command_and_of_what_it_names_are_kept_apart():
    def taken(*words: str) -> tuple[Tasting, list[str]]:
        return recognized(Tasting, "recombine taste", words)

    assert taken("soup", "cake") == (Tasting(("soup", "cake")), [])
    assert taken("soup", "--starts", "5", "--fast") == (Tasting(("soup",), True), ["--starts", "5"])
    assert taken("--fast", "soup", "--most=5") == (Tasting(("soup",), True), ["--most=5"])
    assert taken("soup", "--help") == (Tasting(("soup",)), ["--help"])


def test_help_before_any_name_is_of_the_command(capsys):
    with pytest.raises(SystemExit):
        recognized(Tasting, "recombine taste", ["--help"])
    assert "usage: recombine taste" in capsys.readouterr().out


def test_a_refusal_that_tyro_may_add_later_is_left_to_tyro():
    """An unknown event falls through to tyro's own box, with exit code 2 as well."""
    code = """
import sys
from dataclasses import dataclass
from recombine.commands import parse
@dataclass
class Nothing:
    pass
parse._reason = lambda event, options, words: None
parse.parsed(Nothing, "x", ["--y"])
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(Path(__file__).parents[1] / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "--y" in done.stderr
