"""Small data sets in the formats of the real ones, for tests that read them."""

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

from recombine.scene import Concepts, Factor, Scenes

COLUMNS_40 = """
5_o_Clock_Shadow Arched_Eyebrows Attractive Bags_Under_Eyes Bald Bangs Big_Lips Big_Nose Black_Hair
Blond_Hair Blurry Brown_Hair Bushy_Eyebrows Chubby Double_Chin Eyeglasses Goatee Gray_Hair
Heavy_Makeup High_Cheekbones Male Mouth_Slightly_Open Mustache Narrow_Eyes No_Beard Oval_Face
Pale_Skin Pointy_Nose Receding_Hairline Rosy_Cheeks Sideburns Smiling Straight_Hair Wavy_Hair
Wearing_Earrings Wearing_Hat Wearing_Lipstick Wearing_Necklace Wearing_Necktie Young
"""
FACES = [
    {"Male", "Smiling", "Black_Hair"},
    {"Smiling", "Blond_Hair", "Young"},
    {"Smiling", "Brown_Hair"},
    {"Blond_Hair"},
    {"Smiling", "Blond_Hair", "Black_Hair"},
    {"Male", "Blond_Hair"},
    {"Smiling", "Black_Hair"},
    {"Black_Hair", "Bald"},
    {"Smiling", "Blond_Hair"},
    {"Male", "Smiling", "Black_Hair", "Goatee"},
    {"Male", "Blond_Hair"},
    {"Black_Hair"},
    {"Smiling", "Black_Hair"},
]
SHAPES, COLOURS = ("disc", "square"), ("blue", "green", "red")


def named(scenes: Scenes, factors: tuple[Factor, ...]) -> list[Concepts]:
    """Return the composition of each scene's first object in words."""
    return [
        tuple(factor.concepts[each] for factor, each in zip(factors, row, strict=True))
        for row in scenes.concepts[:, 0].tolist()
    ]


def grey(number: int) -> int:
    """Return a brightness that tells one picture from another, even as a JPEG."""
    return 12 + 16 * number


def write_celeba(folder: Path, faces: Sequence[set[str]] = FACES) -> Path:
    """Write faces with these marks, each of one grey."""
    images = folder / "img_align_celeba"
    images.mkdir(parents=True)
    columns = COLUMNS_40.split()
    rows = [str(len(faces)), " ".join(columns) + " "]
    for number, marked in enumerate(faces):
        name = f"{number + 1:06d}.jpg"
        Image.new("RGB", (178, 218), (grey(number),) * 3).save(images / name)
        marks = " ".join(" 1" if column in marked else "-1" for column in columns)
        rows.append(f"{name} {marks}")
    (folder / "list_attr_celeba.txt").write_text("\n".join(rows) + "\n")
    return folder


def drawn(shape: str, colour: str, number: int, side: tuple[int, int] = (40, 30)) -> Image.Image:
    """Return a shape on white, a little elsewhere in each image."""
    width, height = side
    rows, columns = np.mgrid[:height, :width]
    away = np.stack([rows - height / 2 - number % 3 + 1, columns - width / 2 - number % 5 + 2])
    inside = np.abs(away).max(axis=0) < 8 if shape == "square" else (away**2).sum(axis=0) < 70
    pixels = np.full((height, width, 3), 255, dtype=np.uint8)
    pixels[inside] = np.eye(3)[["red", "green", "blue"].index(colour)] * 200 + number % 50
    return Image.fromarray(pixels)


def write_images(folder: Path, of_each: int = 10) -> Path:
    """Write images of every composition as PNG, half of them in a folder below."""
    (folder / "more").mkdir(parents=True)
    lines = ["file,shape,colour"]
    for shape, colour in product(SHAPES, COLOURS):
        for number in range(of_each):
            name = f"{'more/' * (number % 2)}{shape}_{colour}_{number}.png"
            drawn(shape, colour, number).save(folder / name)
            lines.append(f"{name},{shape},{colour}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    return folder


def labels_3d() -> np.ndarray:
    """Return twelve rows of labels with their published values."""
    number = np.arange(12)
    return np.stack(
        [
            np.linspace(0, 0.9, 10)[number % 10],
            np.linspace(0, 0.9, 10)[(3 * number) % 10],
            np.linspace(0, 0.9, 10)[(7 * number) % 10],
            np.linspace(0.75, 1.25, 8)[(5 * number) % 8],
            np.linspace(0, 3, 4)[number % 4],
            np.linspace(-30, 30, 15)[number],
        ],
        axis=1,
    )


def images_3d() -> np.ndarray:
    """Return twelve images of noise."""
    return np.random.default_rng(0).integers(0, 256, (12, 64, 64, 3), dtype=np.uint8)


def write_shapes3d(
    path: Path, chunks: tuple[int, ...] | None = None, **changed: np.ndarray
) -> Path:
    """Write twelve images in the layout of 3dshapes.h5."""
    data = {"images": images_3d(), "labels": labels_3d()} | changed
    with h5py.File(path, "w") as file:
        for key, value in data.items():
            packed = {"chunks": chunks, "compression": "gzip"} if chunks and key == "images" else {}
            file.create_dataset(key, data=value, **packed)
    return path


# Where the objects stand on the floor, scene by scene; the last scene's second one is far aside.
PLACES = [
    [(0.0, 0.0)],
    [(1.0, -0.5), (-1.0, 0.8)],
    [(-1.2, -1.0), (0.3, 1.1), (1.4, 0.2)],
    [],
    [(0.5, 0.5), (-1.5, 0.0)],
    [(0.0, 1.0), (2.4, 2.4)],
]


def write_clevr(folder: Path, part: str = "train") -> Path:
    """Write six scenes of CLEVR_v1.0; marks of pure red, green and blue show where objects are."""
    (folder / "images" / part).mkdir(parents=True)
    (folder / "scenes").mkdir(exist_ok=True)
    scenes = [_clevr_scene(part, number, places) for number, places in enumerate(PLACES)]
    for number, scene in enumerate(scenes):
        pixels = np.full((320, 480, 4), (grey(number),) * 3 + (255,), dtype=np.uint8)
        for channel, one in enumerate(scene["objects"]):
            across, down, _ = one["pixel_coords"]
            pixels[down - 6 : down + 6, across - 6 : across + 6, :3] = np.eye(3)[channel] * 255
        Image.fromarray(pixels).save(folder / "images" / part / scene["image_filename"])
    data = {"info": {"split": part, "version": "1.0"}, "scenes": scenes}
    (folder / "scenes" / f"CLEVR_{part}_scenes.json").write_text(json.dumps(data))
    return folder


def _clevr_scene(part: str, number: int, places: list[tuple[float, float]]) -> dict:
    eye = np.array([7.4811, -6.5076, 5.3437])
    forward = -eye / np.linalg.norm(eye)
    right = np.cross(forward, [0, 0, 1])
    right /= np.linalg.norm(right)
    up = np.cross(right, forward)
    objects = []
    for each, (x, y) in enumerate(places):
        size = ("large", "small")[each % 2]
        gap = np.array([x, y, {"large": 0.7, "small": 0.35}[size]]) - eye
        # 35 mm of focal length on 32 mm of sensor, which the 480 columns fill.
        across, along = (480 * 35 / 32 * (gap @ axis) / (gap @ forward) for axis in (right, up))
        objects.append(
            {
                "color": ("red", "blue", "cyan")[each],
                "shape": ("cube", "sphere", "cylinder")[each],
                "size": size,
                "material": ("rubber", "metal")[each % 2],
                "rotation": 30.0 * each,
                "3d_coords": (gap + eye).tolist(),
                "pixel_coords": [round(240 + across), round(160 - along), float(gap @ forward)],
            }
        )
    across, along = (
        axis * [1, 1, 0] / np.linalg.norm(axis * [1, 1, 0]) for axis in (right, forward)
    )
    ways = {"right": across, "left": -across, "behind": along, "front": -along}
    heights = {"above": [0.0, 0.0, 1.0], "below": [-0.0, -0.0, -1.0]}
    return {
        "split": part,
        "image_index": number,
        "image_filename": f"CLEVR_{part}_{number:06d}.png",
        "objects": objects,
        "directions": {**{name: axis.tolist() for name, axis in ways.items()}, **heights},
        "relationships": {
            name: [_beyond(places, each, axis) for each in range(len(places))]
            for name, axis in ways.items()
        },
    }


def _beyond(places: list[tuple[float, float]], each: int, axis: np.ndarray) -> list[int]:
    reach = [place @ axis[:2] for place in np.array(places).reshape(-1, 2)]
    return [other for other in range(len(places)) if reach[other] > reach[each] + 0.2]
