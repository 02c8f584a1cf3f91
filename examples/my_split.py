"""Is a composition drawn that was never seen? recombine run examples/my_split.py"""

from dataclasses import replace

from recombine import Shapes2D, Split
from recombine.condition import Conditioner, Labels, all_objects
from recombine.measure.composition import Composition
from recombine.models.dit import DiT
from recombine.models.entry import Vector
from recombine.study import Cell, study
from recombine.training import Budget, Training

world = Shapes2D(shapes=("circle", "triangle"), sizes=("large", "small"), colours=("red", "blue"))
seen = [("circle", size, "red") for size in ("large", "small")]
seen += [("triangle", "large", "red"), ("circle", "large", "blue")]
split = Split("my_split", world.factors, tuple(seen))
training = Training(
    world=replace(world, among=split.seen),
    network=DiT(3, 28, patch=4, entry=Vector(9), width=64, layers=4, heads=4),
    budget=Budget(2_000, 64, warm_up=100),
    conditioner=Conditioner(all_objects, Labels((2, 2, 2))),
)
base = Cell(training, measures=(Composition(split, reader="fit"),))
STUDY = study("Is it drawn, never having been seen?", base, {}, headline=("accuracy@test",))
