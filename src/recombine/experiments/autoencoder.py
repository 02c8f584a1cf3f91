"""What does a tokenizer keep of an image? The KL autoencoder and the VQ of the objectives' study.

    recombine run autoencoder:vq --tiny     # does it run at all? seconds on a CPU
    recombine run autoencoder:all           # for a GPU: 42 s each on one H200

They learn from seen compositions only. What they make of the others bounds every model that draws
in their latents: a probe reads the images they make anew, and that is the ceiling of the study.
"""

from dataclasses import dataclass, replace

import torch

from recombine.condition import Conditioner, no_object
from recombine.experiment import Budget, Experiment, Findings, Trained
from recombine.experiments.probe import FACES, Single, fresh
from recombine.measure.tokenizing import (
    codebook_alarm,
    codebook_use,
    latent_alarm,
    latent_use,
    reconstruction,
)
from recombine.measurement import Measurement
from recombine.models.tokenizer import Autoencoder, Coded
from recombine.objectives.autoencoding import Autoencoding
from recombine.split import Split
from recombine.train import cosine
from recombine.worlds.files.celeba import CELEBA
from recombine.worlds.shapes2d import BINARY, Shapes2D
from recombine.worlds.shapes3d import SHAPES3D_240, Shapes3D


@dataclass(frozen=True)
class Tokenizing:
    """Make so many fresh renders of every composition anew, level by level."""

    split: Split
    samples: int = 64

    def __call__(self, trained: Trained, generator: torch.Generator) -> Findings:
        """Render, make anew and compare."""
        del generator
        experiment = trained.experiment
        world, view, network = experiment.world, experiment.view, experiment.network
        assert isinstance(world, Single)
        assert isinstance(network, Autoencoder)
        measured: dict[str, Measurement] = {}
        alarms: list[list[str]] = []
        images = {}
        for level in self.split.levels:
            rendered = [
                fresh(world, which, self.samples, trained.device) for which in self.split.at(level)
            ]
            image = torch.cat(rendered)
            coded: Coded = trained.denoiser(view(image))  # type: ignore[call-arg,assignment]
            again = view.back(coded.image).float().clamp(0, 1)
            found = reconstruction(again, image)
            measured |= {f"{name}@level{level}": each for name, each in found.items()}
            images[f"level{level}"] = torch.cat([image[:: self.samples], again[:: self.samples]])
            if level == 0:
                measured |= {**found, **in_use(coded, network)}
                alarms = [["alarm", text] for text in [alarm(coded, network)] if text]
        return Findings(measured, {"alarms": alarms}, images)

    def tiny(self) -> "Tokenizing":
        """Return the same question with few samples."""
        return replace(self, samples=2)


def in_use(coded: Coded, network: Autoencoder) -> dict[str, Measurement]:
    """Return how much of the latents is used, and how far they spread."""
    if coded.ids is None or network.codes is None:
        assert coded.logvar is not None
        return latent_use(coded.latent.float(), coded.logvar.float())
    assert coded.vectors is not None
    vectors = coded.vectors.double()
    spread = vectors.var(dim=(0, 2, 3), correction=0).mean().sqrt()
    return {
        **codebook_use(coded.ids, network.codes),
        "latent_spread": Measurement(float(spread), None, None, n=len(vectors)),
    }


def alarm(coded: Coded, network: Autoencoder) -> str | None:
    """Return what to do about latents or codes that have collapsed."""
    if coded.ids is None or network.codes is None:
        assert coded.logvar is not None
        return latent_alarm(coded.latent.float(), coded.logvar.float())
    return codebook_alarm(coded.ids, network.codes)


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
