"""Pictures of samples: a panel per composition, a red frame around what is not as asked."""

from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.composition_sheet import draw, main, true_renders
from PIL import Image

from recombine.experiments.objective import Composition
from recombine.split import BINARY
from recombine.worlds.shapes2d import Shapes2D

# Blue ones: red is for frames.
WHICH = [("circle", "large", "blue"), ("circle", "small", "blue"), ("triangle", "small", "blue")]
FRAME = [0xD6, 0x27, 0x28]


def framed(path: Path) -> float:
    pixels = np.asarray(Image.open(path).convert("RGB")).astype(int)
    return float((abs(pixels - FRAME).max(axis=-1) < 12).mean())


def test_what_the_probe_does_not_read_as_asked_is_framed(tmp_path: Path):
    true = true_renders(Shapes2D(among=BINARY.seen), WHICH, 4)
    assert true.shape[:2] == (3, 4)
    draw(tmp_path / "right.png", {"true": true}, Composition(), WHICH, 2)
    assert framed(tmp_path / "right.png") == 0
    draw(tmp_path / "wrong.png", {"of others": true.roll(1, 0)}, Composition(), WHICH, 2)
    whole = framed(tmp_path / "wrong.png")
    assert whole > 0
    half = torch.cat([true[:, :2], true.roll(1, 0)[:, 2:]], dim=1)
    draw(tmp_path / "half.png", {"half": half}, Composition(), WHICH, 2)
    assert framed(tmp_path / "half.png") == pytest.approx(whole / 2, rel=0.2)


def test_a_picture_needs_a_folder(tmp_path: Path):
    with pytest.raises(SystemExit, match=r"expected a folder to write drawn\.png to"):
        main(tmp_path / "no" / "drawn.png")
