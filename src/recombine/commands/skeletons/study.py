"""Does a model compose what it saw apart? (Say here the question, and what would answer it.)

    recombine run FILE --tiny       # does it run at all?
    recombine run FILE              # every cell with every seed; the same command again resumes
    recombine list FILE             # its levels and cells
    python -m pytest FILE           # the test at the end

A study is a table of cells: trainings that differ in named levels and in nothing else.
"""

from dataclasses import replace

from recombine.condition import Conditioner, Labels, all_objects
from recombine.measure.composition import Composition
from recombine.models.dit import DiT
from recombine.models.entry import Vector
from recombine.split import Split
from recombine.study import Axis, Cell, Level, study
from recombine.training import Budget, Training
from recombine.worlds.shapes2d import Shapes2D

# The world, and which of its compositions are seen; the others are held out.
WORLD = Shapes2D(shapes=("circle", "triangle"), sizes=("large", "small"), colours=("red", "blue"))
FACTORS = WORLD.factors
SEEN = (
    ("circle", "large", "red"),
    ("circle", "large", "blue"),
    ("circle", "small", "red"),
    ("triangle", "large", "red"),
)
SPLIT = Split("skeleton", FACTORS, SEEN)

# All that weights depend on. The condition has a row for each factor: its label in one-hot form,
# and a 1 that says that it is given.
LABELS = Labels(tuple(len(factor.concepts) for factor in FACTORS))
TRAINING = Training(
    world=replace(WORLD, among=SPLIT.seen),
    network=DiT(
        channels=3,
        size=28,
        patch=4,
        entry=Vector(len(FACTORS) * (LABELS.features + 1)),
        width=64,
        layers=4,
        heads=4,
    ),
    budget=Budget(steps=2_000, batch=64, learning_rate=1e-3, warm_up=100),
    conditioner=Conditioner(all_objects, LABELS),
)

# What is measured of it: at the end, and on the way at the milestones.
BASE = Cell(
    TRAINING, measures=(Composition(SPLIT, reader="fit"),), milestones=(1_000,), seeds=(0, 1, 2)
)


def smaller(cell: Cell) -> Cell:
    """Change the network to one of half the width."""
    network = DiT(3, 28, patch=4, entry=Vector(9), width=32, layers=4, heads=4)
    return replace(cell, training=replace(cell.training, network=network))


# An axis names the fields that its levels may change; its first level changes nothing.
AXES = {
    "size": Axis(
        ("training.network",),
        {"usual": Level("A DiT of width 64."), "small": Level("A DiT of half the width.", smaller)},
    )
}
STUDY = study(
    "Does a model compose what it saw apart?",
    BASE,
    AXES,
    # One table: every combination of these levels is a cell.
    ({"size": ["usual", "small"]},),
    headline=("accuracy@seen", "accuracy@test"),
    cost="minutes a seed on two cores",
)


def test_what_is_trained_on_is_seen_and_the_rest_is_held_out() -> None:
    assert STUDY.cells["usual"] != STUDY.cells["small"]
    assert set(SPLIT.seen).isdisjoint(SPLIT.held_out)
    assert SPLIT.levels == (0, 1, 2)
