"""The index of worlds, studies and weights: what is declared, readable without torch."""

from dataclasses import dataclass
from pathlib import Path

from recombine import zoo
from recombine.commands import index
from recombine.worlds import WORLDS


@dataclass(frozen=True)
class Said:
    says: str


@dataclass(frozen=True)
class Dimension:
    levels: dict[str, Said]


@dataclass(frozen=True)
class Question:
    """Stands in for a study."""

    question: str = "Does it?"
    axes: tuple = ()
    levels: tuple = ()
    headline: tuple[str, ...] = ("k_max",)


NETWORK = Dimension({"unet": Said("A U-Net."), "local": Said("A local network – 2L.")})
STUDY = Question(
    axes={"network": NETWORK},
    levels={"all": {"network": "unet"}, "all-local": {"network": "local"}},
)


def test_the_index_holds_what_a_study_says(tmp_path: Path):
    made = index.indexed(
        WORLDS, {"does": STUDY}, {"a": "recombine run does:all"}, {"does": {"cpu": 3.5}, "x": {}}
    )
    path = tmp_path / "index.json"
    path.write_text(index.text(made), encoding="utf-8")
    assert index.read(path) == made
    study = made.studies["does"]
    assert study.axes == {"network": {"unet": "A U-Net.", "local": "A local network – 2L."}}
    assert study.cells["all-local"] == {"network": "local"}
    assert (study.question, study.headline, study.seconds) == ("Does it?", ["k_max"], {"cpu": 3.5})


def test_the_index_is_of_the_worlds_and_weights_that_there_are():
    kept, made = index.read(), index.indexed(WORLDS, {}, {}, {})
    assert kept.worlds == made.worlds
    assert list(kept.zoo) == zoo.names()
