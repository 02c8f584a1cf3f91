"""A study is a table of levels: keys, folders and differences derive from it."""

from dataclasses import dataclass, fields, replace
from itertools import combinations
from typing import Any

import pytest
import torch

from recombine import studies
from recombine.measure.subject import Findings
from recombine.spelling import spelled
from recombine.study import Axis, Level, Watched, study


@dataclass(frozen=True)
class Dice:
    """Throw dice and add up."""

    faces: int = 6
    throws: int = 2

    def __call__(self, generator: torch.Generator, watch: Watched) -> Findings:
        return Findings({})

    def tiny(self) -> "Dice":
        return self


AXES = {
    "dice": Axis(
        ("faces",),
        {"six": Level("Six faces."), "four": Level("Four.", lambda d: replace(d, faces=4))},
    ),
    "throws": Axis(
        ("throws",),
        {
            "two": Level("Two throws."),
            "doubled": Level("Twice as many.", lambda d: replace(d, throws=2 * d.throws)),
            "as_faces": Level("As many as faces.", lambda d: replace(d, throws=d.faces)),
        },
    ),
}


def test_cells_are_the_products_of_the_tables_and_levels_change_in_the_order_of_axes():
    made = study("?", Dice(), AXES, ({"dice": ["six", "four"], "throws": ["two", "as_faces"]},))
    assert made.cells == {
        "six": Dice(),
        "six-as_faces": Dice(6, 6),
        "four": Dice(4, 2),
        "four-as_faces": Dice(4, 4),
    }
    assert made.levels["four-as_faces"] == {"dice": "four", "throws": "as_faces"}
    assert made.title("four-as_faces") == "Four. As many as faces."
    assert made.title("six") == "Six faces."


def test_an_axis_that_a_table_does_not_name_keeps_its_first_level():
    made = study("?", Dice(), AXES, ({"throws": "doubled"},))
    assert list(made.cells) == ["six-doubled"]
    assert list(study("?", Dice(), {}).cells) == ["base"]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (({"dice": "five"},), "axis dice has the levels six, four; got 'five'"),
        (({"colour": "red"},), "axis colour has the levels ; got 'red'"),
        (
            ({"dice": "six"}, {"throws": ["two", "doubled"]}),
            "the cell six stands in the tables twice",
        ),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(tables: Any, message: str):
    with pytest.raises(ValueError, match=message):
        study("?", Dice(), AXES, tables)


@pytest.mark.parametrize("name", ["six", "a-b", ""])
def test_names_that_would_give_two_cells_one_key_are_refused(name: str):
    axes = {**AXES, "other": Axis((), {"none": Level("."), name: Level(".")})}
    with pytest.raises(ValueError, match="level names are unique in a study"):
        study("?", Dice(), axes)


EVERY = [(name, key) for name in studies.names() for key in studies.load(name).cells]


def apart(name: str, one: str, other: str) -> list[str]:
    """Return the axes in which two cells have different levels."""
    levels = studies.load(name).levels
    return [axis for axis, level in levels[one].items() if levels[other][axis] != level]


PAIRS = [
    (name, one, other)
    for name in studies.names()
    for one, other in combinations(studies.load(name).cells, 2)
    if len(apart(name, one, other)) == 1
]


def differ(one: Any, other: Any) -> set[str]:
    """Return those paths; a cell's training is looked into, everything else is one field."""
    found = set()
    for each in fields(one):
        a, b = getattr(one, each.name), getattr(other, each.name)
        if each.name == "training":
            found |= {
                f"training.{part.name}"
                for part in fields(a)
                if spelled(getattr(a, part.name)) != spelled(getattr(b, part.name))
            }
        elif spelled(a) != spelled(b):
            found.add(each.name)
    return found


@pytest.mark.parametrize(("name", "one", "other"), PAIRS)
def test_cells_differ_in_what_their_levels_say_and_in_nothing_else(name: str, one: str, other: str):
    of = studies.load(name)
    (axis,) = apart(name, one, other)
    found = differ(of.cells[one], of.cells[other])
    allowed = of.axes[axis].changes
    assert found, f"{one} and {other} of {name} are the same"
    extra = {each for each in found if not each.startswith(allowed)}
    assert not extra, f"{axis} may change {allowed}, but {one} and {other} differ in {extra}"


@pytest.mark.parametrize("name", studies.names())
def test_no_two_cells_of_a_study_are_the_same(name: str):
    cells = [spelled(each) for each in studies.load(name).cells.values()]
    assert len(cells) == len(set(cells))


@pytest.mark.parametrize("name", studies.names())
def test_every_level_is_used_and_says_one_sentence(name: str):
    of = studies.load(name)
    for axis, each in of.axes.items():
        used = {levels[axis] for levels in of.levels.values()}
        assert used == set(each.levels)
        for level in each.levels.values():
            assert level.says.endswith(".")
    assert of.question.endswith(("?", ")"))
    assert of.cost


@pytest.mark.parametrize(("name", "key"), EVERY)
def test_a_cell_is_spelled_the_same_in_every_process(name: str, key: str):
    assert " at 0x" not in spelled(studies.load(name).cells[key])


def test_cells_with_equal_trainings_share_a_folder():
    length = studies.load("length")
    assert length.folder("grid_one-local") == length.folder("grid_one-local-guided")
    assert length.folder("grid_one-local-guided") == "grid_one-local-guided"
    assert length.folder("grid_all") == "grid_all"


def test_what_is_chosen_is_named_or_refused():
    assert studies.chosen("toy") == [("toy", key) for key in studies.load("toy").cells]
    assert studies.chosen("length:grid_all") == [("length", "grid_all")]
    with pytest.raises(ValueError, match=r"study 'lenght' is not one of .*did you mean length\?"):
        studies.chosen("lenght")
    with pytest.raises(ValueError, match=r"cell 'gird_all' of length .*did you mean grid_all\?"):
        studies.chosen("length:gird_all")
