"""Compositional generalization in visual generative models, in the order of the data.

scene     what a picture is of          render    scenes to images, on any device
worlds    laws of scenes                split     what may be seen, and how far the rest is
data      endless seeded batches        report    records, tables, pages

>>> import recombine, torch
>>> world = recombine.Clevr(size=64, objects=(1, 3))
>>> world.image(world.scenes(torch.arange(8), seed=0)).shape
torch.Size([8, 3, 64, 64])
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["Batch", "Stream", "locality"]
__all__ += ["Composition", "Factor", "Scenes", "World", "compositions", "concatenate"]
__all__ += ["CountSplit", "Split", "leaks", "level"]
__all__ += ["WORLDS", "Circles", "Clevr", "Shapes2D", "Shapes3D"]

if TYPE_CHECKING:
    from recombine.data import Batch, Stream
    from recombine.measure.locality import locality
    from recombine.scene import Composition, Factor, Scenes, World, compositions, concatenate
    from recombine.split import CountSplit, Split, leaks, level
    from recombine.worlds import WORLDS, Circles, Clevr, Shapes2D, Shapes3D
else:

    def __getattr__(name):
        """Import a public name when it is first used: the command line does not wait for torch."""
        from importlib import import_module

        for chapter in ("scene", "worlds", "split", "data", "measure.locality"):
            if name in __all__ and hasattr(found := import_module(f"recombine.{chapter}"), name):
                return getattr(found, name)
        raise AttributeError(f"module 'recombine' has no attribute {name!r}")
