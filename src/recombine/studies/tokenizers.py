"""What does a tokenizer keep of an image? A VQ and a KL autoencoder in three worlds.

    recombine run tokenizers:vq --tiny      # does it run at all? seconds on a CPU
    recombine run tokenizers                # for a GPU: 42 s each on one H200

Those of Shapes2D are trained on every composition, so that they bound no model that draws in their
latents; `seen` is the contrast, trained on 18 of 96. Those of the other worlds are trained on seen
compositions only. Faces are read from files of CelebA, which do not come with the package, in
the folder `celeba` where the command is run.
"""

from dataclasses import replace
from pathlib import Path

from recombine.condition import Conditioner, no_object
from recombine.measure.tokenizing import Tokenizing
from recombine.models.tokenizer import Autoencoder
from recombine.objectives.autoencoding import Autoencoding
from recombine.scene import compositions
from recombine.split import Coverage, Split
from recombine.study import Axis, Cell, Level, study
from recombine.train import cosine
from recombine.training import Budget, Training
from recombine.worlds.files.celeba import CELEBA, CelebA
from recombine.worlds.shapes2d import Shapes2D
from recombine.worlds.shapes3d import SHAPES3D_240, Shapes3D

VQ, KL = Autoencoder(width=32), Autoencoder(width=32, codes=None)
"""The tokenizers of Shapes2D."""
FACES = CelebA(Path("celeba"))
GRID = Shapes2D().factors
EVERY = Split("every composition", GRID, tuple(compositions(GRID)))
SEEN = Coverage(GRID, seen=18).split

BASE = Cell(
    Training(
        world=Shapes2D(),
        network=VQ,
        budget=Budget(6_000, 64, 1e-3, warm_up=50, decay=cosine, ema=0.99),
        conditioner=Conditioner(no_object),
        objective=Autoencoding(),
    ),
    measures=(Tokenizing(EVERY, samples=16, read=64),),
    seeds=(0,),
)


def kl(cell: Cell) -> Cell:
    """Return the cell with continuous latents instead of codes."""
    return replace(cell, training=replace(cell.training, network=KL))


def seen(cell: Cell) -> Cell:
    """Return the cell that sees 18 of 96 compositions."""
    return _moved(cell, Shapes2D(among=SEEN.seen), Tokenizing(SEEN, samples=16, read=64))


def shapes3d(cell: Cell) -> Cell:
    """Return the cell on Shapes3D, at 64 pixels."""
    return _moved(cell, Shapes3D(among=SHAPES3D_240.seen), Tokenizing(SHAPES3D_240, samples=4))


def faces(cell: Cell) -> Cell:
    """Return the cell on faces."""
    return _moved(cell, FACES, Tokenizing(CELEBA))


def _moved(cell: Cell, world: Shapes2D | Shapes3D | CelebA, measure: Tokenizing) -> Cell:
    network = cell.training.network
    if not isinstance(world, Shapes2D):
        network = Autoencoder(world.size, codes=None if network == KL else VQ.codes)
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
            "shapes2d": Level("The images are single shapes of 28 pixels, every composition."),
            "seen": Level("The images are single shapes of 18 of the 96 compositions.", seen),
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
    headline=("psnr", "psnr@level1", "psnr@level2", "perplexity", "channels_used"),
    cost="42 s on one H200",
)
