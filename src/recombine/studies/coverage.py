"""How many combinations must a model have seen before it draws the others?

Farid et al. 2025 (arXiv 2510.03075) ask whether a discrete objective hurts composition, whether
incomplete conditioning does, and whether a JEPA loss repairs it. Here every model is trained on
12 to 60 of the 96 compositions of Shapes2D and sampled on 24 others that none of them has seen.
A seed is a replicate: it has its own base, test compositions and order (`Coverage`), and its own
random numbers; seeds are paired over models. Learning rates are chosen on the dev compositions.

    recombine run coverage:maskgit --tiny                # does it run at all? seconds on a CPU
    recombine run coverage:dit-small --seeds 0           # minutes on one core, 0.2 M weights
    recombine measure zoo:dit --what composition         # shipped weights
    recombine run coverage:dit-c40 --seeds 0-4           # for a GPU: 10,000 steps a seed
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from recombine.condition import Conditioner, Labels, all_objects
from recombine.measure.composition import Composition
from recombine.models.entry import Vector
from recombine.models.masked import Masked
from recombine.objectives.diffusion import Diffusion
from recombine.objectives.jepa import Jepa
from recombine.objectives.masked import MaskedObjective
from recombine.split import Coverage
from recombine.studies._networks import Combination, parts
from recombine.studies.tokenizers import GRID, KL, VQ
from recombine.study import Axis, Cell, Level, study
from recombine.train import cosine
from recombine.training import Budget, Training
from recombine.views import Latents
from recombine.worlds.shapes2d import BINARY, PAPER, Shapes2D

VECTORS, LATENTS = Latents("tokenizer_vq", VQ), Latents("tokenizer_kl", KL)
SEEN = (18, 12, 27, 40, 60)
MODELS: dict[str, tuple[str, Combination, Latents]] = {
    "dit": ("A DiT on the code vectors of a VQ tokenizer.", ("noise", "squared", "adaln"), VECTORS),
    "dit_kl": ("A DiT on KL latents.", ("noise", "squared", "adaln"), LATENTS),
    "maskgit": (
        "MaskGIT: masked codes, cross-entropy, prefix tokens.",
        ("masks", "cross_entropy", "tokens"),
        VECTORS,
    ),
    "maskgit_squared": (
        "MaskGIT that regresses code vectors, conditioned by adaLN.",
        ("masks", "squared", "adaln"),
        VECTORS,
    ),
    "mar": (
        "MAR: masked KL latents, each drawn by a small diffusion head.",
        ("masks", "token_diffusion", "tokens"),
        LATENTS,
    ),
    "givt": (
        "GIVT: masked KL latents under a mixture of Gaussians.",
        ("masks", "likelihood", "tokens"),
        LATENTS,
    ),
}


def covered(seen: int, order: int = 0) -> Callable[[Cell], Cell]:
    """Return the change to a cell that sees so many compositions, in the order of a replicate."""

    def change(cell: Cell) -> Cell:
        split = Coverage(GRID, seen, order).split
        world: Any = cell.training.world
        measures = tuple(
            replace(each, split=split) if isinstance(each, Composition) else each
            for each in cell.measures
        )
        training = replace(cell.training, world=replace(world, among=split.seen))
        return replace(cell, training=training, measures=measures)

    return change


def replicate(cell: Cell, seed: int) -> Cell:
    """Return the cell with the compositions of a replicate: the same number of them is seen."""
    world: Any = cell.training.world
    return covered(len(world.among), seed)(cell)


def modelled(combination: Combination, view: Latents) -> Callable[[Cell], Cell]:
    """Return the change to a network with its objective, view and sampler."""

    def change(cell: Cell) -> Cell:
        labels: Any = cell.training.conditioner.encode
        made = parts(combination, view, labels)
        training = replace(
            cell.training, network=made.network, objective=made.objective, view=made.view
        )
        return replace(cell, training=training, sampler=made.sampler)

    return change


def with_jepa(cell: Cell) -> Cell:
    """Add the JEPA loss at three layers of eight, or of four: the paper's relative depths."""
    objective: Any = cell.training.objective
    if not isinstance(objective, MaskedObjective | Diffusion):
        raise ValueError(f"JEPA attaches to masked models and the DiT; got {objective}")
    return replace(cell, training=replace(cell.training, objective=Jepa()(objective)))


def papers_world(cell: Cell) -> Cell:
    """Put the cell into the papers' 2 x 2 x 2 world; every seed sees the same four compositions."""
    labels = Labels((2, 2, 2))
    network: Any = cell.training.network
    if isinstance(network, Masked):
        network = replace(network, features=labels.features)
    else:
        network = replace(network, entry=Vector(3 * (labels.features + 1)))
    training = replace(
        cell.training,
        world=replace(PAPER, among=BINARY.seen),
        conditioner=Conditioner(all_objects, labels),
        network=network,
    )
    measures = (Composition(BINARY, samples=64, reader="fit", kept=4),)
    return replace(
        cell, training=training, measures=measures, seeds=tuple(range(8)), replicate=None
    )


def shaped(**fields: Any) -> Callable[[Cell], Cell]:
    """Return the change to other fields of the network, such as its width."""

    def change(cell: Cell) -> Cell:
        network: Any = cell.training.network
        training = replace(cell.training, network=replace(network, **fields))
        return replace(cell, training=training)

    return change


def small(cell: Cell) -> Cell:
    """Return the cell for two cores: 4 layers of width 64, 4,000 steps, half the samples."""
    cell = shaped(width=64, layers=4, inner=None)(cell)
    objective: Any = cell.training.objective
    if (jepa := getattr(objective, "jepa", None)) is not None:
        objective = replace(objective, jepa=replace(jepa, layers=(1, 2, 3)))
    budget = replace(cell.training.budget, steps=4_000, batch=64)
    training = replace(cell.training, budget=budget, objective=objective)
    measures = tuple(
        replace(each, samples=8) if isinstance(each, Composition) else each
        for each in cell.measures
    )
    return replace(cell, training=training, measures=measures, milestones=(), seeds=(0, 1, 2))


def with_world(**fields: Any) -> Callable[[Cell], Cell]:
    """Return the change to other fields of the world."""

    def change(cell: Cell) -> Cell:
        world: Any = cell.training.world
        return replace(cell, training=replace(cell.training, world=replace(world, **fields)))

    return change


FIRST = Coverage(GRID, SEEN[0]).split
_DIT = parts(MODELS["dit"][1], VECTORS, Labels((4, 4, 6)))
BASE = Cell(
    Training(
        world=Shapes2D(among=FIRST.seen),
        network=_DIT.network,
        budget=Budget(10_000, 64, 1e-3, warm_up=200, decay=cosine, ema=0.995),
        conditioner=Conditioner(all_objects, Labels((4, 4, 6))),
        objective=_DIT.objective,
        view=VECTORS,
    ),
    sampler=_DIT.sampler,
    measures=(Composition(FIRST, samples=16, reader="fit", most=24, kept=4, second="probe"),),
    milestones=(5_000,),
    seeds=(0, 1, 2, 3, 4),
    replicate=replicate,
)
RUN = ("milestones", "seeds")
AXES = {
    "model": Axis(
        ("training.network", "training.objective", "training.view", "sampler"),
        {
            name: Level(says, modelled(combination, view))
            for name, (says, combination, view) in MODELS.items()
        },
    ),
    "auxiliary": Axis(
        ("training.objective",),
        {"none": Level("No second loss."), "jepa": Level("A JEPA loss besides.", with_jepa)},
    ),
    "coverage": Axis(
        ("training.world", "measures"),
        {f"c{seen}": Level(f"{seen} of 96 compositions are seen.", covered(seen)) for seen in SEEN},
    ),
    "world": Axis(
        (
            "training.world",
            "training.conditioner",
            "training.network",
            "measures",
            "seeds",
            "replicate",
        ),
        {
            "grid": Level("96 compositions of equal area at random places."),
            "papers": Level("The papers' 2 x 2 x 2 compositions.", papers_world),
        },
    ),
    "position": Axis(
        ("training.world",),
        {
            "random": Level("Shapes stand at random places."),
            "fixed": Level("Shapes stand in the middle.", with_world(shift=0.0)),
        },
    ),
    "volume": Axis(
        ("training.world",),
        {
            "endless": Level("No image is seen twice."),
            **{
                f"images{n}": Level(f"There are {n:,} images in all.", with_world(images=n))
                for n in (1_000, 4_000, 16_000)
            },
        },
    ),
    "size": Axis(
        ("training.network", "training.objective", "training.budget", "measures", *RUN),
        {
            "middle": Level("1.2 M weights."),
            "narrow": Level("0.4 M weights.", shaped(width=56, inner=152)),
            "wide": Level("3.8 M weights.", shaped(width=176, inner=464)),
            "small": Level("0.3 M weights and 4,000 steps, for two cores.", small),
        },
    ),
}
EVERY = list(MODELS)
STUDY = study(
    "How many combinations must a model have seen before it draws the others?",
    BASE,
    AXES,
    (
        {"model": EVERY, "coverage": list(AXES["coverage"].levels)},
        {"model": ["dit", "maskgit", "maskgit_squared"], "auxiliary": "jepa"},
        {"world": "papers", "model": EVERY},
        {"model": ["dit", "maskgit"], "position": "fixed"},
        {
            "model": ["dit", "maskgit"],
            "coverage": ["c18", "c40"],
            "volume": ["images1000", "images4000", "images16000"],
        },
        {"model": ["dit", "maskgit"], "coverage": ["c18", "c40"], "size": ["narrow", "wide"]},
        {
            "model": ["dit", "maskgit", "maskgit_squared"],
            "coverage": ["c18", "c40"],
            "position": ["random", "fixed"],
            "size": "small",
        },
        {"model": "maskgit", "auxiliary": "jepa", "position": "fixed", "size": "small"},
    ),
    headline=("accuracy@test", "accuracy@dev", "accuracy@seen", "valid@test"),
    cost="10 to 20 seconds a run, stacked, on one H200; 6 to 9 minutes on one core (small)",
)
