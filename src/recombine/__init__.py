"""Can a visual generative model make what it has never seen, out of parts it has?

The path is world -> training -> sample -> measure (docs/tour.md); docs/api.md shows every name.

>>> import recombine
>>> recombine.Clevr(size=64, objects=(1, 3)).size
64
"""

from importlib import import_module

__version__ = "0.2.0"
_CHAPTERS = {
    "scene": ("Concepts", "Factor", "Scenes", "World", "compositions"),
    "split": ("CountSplit", "Coverage", "Split", "leaks", "level"),
    "worlds": ("WORLDS", "Circles", "Clevr", "Shapes2D", "Shapes3D"),
    "data": ("Stream",),
    "measurement": ("Measurement",),
    "measure.locality": ("locality",),
    "pipelines.wrap": ("wrap",),
    "results.query": ("records",),
    "scoring.accuracy": ("CompositionAccuracy", "score"),
    "run.model": ("Model", "load"),
}
_CALLED = ("measure", "run")  # chapters that are also functions: recombine.called
__all__ = [name for names in _CHAPTERS.values() for name in names] + [*_CALLED]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: the command line does not wait for torch."""
    if name in _CALLED:
        return import_module(f"recombine.{name}")
    for chapter, names in _CHAPTERS.items():
        if name in names:
            return getattr(import_module(f"recombine.{chapter}"), name)
    raise AttributeError(f"module 'recombine' has no attribute {name!r}")
