"""Does a discrete objective hurt composition? A small study that stands until a sound one does.

Farid et al. 2025 (arXiv 2510.03075), RQ2: a DiT, MAR and GIVT model continuous latents, MaskGIT
discrete codes. All are trained on four of the eight compositions of shape, size and colour and are
conditioned on labels. Networks are small: 4 layers of width 64.

Do not draw conclusions from these accuracies: the reader can name a shape from the ink of an image
alone, and a single composition is held out at level 2 (docs/history/first_objectives_study.md).

    recombine run objectives:maskgit                        # five minutes on one core
    recombine measure zoo:maskgit --what composition        # measure shipped weights again
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from recombine.condition import Conditioner, Labels, all_objects
from recombine.measure.composition import Composition
from recombine.models.dit import DiT
from recombine.models.entry import Vector
from recombine.models.heads import DiffusionHead, LogitHead, MixtureHead
from recombine.models.masked import Masked
from recombine.objectives.diffusion import Diffusion
from recombine.objectives.jepa import Jepa
from recombine.objectives.masked import MaskedCrossEntropy, MaskedDiffusion, MaskedMixture
from recombine.sample.heun import Sampler
from recombine.sample.unmask import Unmask
from recombine.studies.tokenizers import KL, VQ
from recombine.study import Axis, Cell, Level, study
from recombine.train import cosine
from recombine.training import Budget, Training
from recombine.views import Codes, Latents
from recombine.worlds.shapes2d import BINARY, Shapes2D

LABELS = Labels((2, 2, 2))
LAYERS, WIDTH, HEADS = 4, 64, 4

BASE = Cell(
    Training(
        world=Shapes2D(among=BINARY.seen),
        network=DiT(KL.latent, KL.side, entry=Vector(9), layers=LAYERS, width=WIDTH, heads=HEADS),
        budget=Budget(5_000, 32, 1e-3, warm_up=200, decay=cosine, ema=0.995),
        conditioner=Conditioner(all_objects, LABELS),
        objective=Diffusion(sigma_data=1.0),
        view=Latents("tokenizer_kl", KL),
    ),
    sampler=Sampler(steps=18),
    measures=(Composition(BINARY),),
    milestones=(1_000, 2_000, 3_000, 4_000, 5_000),
    seeds=(1, 2, 3),
)
JEPA = Jepa(layers=(1, 2, 3), normalised=True)


def masked(head: Any, sampler: Unmask, **fields: Any) -> Callable[[Cell], Cell]:
    """Return the change to a masked transformer of the same size with this head."""
    network = Masked(features=LABELS.features, head=head, layers=LAYERS, width=WIDTH, heads=HEADS)

    def change(cell: Cell) -> Cell:
        training = replace(cell.training, network=network, **fields)
        return replace(cell, training=training, sampler=sampler)

    return change


CODES: dict[str, Any] = {
    "head": LogitHead(VQ.codes or 0),
    "sampler": Unmask(),
    "view": Codes("tokenizer_vq", VQ),
}

AXES = {
    "model": Axis(
        ("training.network", "training.objective", "training.view", "sampler"),
        {
            "dit_kl": Level("A DiT on the latents of a KL autoencoder."),
            "dit_vq": Level(
                "A DiT on the code vectors of a VQ tokenizer.",
                lambda cell: replace(
                    cell, training=replace(cell.training, view=Latents("tokenizer_vq", VQ))
                ),
            ),
            "maskgit": Level(
                "MaskGIT: masked codes, cross-entropy.",
                masked(**CODES, objective=MaskedCrossEntropy()),
            ),
            "maskgit_jepa": Level(
                "MaskGIT with a JEPA loss on its hidden states.",
                masked(**CODES, objective=JEPA(MaskedCrossEntropy())),
            ),
            "mar": Level(
                "MAR: masked latents, each drawn by a small diffusion head.",
                masked(
                    DiffusionHead(KL.latent, width=96, sigma_data=1.0),
                    Unmask(descent=Sampler(steps=18)),
                    objective=MaskedDiffusion(diffusion=Diffusion(sigma_data=1.0)),
                ),
            ),
            "givt": Level(
                "GIVT: masked latents under a mixture of Gaussians.",
                masked(MixtureHead(KL.latent), Unmask(), objective=MaskedMixture()),
            ),
        },
    )
}

STUDY = study(
    "Does a discrete objective hurt composition? (its reader is unsound: no conclusions)",
    BASE,
    AXES,
    ({"model": list(AXES["model"].levels)},),
    headline=("accuracy@level2", "accuracy@level0"),
    cost="5 minutes a seed on one core, 9 s on one H200",
    note=(
        "This reader is unsound: the ink of an image alone gives shape and size, and level 2 is a "
        "single composition (docs/history/first_objectives_study.md)."
    ),
)
