"""The index of worlds, studies and weights: what is declared, readable without torch."""

from pathlib import Path

from recombine import __main__ as command_line
from recombine import studies, zoo
from recombine.commands import index
from recombine.worlds import WORLDS
from small_zoo import LEVELS, STUDY


def test_the_index_holds_what_a_study_says():
    listed = index.listed_study(STUDY)
    assert listed["axes"] == {"model": {name: level.says for name, level in LEVELS.items()}}
    assert listed["cells"]["grid_one"] == {"model": "grid_one"}
    assert (listed["question"], listed["headline"]) == ("All objects?", ["steps"])
    assert listed["cost"] == "none"


def test_the_index_is_of_the_worlds_the_studies_and_the_weights_that_there_are():
    kept = index.read()
    known = {name: studies.load(name) for name in studies.names()}
    assert kept == index.indexed(WORLDS, known, kept["zoo"])
    assert list(kept["zoo"]) == zoo.names()
    assert index.text(kept) == index.PATH.read_text(encoding="utf-8")


def test_every_number_on_a_page_is_that_of_the_results():
    assert command_line.main(["report", "--check", "--root", str(Path(__file__).parents[1])]) == 0
