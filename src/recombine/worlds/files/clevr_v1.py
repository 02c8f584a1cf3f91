"""CLEVR_v1.0 as published: 480 x 320 PNGs and one scenes file per part (Johnson et al. 2017).

Images are cut to the square in the middle and resized. Scenes keep their world positions. Scenes
with an object whose centre would be cut away are left out, so that a condition matches its image.
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from jaxtyping import Float, Int
from torch import Tensor

from recombine.scene import Factor, Scenes, concatenate
from recombine.worlds.clevr import Clevr
from recombine.worlds.files.folder import Format, all_there, directory, inside, parsed, pictures
from recombine.worlds.scene_file import read

FRAME = Format("PNG", width=480, height=320, modes=("RGB", "RGBA"), cut=80)
PARTS = ("train", "val")


@dataclass(frozen=True)
class ClevrV1:
    """The scenes of one part that have `objects` from the first to the second number.

    The camera sees a square of 480 pixels, of which the file holds the middle rows and the image
    the middle 320 columns: the image is the middle of Clevr's, 1.5 times as large.
    """

    folder: Path = field(repr=False)
    part: str = "train"
    size: int = 128
    objects: tuple[int, int] = (0, 10)

    name: ClassVar[str] = "clevr_v1"
    factors: ClassVar[tuple[Factor, ...]] = Clevr.factors

    def __post_init__(self) -> None:
        if self.part not in PARTS:
            raise ValueError(f"CLEVR has scenes for {' and '.join(PARTS)}; got {self.part!r}")
        if self.size < 1:
            raise ValueError(f"an image has a side of at least 1 pixel; got {self.size}")
        if not 0 <= self.objects[0] <= self.objects[1]:
            raise ValueError(f"objects are counted from 0 up, least first; got {self.objects}")

    def __len__(self) -> int:
        """Return how many scenes there are with so many objects."""
        return len(self._listed)

    def scenes_of(self, number: Int[Tensor, " batch"]) -> Scenes:
        """Return the scenes of these images, all with room for the most objects there are."""
        scenes = concatenate([self._scene(each) for each in number.tolist()])
        return scenes.padded(self.objects[1]).to(number.device)

    def image_of(self, number: Int[Tensor, " batch"]) -> Float[Tensor, "batch 3 height width"]:
        """Return these images, cut square and resized."""
        folder = self.folder / "images" / self.part
        names = (self._listed[each]["image_filename"] for each in number.tolist())
        return pictures(folder, self.folder, names, FRAME, self.size).to(number.device)

    @property
    def _path(self) -> Path:
        listing = f"CLEVR_{self.part}_scenes.json"
        return inside(directory(self.folder, "scenes"), self.folder, listing)

    @cached_property
    def _listed(self) -> list[dict[str, Any]]:
        """Read the entries of the wanted scenes, and no more of them than is needed."""
        folder, path = directory(self.folder, "images", self.part), self._path
        least, most = self.objects
        try:
            scenes = _whole(parsed(path))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        listed = [scene for scene in scenes if least <= len(scene["objects"]) <= most]
        if not listed:
            raise ValueError(f"{path}: no scene has {least}-{most} objects, all inside the square")
        all_there(folder, [scene["image_filename"] for scene in listed])
        return listed

    @cached_property
    def _known(self) -> dict[int, Scenes]:
        return {}

    def _scene(self, number: int) -> Scenes:
        """Read one scene, once: to recover a camera takes longer than to decode an image."""
        if number not in self._known:
            scene = self._listed[number]
            size = (FRAME.width, FRAME.height)
            try:
                self._known[number] = read({"scenes": [scene]}, Clevr(self.size), size)[0]
            except ValueError as error:
                name = scene["image_filename"]
                raise ValueError(f"{self._path}, of {name}: {error}") from None
        return self._known[number]


def _whole(data: object) -> list[dict[str, Any]]:
    """Return image name, objects and directions of the scenes that no cut takes an object from."""
    scenes = data.get("scenes") if isinstance(data, dict) else None
    if not isinstance(scenes, list):
        raise ValueError("expected an object with a list of scenes, as in CLEVR_v1.0")
    kept = []
    for number, scene in enumerate(scenes):
        try:
            across = [one["pixel_coords"][0] for one in scene["objects"]]
            if all(FRAME.cut <= place < FRAME.width - FRAME.cut for place in across):
                needed = ("image_filename", "objects", "directions")
                kept.append({key: scene[key] for key in needed})
        except (KeyError, TypeError, IndexError):
            raise ValueError(
                f"scene {number} lacks an image_filename, directions, or objects with pixel_coords"
            ) from None
    return kept
