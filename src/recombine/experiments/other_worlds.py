"""Does what is found on Shapes2D hold in other worlds? Models of experiments/objective.py there.

Of the 240 compositions of three factors of Shapes3D, 180 are seen (docs/decisions/017). Faces are
read from files of CelebA, which do not come with the package.

    recombine run other_worlds:maskgit_shapes3d --seed 0  # 4 minutes on one H200
    recombine run other_worlds:maskgit_shapes3d --tiny    # does it run at all? a minute on one core
"""

from dataclasses import replace

from recombine.condition import Conditioner, Labels, everything
from recombine.experiments import objective
from recombine.experiments.autoencoder import FACE_KL, FACE_VQ, ROOM_KL, ROOM_VQ
from recombine.experiments.objective import Composition
from recombine.experiments.probe import FACES
from recombine.models.dit import DiT
from recombine.models.entry import Vector
from recombine.models.heads import Codes as CodeHead
from recombine.models.masked import Masked
from recombine.models.probe import Probe
from recombine.objectives.jepa import Jepa
from recombine.objectives.masked import MaskedCrossEntropy
from recombine.split import CELEBA, SHAPES3D_240
from recombine.views import Codes, Latents
from recombine.worlds.files.celeba import CelebA
from recombine.worlds.shapes3d import Shapes3D

LABELS = Labels(tuple(len(factor.concepts) for factor in Shapes3D.factors))
ROOMS = Composition(
    SHAPES3D_240,
    samples=8,
    probe="probe_shapes3d",
    reader=Probe(64, Shapes3D.factors),
    linear=None,
    renders=0,
)
dit_kl_shapes3d = replace(
    objective.dit_kl,
    question="Does a DiT on latents compose the hues, shapes and scales of Shapes3D?",
    world=Shapes3D(among=SHAPES3D_240.seen),
    network=DiT(
        ROOM_KL.latent, ROOM_KL.side, entry=Vector(3 * (LABELS.features + 1)), width=160, heads=5
    ),
    # Pictures have 256 tokens, not 49: fewer steps of fewer.
    budget=replace(
        objective.dit_kl.budget,
        steps=10_000,
        batch=128,
        # The late mean is of the last ten.
        milestones=(*range(1_000, 5_001, 1_000), *range(5_500, 10_001, 500)),
    ),
    conditioner=Conditioner(everything, LABELS),
    view=Latents("tokenizer_kl_shapes3d", ROOM_KL),
    asks=(ROOMS,),
    seeds=(0,),
)
dit_vq_shapes3d = replace(
    dit_kl_shapes3d,
    question="Does a DiT on codes compose the hues, shapes and scales of Shapes3D?",
    view=Latents("tokenizer_vq_shapes3d", ROOM_VQ),
)
maskgit_shapes3d = replace(
    dit_kl_shapes3d,
    question="Does MaskGIT compose the hues, shapes and scales of Shapes3D?",
    network=Masked(ROOM_VQ.side, features=LABELS.features, head=CodeHead(ROOM_VQ.codes or 0)),
    objective=objective.maskgit.objective,
    sampler=objective.maskgit.sampler,
    view=Codes("tokenizer_vq_shapes3d", ROOM_VQ),
)
maskgit_steered_shapes3d = replace(
    objective.steered(
        maskgit_shapes3d, "Does MaskGIT told like a DiT compose the concepts of Shapes3D?"
    ),
    asks=(ROOMS,),
)
jepa_shapes3d = replace(
    maskgit_shapes3d,
    question="Does MaskGIT with JEPA beside it compose the concepts of Shapes3D?",
    objective=Jepa(normalised=True)(MaskedCrossEntropy()),
)

# A hundred faces of each composition that is not seen are for testing, and a question takes two
# sets of them.
IN_FACES = Composition(
    CELEBA,
    samples=48,
    probe="probe_celeba",
    reader=Probe(FACES.size, CelebA.factors),
    linear=None,
    renders=0,
)
dit_kl_celeba = replace(
    objective.dit_kl,
    question="Does a DiT compose the sex, smile and hair of faces?",
    world=FACES,
    network=replace(objective.dit_kl.network, size=FACE_KL.side),  # type: ignore[type-var]
    view=Latents("tokenizer_kl_celeba", FACE_KL),
    asks=(IN_FACES,),
)
maskgit_celeba = replace(
    objective.maskgit,
    question="Does MaskGIT compose the sex, smile and hair of faces?",
    world=FACES,
    network=replace(objective.maskgit.network, side=FACE_VQ.side),  # type: ignore[type-var]
    view=Codes("tokenizer_vq_celeba", FACE_VQ),
    asks=(IN_FACES,),
)
jepa_celeba = replace(
    maskgit_celeba,
    question="Does MaskGIT with JEPA beside it compose the sex, smile and hair of faces?",
    objective=Jepa(normalised=True)(MaskedCrossEntropy()),
)
