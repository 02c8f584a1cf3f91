"""Image files as a reader takes them: the pixels that were written, and no others."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from recombine.scene import World
from recombine.worlds.shapes2d import Shapes2D


def opened(paths: Sequence[Path], world: World) -> UInt8[Tensor, "batch 3 height width"]:
    """Return pictures of one size in bytes, or name the file that cannot be read as it is."""
    found = [_pixels(path) for path in paths]
    side = world.size if isinstance(world, Shapes2D) else None
    first = found[0].shape
    for path, each in zip(paths, found, strict=True):
        height, width = each.shape[:2]
        if side is not None and (height, width) != (side, side):
            raise ValueError(
                f"{path} has {width}x{height} pixels; the reader of {world.name} sees {side}x{side}"
            )
        if each.shape != first:
            raise ValueError(
                f"{path} has {width}x{height} pixels, {paths[0]} {first[1]}x{first[0]}; "
                "expected images of one size"
            )
    return torch.from_numpy(np.stack(found)).permute(0, 3, 1, 2)


def _pixels(path: Path) -> np.ndarray:
    try:
        with Image.open(path) as image:
            mode, pixels = image.mode, np.array(image)
    except FileNotFoundError:
        raise ValueError(f"{path} is not there") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path} is not a whole image: {error}") from None
    if mode == "RGBA" and (pixels[..., 3] == 255).all():
        return pixels[..., :3]
    if mode != "RGB":
        raise ValueError(f"{path} is in mode {mode}; expected RGB with 8 bits a channel")
    return pixels
