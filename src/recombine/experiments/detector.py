"""How well does a small network read CLEVR-like images: which objects are where?

    recombine run detector --tiny         # does it run at all? seconds on a CPU
    recombine run detector --seed 0       # the shipped reader; meant for a GPU, a few minutes

Measured on renders it never saw, where every object shows at least 12 pixels at 64 px: per number
of objects at 64 px with the camera at its place, and at 128 px with camera and lamps jittered. The
numbers without @ are over 0 to 9 objects at 64 px, which is what the length study asks it to read.
"""

from recombine.condition import Conditioner, all_objects
from recombine.experiment import Budget, Experiment
from recombine.measure.detection import HEADLINE, DetectorError
from recombine.models.detector import Detector
from recombine.objectives.detection import Detection, Targets
from recombine.train import cosine
from recombine.views import Unchanged
from recombine.worlds.clevr import Clevr

base = Experiment(
    question="Which objects does a small network see in a CLEVR-like image, and where?",
    world=Clevr(size=128, objects=(0, 12), jitter=True, margin=False),
    network=Detector(),
    budget=Budget(
        steps=4_000, batch=256, learning_rate=1.5e-3, warm_up=300, decay=cosine, ema=0.999
    ),
    asks=(DetectorError(),),
    headline=HEADLINE,
    conditioner=Conditioner(all_objects, Targets()),
    objective=Detection(),
    view=Unchanged(),
    seeds=(0,),
)
