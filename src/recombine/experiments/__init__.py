"""Experiments: one file per question, one value per variant; the first one is the base."""

import importlib
import pkgutil
from typing import TypeAlias

from recombine.experiment import Computation, Experiment

Declared: TypeAlias = Experiment | Computation


def declared() -> dict[str, dict[str, Declared]]:
    """Return every experiment by the name of its file, and its variants by their own."""
    return {name: variants(name) for _, name, _ in pkgutil.iter_modules(__path__)}


def variants(name: str) -> dict[str, Declared]:
    """Return the variants that a file declares, in its order."""
    module = importlib.import_module(f"{__name__}.{name}")
    return {
        key: each
        for key, each in vars(module).items()
        # A class of computations has all that its values have.
        if isinstance(each, Experiment | Computation)
        and not isinstance(each, type)
        and not key.startswith("_")
    }
