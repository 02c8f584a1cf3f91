"""The worlds we make: each a law of scenes and the way they look."""

from recombine.scene import World
from recombine.worlds.circles import Circles
from recombine.worlds.clevr import Clevr
from recombine.worlds.shapes2d import Shapes2D
from recombine.worlds.shapes3d import Shapes3D

WORLDS: tuple[World, ...] = (Clevr(), Shapes3D(), Shapes2D(), Circles())

__all__ = ["WORLDS", "Circles", "Clevr", "Shapes2D", "Shapes3D"]
