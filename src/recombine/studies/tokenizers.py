"""What does a tokenizer keep of an image? A VQ and a KL autoencoder in three worlds.

    recombine run tokenizers:vq --tiny      # does it run at all? seconds on a CPU
    recombine run tokenizers                # for a GPU: 42 s each on one H200

They are trained on seen compositions only. What they lose of the others bounds every model that
draws in their latents. Faces are read from files of CelebA, which do not come with the package, in
the folder `celeba` where the command is run.
"""

from dataclasses import replace
from pathlib import Path

from recombine.condition import Conditioner, no_object
from recombine.measure.tokenizing import Tokenizing
from recombine.models.tokenizer import Autoencoder
from recombine.objectives.autoencoding import Autoencoding
from recombine.study import Axis, Cell, Level, study
from recombine.train import cosine
from recombine.training import Budget, Training
from recombine.worlds.files.celeba import CELEBA, CelebA
from recombine.worlds.shapes2d import BINARY, Shapes2D
from recombine.worlds.shapes3d import SHAPES3D_240, Shapes3D

VQ, KL = Autoencoder(), Autoencoder(codes=None)
FACES = CelebA(Path("celeba"))

BASE = Cell(
    Training(
        world=Shapes2D(among=BINARY.seen),
        network=VQ,
        budget=Budget(4_000, 128, 1e-3, warm_up=50, decay=cosine, ema=0.99),
        conditioner=Conditioner(no_object),
        objective=Autoencoding(),
    ),
    measures=(Tokenizing(BINARY),),
    seeds=(0,),
)


def kl(cell: Cell) -> Cell:
    """Return the cell with continuous latents instead of codes."""
    return replace(cell, training=replace(cell.training, network=KL))


def shapes3d(cell: Cell) -> Cell:
    """Return the cell on Shapes3D, at 64 pixels."""
    return _moved(cell, Shapes3D(among=SHAPES3D_240.seen), Tokenizing(SHAPES3D_240, samples=4))


def faces(cell: Cell) -> Cell:
    """Return the cell on faces."""
    return _moved(cell, FACES, Tokenizing(CELEBA))


def _moved(cell: Cell, world: Shapes3D | CelebA, measure: Tokenizing) -> Cell:
    codes = VQ.codes if cell.training.network == VQ else None
    network = Autoencoder(world.size, codes=codes)
    training = replace(cell.training, world=world, network=network)
    return replace(cell, training=training, measures=(measure,))


AXES = {
    "code": Axis(
        ("training.network",),
        {
            "vq": Level("Every token is one of 256 codes."),
            "kl": Level("Every token is a vector near a unit Gaussian.", kl),
        },
    ),
    "world": Axis(
        ("training.world", "training.network", "measures"),
        {
            "shapes2d": Level("The images are single shapes of 28 pixels."),
            "shapes3d": Level("The images are rooms of 64 pixels.", shapes3d),
            "celeba": Level("The images are faces.", faces),
        },
    ),
}
STUDY = study(
    "What does a tokenizer keep of an image, seen and held-out compositions alike?",
    BASE,
    AXES,
    ({"code": ["vq", "kl"], "world": list(AXES["world"].levels)},),
    headline=("psnr", "psnr@level2", "perplexity", "channels_used"),
    cost="42 s on one H200",
)
