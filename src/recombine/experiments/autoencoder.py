"""What does a tokenizer keep of an image? The KL autoencoder and the VQ of the objectives' study.

    recombine run autoencoder:vq --tiny     # does it run at all? seconds on a CPU
    recombine run autoencoder:all           # for a GPU: 42 s each on one H200

They learn from seen compositions only. What they make of the others bounds every model that draws
in their latents: a probe reads the images they make anew, and that is the ceiling of the study.
"""

from dataclasses import replace

from recombine.condition import Conditioner, no_object
from recombine.experiment import Budget, Experiment
from recombine.experiments.probe import FACES
from recombine.measure.tokenizing import Tokenizing
from recombine.models.tokenizer import Autoencoder
from recombine.objectives.autoencoding import Autoencoding
from recombine.train import cosine
from recombine.worlds.files.celeba import CELEBA
from recombine.worlds.shapes2d import BINARY, Shapes2D
from recombine.worlds.shapes3d import SHAPES3D_240, Shapes3D

VQ, KL = Autoencoder(), Autoencoder(codes=None)
ROOM_VQ, ROOM_KL = Autoencoder(64), Autoencoder(64, codes=None)
FACE_VQ, FACE_KL = Autoencoder(FACES.size), Autoencoder(FACES.size, codes=None)

vq = Experiment(
    question="What do 256 codes keep of a picture of Shapes2D?",
    world=Shapes2D(among=BINARY.seen),
    network=VQ,
    budget=Budget(steps=4_000, batch=128, learning_rate=1e-3, warm_up=50, decay=cosine, ema=0.99),
    asks=(Tokenizing(BINARY),),
    headline=("psnr", "psnr@level2", "perplexity"),
    conditioner=Conditioner(no_object),
    objective=Autoencoding(),
    seeds=(0,),
)
kl = replace(
    vq,
    question="What does a KL autoencoder keep of a picture of Shapes2D?",
    network=KL,
    headline=("psnr", "psnr@level2", "channels_used"),
)
vq_all = replace(
    vq,
    question="What do 256 codes keep that were learned from every composition?",
    world=Shapes2D(),
)
kl_all = replace(
    kl,
    question="What does a KL autoencoder keep that was learned from every composition?",
    world=Shapes2D(),
)
vq_shapes3d = replace(
    vq,
    question="What do 256 codes keep of a picture of Shapes3D?",
    world=Shapes3D(among=SHAPES3D_240.seen),
    network=ROOM_VQ,
    asks=(Tokenizing(SHAPES3D_240, samples=4),),
)
kl_shapes3d = replace(
    vq_shapes3d,
    question="What does a KL autoencoder keep of a picture of Shapes3D?",
    network=ROOM_KL,
    headline=kl.headline,
)
vq_celeba = replace(
    vq,
    question="What do 256 codes keep of a face?",
    world=FACES,
    network=FACE_VQ,
    asks=(Tokenizing(CELEBA),),
)
kl_celeba = replace(
    vq_celeba,
    question="What does a KL autoencoder keep of a face?",
    network=FACE_KL,
    headline=kl.headline,
)
