"""Can a visual generative model make what it has never seen, out of parts it has?

The path is world -> training -> sample -> measure (docs/tour.md).

>>> import recombine
>>> recombine.Clevr(size=64, objects=(1, 3)).size
64
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.2.0"
_CHAPTERS = {
    "scene": ("Concepts", "Factor", "Scenes", "World", "compositions", "concatenate"),
    "split": ("CountSplit", "Split", "leaks", "level"),
    "worlds": ("WORLDS", "Circles", "Clevr", "Shapes2D", "Shapes3D"),
    "data": ("Batch", "Stream"),
    "measure.locality": ("locality",),
    "results.query": ("records",),
    "pipelines.wrap": ("wrap",),
    "scoring.accuracy": ("CompositionAccuracy", "score"),
    "run.model": ("Model", "load"),
}
__all__ = [name for names in _CHAPTERS.values() for name in names]

if TYPE_CHECKING:
    from recombine.data import Batch, Stream
    from recombine.measure.locality import locality
    from recombine.results.query import records
    from recombine.run.model import Model, load
    from recombine.scene import Concepts, Factor, Scenes, World, compositions, concatenate
    from recombine.split import CountSplit, Split, leaks, level
    from recombine.worlds import WORLDS, Circles, Clevr, Shapes2D, Shapes3D


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: the command line does not wait for torch."""
    for chapter, names in _CHAPTERS.items():
        if name in names:
            return getattr(import_module(f"recombine.{chapter}"), name)
    raise AttributeError(f"module 'recombine' has no attribute {name!r}")
