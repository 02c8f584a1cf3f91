"""Experiments: one file per question, one value per variant; the first one is the base."""

import importlib
import pkgutil

from recombine.experiment import Experiment


def declared() -> dict[str, dict[str, Experiment]]:
    """Return every experiment by the name of its file, and its variants by their own."""
    return {name: variants(name) for _, name, _ in pkgutil.iter_modules(__path__)}


def variants(name: str) -> dict[str, Experiment]:
    """Return the variants that a file declares, in its order."""
    module = importlib.import_module(f"{__name__}.{name}")
    return {key: each for key, each in vars(module).items() if isinstance(each, Experiment)}
