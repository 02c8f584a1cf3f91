"""Compositional generalization in visual generative models, told in the order of the data.

scene     what a picture is of          render    scenes to images, on any device
worlds    laws of scenes                split     what may be seen, and how far the rest is
data      endless seeded batches        report    records, tables, pages

>>> import recombine, torch
>>> world = recombine.Clevr(size=64, objects=(1, 3))
>>> world.image(world.scenes(torch.arange(8), seed=0)).shape
torch.Size([8, 3, 64, 64])
"""

from recombine.data import Batch, Stream
from recombine.measure.locality import locality
from recombine.scene import Concepts, Factor, Scenes, World, compositions, concatenate
from recombine.split import CountSplit, Split, leaks, level
from recombine.worlds import WORLDS, Circles, Clevr, Shapes2D, Shapes3D

__version__ = "0.1.0"

__all__ = [
    "WORLDS",
    "Batch",
    "Circles",
    "Clevr",
    "Concepts",
    "CountSplit",
    "Factor",
    "Scenes",
    "Shapes2D",
    "Shapes3D",
    "Split",
    "Stream",
    "World",
    "compositions",
    "concatenate",
    "leaks",
    "level",
    "locality",
]
