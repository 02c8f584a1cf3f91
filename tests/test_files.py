import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from recombine.worlds.files.folder import MOST_BYTES, Format, inside, picture, text

SQUARE = Format("PNG", width=8, height=8, modes=("RGB",))


def bomb(path: Path, side: int) -> Path:
    """Write a PNG of a few bytes that claims to be huge."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    data = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + data)
    return path


@pytest.fixture
def noise() -> Image.Image:
    pixels = np.random.default_rng(1).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b.png", "../a.png", "/a.png", "a\\b", "C:a", "a\0"]
)
def test_a_name_that_is_a_path_is_refused(tmp_path: Path, name: str):
    with pytest.raises(ValueError, match="not the plain name of a file"):
        inside(tmp_path, tmp_path, name)


def test_a_link_may_lead_about_the_data_set_but_not_out_of_it(tmp_path: Path):
    root = tmp_path / "data"
    (root / "images").mkdir(parents=True)
    (tmp_path / "secret.png").write_text("secret")
    (root / "own.png").write_text("own")
    (root / "images" / "out.png").symlink_to(tmp_path / "secret.png")
    (root / "images" / "in.png").symlink_to(root / "own.png")
    with pytest.raises(ValueError, match=r"out.png is a link that leaves the data set"):
        inside(root / "images", root, "out.png")
    assert inside(root / "images", root, "in.png").read_text() == "own"


def test_a_data_set_behind_a_link_is_read(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.png").write_text("a")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert inside(tmp_path / "link", tmp_path / "link", "a.png").read_text() == "a"


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(ValueError, match="pipe.png is not a regular file"):
        inside(tmp_path, tmp_path, "pipe.png")


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(ValueError, match="a.png is missing"):
        inside(tmp_path, tmp_path, "a.png")


@pytest.mark.parametrize("side", [5000, 12_000, 60_000])
def test_a_decompression_bomb_is_refused_by_its_header(tmp_path: Path, side: int):
    with pytest.raises(ValueError, match="bomb.png"):
        picture(bomb(tmp_path / "bomb.png", side), SQUARE)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_bomb_is_refused_where_warnings_are_not_errors(tmp_path: Path):
    with pytest.raises(ValueError, match="12000x12000 pixels in mode .*; expected 8x8"):
        picture(bomb(tmp_path / "bomb.png", 12_000), SQUARE)


@pytest.mark.parametrize("kept", [0, 4, 20, 60, 0.5, 0.9])
def test_a_truncated_png_is_refused(tmp_path: Path, noise: Image.Image, kept: float):
    noise.save(tmp_path / "a.png")
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(whole[: int(kept * len(whole)) if kept < 1 else int(kept)])
    with pytest.raises(ValueError, match="a.png is not a whole PNG image"):
        picture(tmp_path / "a.png", SQUARE)


# Bytes of the header's length, of the length of the data, and of the data.
@pytest.mark.parametrize(("place", "bit"), [(11, 0x01), (36, 0x80), (60, 0x80)])
def test_a_damaged_png_is_refused(tmp_path: Path, noise: Image.Image, place: int, bit: int):
    noise.save(tmp_path / "a.png")
    data = bytearray((tmp_path / "a.png").read_bytes())
    data[place] ^= bit
    (tmp_path / "a.png").write_bytes(data)
    with pytest.raises(ValueError, match="a.png is not a whole PNG image"):
        picture(tmp_path / "a.png", SQUARE)


def test_another_format_under_the_same_name_is_refused(tmp_path: Path, noise: Image.Image):
    noise.save(tmp_path / "a.png", format="BMP")
    with pytest.raises(ValueError, match="a.png is not a whole PNG image"):
        picture(tmp_path / "a.png", SQUARE)


def test_a_picture_of_the_wrong_size_or_mode_is_refused(tmp_path: Path, noise: Image.Image):
    noise.resize((8, 9)).save(tmp_path / "tall.png")
    noise.convert("L").save(tmp_path / "grey.png")
    with pytest.raises(ValueError, match="tall.png has 8x9 pixels in mode RGB; expected 8x8"):
        picture(tmp_path / "tall.png", SQUARE)
    with pytest.raises(ValueError, match="grey.png has 8x8 pixels in mode L; expected 8x8 in RGB"):
        picture(tmp_path / "grey.png", SQUARE)


def test_a_text_file_too_large_to_be_true_is_not_read(tmp_path: Path):
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(ValueError, match=f"huge.json has {MOST_BYTES + 1} bytes; at most"):
        text(tmp_path / "huge.json")
