"""Is what the probe takes for red nearer to red, or to blue? By the light that is missing.

    python benchmarks/colour.py results/colour_maskgit_jepa.json zoo:maskgit_jepa
    python benchmarks/colour.py results/colour_squared_small_2.json points:squared_small --seed 2

Of a model that is not shipped, the run of that seed is read under runs/.

A shape of colour c on white takes light away in proportion to 1 - c, wherever its edges lie. So
what is missing of red, of all that is missing of red and blue, is .9 of a blue shape and .1 of a
red one, exactly, and .5 half way: its blueness. Of a shape in several colours it is their mean by
missing light: it does not tell violet from blue with red in it. `accuracy_light` has shape and size
from the probe and the colour from the light. Beside it, true small triangles whose colour goes from
red to blue in equal steps tell at which blueness each reader changes its mind
(docs/decisions/024).
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from recombine import run as runner
from recombine import zoo
from recombine.checkpoint import checkpoints
from recombine.commands.measure import plan_of
from recombine.experiment import Trained
from recombine.experiments.objective import Composition, drawn_again, means
from recombine.measure.nearest import nearest
from recombine.measurement import Measurement
from recombine.models.probe import Probe
from recombine.report.origin import device_name
from recombine.report.record import Record
from recombine.scene import concept_rows
from recombine.split import BINARY
from recombine.worlds.shapes2d import COLOURS, Shapes2D

ASKED = BINARY.at(2)[0]
SAMPLES, STEPS = 64, 101
CPU = torch.device("cpu")
WORLD = Shapes2D(among=BINARY.seen).still


def blueness(images: Float[Tensor, "image 3 height width"]) -> Float[Tensor, " image"]:
    """Return what is missing of red light, of all that is missing of red and blue; 0 of white."""
    red, _, blue = (1 - images).sum(dim=(2, 3)).unbind(dim=1)
    return red / (red + blue).clamp(min=1e-6)


def between(steps: int) -> Float[Tensor, "step 3 28 28"]:
    """Return true small triangles whose colour goes from red to blue."""
    red, blue = (torch.tensor(COLOURS[name]) for name in ("red", "blue"))
    mix = torch.linspace(0, 1, steps)[:, None, None]
    scenes = means(WORLD, ASKED, steps, CPU)
    return WORLD.image(replace(scenes, colour=(1 - mix) * red + mix * blue))


def read(
    images: Float[Tensor, "image 3 28 28"], world: Shapes2D = WORLD
) -> dict[str, Int[Tensor, "image factor"]]:
    """Return what each reader says; by light it is the probe, but for the colour."""
    ask = Composition()
    probe = zoo.probe("probe", Probe(), CPU)(images)
    far = nearest(images, drawn_again(world, ask.asked, ask.renders, CPU))
    return {
        "": probe,
        "_linear": zoo.probe("probe_linear", Probe(linear=True), CPU)(images),
        "_nearest": concept_rows(BINARY.factors, ask.asked)[far.argmin(dim=1)],
        "_light": torch.cat([probe[:, :2], (blueness(images) > 0.5).long()[:, None]], dim=1),
    }


def changes() -> dict[str, Measurement]:
    """Return the blueness from which on each reader says blue of true triangles."""
    images = between(STEPS)
    far = blueness(images).tolist()
    return {
        f"changes_at{who}": Measurement(settled(far, (said[:, 2] == 1).tolist()), None, None, STEPS)
        for who, said in read(images).items()
    }


def settled(far: Sequence[float], says: Sequence[bool]) -> float:
    """Return the first of these values from which on all are so; 1 if not even the last is."""
    first = len(says)
    while first and says[first - 1]:
        first -= 1
    return far[first] if first < len(far) else 1.0


def coloured(trained: Trained, generator: torch.Generator) -> dict[str, Measurement]:
    """Return how blue small blue triangles are, all and those that the probe takes for red."""
    experiment = trained.experiment
    assert isinstance(experiment.world, Shapes2D)
    told = experiment.conditioner.encode(means(experiment.world, ASKED, SAMPLES, CPU))
    images = trained.images(experiment.conditioner.asked(told, generator), generator).clamp(0, 1)
    blue, rows = blueness(images), read(images, experiment.world)
    wanted = concept_rows(BINARY.factors, (ASKED,))
    found = {f"accuracy{who}@level2": share((said == wanted).all(1)) for who, said in rows.items()}
    found |= {f"blue{who}": share(said[:, 2] == 1) for who, said in rows.items()}
    found["blueness"] = Measurement.mean(blue.tolist())
    doubted = blue[rows[""][:, 2] == 0]
    if len(doubted) > 1:
        found["blueness_doubted"] = Measurement.mean(doubted.tolist())
        found["blue_doubted"] = share(doubted > 0.5)
    return found


def share(whether: Tensor) -> Measurement:
    """Return how many are so."""
    return Measurement.rate(int(whether.sum()), len(whether))


def weights(name: str, seed: int) -> Path:
    """Return the weights of a shipped model, or the last ones of a run."""
    of, _, which = name.partition(":")
    if of == "zoo":
        return zoo.path(which)
    found = checkpoints(Path("runs", of, which, f"seed{seed}"))
    if not found:
        raise ValueError(f"{name} is neither zoo:NAME nor a run of seed {seed} under runs/")
    return found[0]


def main(out: Path, name: str, seed: int | None = None) -> None:
    """Ask one model, and write a record."""
    if not out.resolve().parent.is_dir():
        raise ValueError(f"{out.parent} is not there; expected a folder to write {out.name} to")
    path, started = weights(name, seed or 0), time.time()
    asked = name if seed is None else f"{name} --seed {seed}"
    plan = plan_of(path)
    if not isinstance(plan.experiment.world, Shapes2D):
        raise ValueError(f"{name} does not draw red and blue shapes, but {plan.experiment.world}")
    trained = runner.loaded(plan, path, runner.machine(CPU))
    found = coloured(trained, torch.Generator().manual_seed(plan.seed)) | changes()
    record = Record(
        question=f"Is what the probe takes for red, of `{plan.variant}`, nearer to blue?",
        command=f"python benchmarks/colour.py {out} {asked}",
        experiment=f"{ASKED}, {SAMPLES} samples, {plan.name}:{plan.variant}",
        seed=plan.seed,
        device=device_name(CPU),
        seconds=time.time() - started,
        measurements=found,
        headline=tuple(
            each
            for each in ("accuracy@level2", "accuracy_light@level2", "blue_doubted")
            if each in found
        ),
    )
    record.save(out)
    print({each: found[each].value for each in found})


if __name__ == "__main__":
    if len(sys.argv) not in (3, 5) or sys.argv[3:4] not in ([], ["--seed"]):
        sys.exit(
            "usage: python benchmarks/colour.py OUT.json zoo:NAME | EXPERIMENT:VARIANT --seed N"
        )
    try:
        main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[4:]))
    except ValueError as error:
        sys.exit(f"colour.py: {error}")
