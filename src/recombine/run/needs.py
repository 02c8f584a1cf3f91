"""What runs need from disk, named before anything starts."""

from collections.abc import Iterator, Sequence

from recombine import studies, views, zoo
from recombine.data import Files
from recombine.objectives.autoencoding import Autoencoding
from recombine.run.plan import Plan
from recombine.study import Cell
from recombine.views import Codes, Latents


def check(plans: Sequence[Plan]) -> None:
    """Refuse runs whose pictures, tokenizer or readers are not there; name all of them at once."""
    lacking: dict[str, dict[str, None]] = {}
    for plan in plans:
        for fault in missing(plan):
            lacking.setdefault(fault, {})[plan.name] = None
    if lacking:
        faults = [f"{', '.join(names)}: {fault}" for fault, names in lacking.items()]
        raise ValueError("; ".join(faults))


def check_ceiling(plans: Sequence[Plan]) -> None:
    """Refuse runs whose tokenizer loses some of the images that they learn from."""
    for plan in plans:
        if isinstance(plan.declared, Cell):
            training = plan.trained.training
            views.check(training.view, fixed=getattr(training.world, "shift", None) == 0)


def missing(plan: Plan) -> Iterator[str]:
    """Yield in words what a run needs and does not find."""
    if not isinstance(plan.declared, Cell):
        return
    training, there = plan.trained.training, zoo.names()
    if isinstance(training.view, Latents | Codes) and training.view.name not in there:
        name = training.view.name
        made = f"train {maker(training.view, training.world.name)} first and ship it as {name}"
        yield f"the tokenizer {zoo.PREFIX}{name} is not there: {made} (benchmarks/ship.py)"
    for measure in plan.trained.measures:
        for reader in {getattr(measure, name, "") for name in ("reader", "second")}:
            # The reader by rendering has no weights.
            if reader in zoo.READERS and reader not in ("fit", *there):
                yield f"{measure.name} needs the reader {zoo.PREFIX}{reader}, which is not there"
    if isinstance(training.world, Files):
        place = getattr(training.world, "folder", getattr(training.world, "path", None))
        expected = f"{training.world.name} is expected in {place}" if place else "files are missing"
        try:
            len(training.world)
        except ValueError as error:
            yield f"{expected} ({error})"


def maker(view: Latents | Codes, world: str) -> str:
    """Return which cell of which study trains the tokenizer of a view, one of its world first."""
    found = {
        f"{name}:{key}": cell.training.world.name == world
        for name in studies.names()
        for key, cell in studies.load(name).cells.items()
        if isinstance(cell, Cell)
        and isinstance(cell.training.objective, Autoencoding)
        and cell.training.network == view.of
    }
    return max(found, key=lambda name: found[name], default="a tokenizer of this kind")
