"""How well do our readers read? The detector of CLEVR-like images, and the probe of single shapes.

    recombine run readers --tiny            # does it run at all? seconds on a CPU
    recombine run readers:detector          # the shipped detector: minutes on a GPU
    recombine run readers:probe             # the reader of the objectives study: minutes on a CPU

Both are measured on renders that they never saw. The probe learns from every composition, held-out
ones included, so that it can name what it sees.
"""

from dataclasses import replace

from recombine import zoo
from recombine.condition import Conditioner, all_objects
from recombine.measure.detection import DetectorError
from recombine.measure.reader_error import ReaderError
from recombine.models.detector import Detector
from recombine.models.probe import Probe
from recombine.objectives.classification import Classification, concepts
from recombine.objectives.detection import Detection, Targets
from recombine.study import Axis, Cell, Level, study
from recombine.train import cosine
from recombine.training import Budget, Training
from recombine.views import Unchanged
from recombine.worlds.clevr import Clevr
from recombine.worlds.shapes2d import Shapes2D
from recombine.worlds.shapes3d import SHAPES3D_240, Shapes3D

DETECTOR = Cell(
    Training(
        world=Clevr(size=128, objects=(0, 12), jitter=True, margin=False),
        network=Detector(),
        budget=Budget(4_000, 256, 1.5e-3, warm_up=300, decay=cosine, ema=0.999),
        conditioner=Conditioner(all_objects, Targets()),
        objective=Detection(),
        view=Unchanged(),
    ),
    measures=(DetectorError(),),
    seeds=(0,),
)
PROBE = Cell(
    Training(
        world=Shapes2D(),
        network=zoo.SHAPES2D_PROBE,
        budget=Budget(2_000, 128, 2e-3, warm_up=50, decay=cosine, ema=0.99),
        conditioner=Conditioner(all_objects, concepts),
        objective=Classification(noise=0.07, blur=1.5, world=Shapes2D()),
        view=Unchanged(),
    ),
    measures=(ReaderError(),),
    seeds=(0,),
)
ROOMS = replace(
    PROBE,
    training=replace(
        PROBE.training,
        world=Shapes3D(among=(*SHAPES3D_240.seen, *SHAPES3D_240.held_out)),
        network=Probe(64, Shapes3D.factors),
        objective=Classification(tuple(len(factor.concepts) for factor in Shapes3D.factors)),
    ),
    measures=(ReaderError(samples=16),),
)
AXES = {
    "instrument": Axis(
        ("training", "measures"),
        {
            "detector": Level("Finds the objects of a CLEVR-like image and names their factors."),
            "probe": Level("Names shape, size and colour in Shapes2D.", lambda _: PROBE),
            "probe_shapes3d": Level("Names hue, shape and scale in Shapes3D.", lambda _: ROOMS),
        },
    )
}
STUDY = study(
    "What do our readers get wrong, in images that they never saw?",
    DETECTOR,
    AXES,
    ({"instrument": list(AXES["instrument"].levels)},),
    headline=("exact_count", "precision", "recall", "accuracy", "accuracy_noisy"),
    cost="minutes on one H200 (detector) or on one core (probe)",
)
