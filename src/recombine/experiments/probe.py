"""How well does a small network read the factors of single objects?

    recombine run probe --tiny         # does it run at all? seconds on a CPU
    recombine run probe                # the reader of the shapes2d study; minutes on a CPU
    recombine run probe:linear         # the papers' own, linear in the pixels

It learns from every composition, held-out ones included, so that it can name what it sees; what it
reads says nothing about itself. Measured on renders it never saw, as they are and with noise.
"""

from dataclasses import replace
from pathlib import Path

from recombine.condition import Conditioner, all_objects
from recombine.experiment import Budget, Experiment
from recombine.measure.reader_error import ReaderError
from recombine.models.probe import Probe
from recombine.objectives.classification import Classification, concepts
from recombine.train import cosine
from recombine.views import Unchanged
from recombine.worlds.files.celeba import CELEBA, CelebA
from recombine.worlds.shapes2d import BINARY, Shapes2D
from recombine.worlds.shapes3d import SHAPES3D_240, Shapes3D

FACES = CelebA(Path("celeba"))
"""Where the files of CelebA are looked for: in the folder `celeba` where a command is run."""

base = Experiment(
    question="Which shape, size and colour does a small network see in a picture of Shapes2D?",
    world=Shapes2D(),
    network=Probe(),
    budget=Budget(steps=1_500, batch=128, learning_rate=1e-3, warm_up=50, decay=cosine, ema=0.99),
    asks=(ReaderError(BINARY),),
    headline=("accuracy", "accuracy_noisy"),
    conditioner=Conditioner(all_objects, concepts),
    objective=Classification(),
    view=Unchanged(),
    seeds=(0,),
)
linear = replace(
    base,
    question="What does a probe that is linear in the pixels see there?",
    network=Probe(linear=True),
)
shapes3d = replace(
    base,
    question="Which hue, shape and scale does a small network see in a picture of Shapes3D?",
    world=Shapes3D(among=(*SHAPES3D_240.seen, *SHAPES3D_240.held_out)),
    network=Probe(64, Shapes3D.factors),
    objective=Classification(tuple(len(factor.concepts) for factor in Shapes3D.factors)),
    asks=(ReaderError(SHAPES3D_240, samples=16),),
)
celeba = replace(
    base,
    question="Which sex, smile and hair does a small network see in a face?",
    world=replace(FACES, among=(*CELEBA.seen, *CELEBA.held_out)),
    network=Probe(FACES.size, CelebA.factors),
    asks=(ReaderError(CELEBA, samples=64),),
)
