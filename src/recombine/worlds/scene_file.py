"""Scenes on disk, in CLEVR's own schema.

What the original generator writes loads unchanged. We add what it does not record: the camera and
the lamps, and for the other worlds exact values beside the names. Numbers are written in full, so
that a file reads back to the same scenes.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from recombine.measurement import Number
from recombine.render.camera import directions, look_at, places
from recombine.render.stage import LAMP_POSITIONS
from recombine.scene import MATERIALS, SHAPES, Factor, Scenes, World
from recombine.worlds import clevr
from recombine.worlds.recover import recovered_eye

RELATED = 0.2
"""How far along a direction another object must be to count as in that direction."""
SPELLING = {"colour": "color"}
MOST_OBJECTS = 256


def write(scenes: Scenes, world: World, names: Sequence[str], first: int = 0) -> dict[str, Any]:
    """Return scenes as a JSON object; `first` is the number of the first scene."""
    scenes = scenes.to("cpu")
    derived = _derived(scenes, world.size) if scenes.position.shape[-1] == 3 else None
    written = []
    for number, name in enumerate(names):
        scene = scenes[number : number + 1]
        entry: dict[str, Any] = {
            "split": world.name,
            "image_index": first + number,
            "image_filename": name,
            "objects": _objects(scene, world),
            "camera": scene.camera[0].tolist(),
            "lamps": scene.lamps[0].tolist(),
            "backdrop": scene.backdrop[0].tolist(),
        }
        if derived:
            pixels, more = derived[number]
            for one, pixel in zip(entry["objects"], pixels, strict=True):
                one["pixel_coords"] = pixel
            entry |= more
        written.append(entry)
    info = {"world": world.name, "size": world.size, "made_by": "recombine"}
    return {"info": info, "scenes": written}


def _objects(scene: Scenes, world: World) -> list[dict[str, Any]]:
    """Return the present objects of one scene."""
    place = "3d_coords" if scene.position.shape[-1] == 3 else "2d_coords"
    written = []
    for number in scene.present[0].nonzero()[:, 0].tolist():
        concepts = zip(world.factors, scene.concepts[0, number].tolist(), strict=True)
        written.append(
            {
                "shape": SHAPES[int(scene.shape[0, number])],
                "material": MATERIALS[int(scene.material[0, number])],
                **{SPELLING.get(f.name, f.name): f.concepts[each] for f, each in concepts},
                place: scene.position[0, number].tolist(),
                "rotation": float(scene.rotation[0, number]),
                "radius": float(scene.size[0, number]),
                "rgb": scene.colour[0, number].tolist(),
            }
        )
    return written


def _derived(scenes: Scenes, size: int) -> list[tuple[list[list[Number]], dict[str, Any]]]:
    """Return what CLEVR derives from each scene: pixels, and directions and relationships."""
    place, depth = places(scenes)
    axes = directions(look_at(scenes.camera, torch.zeros_like(scenes.camera)))
    found = []
    for number, kept in enumerate(scenes.present):
        pixels = (place[number, kept] * size).round().int().tolist()
        deep = zip(pixels, depth[number, kept].tolist(), strict=True)
        related: dict[str, list[list[int]]] = {}
        for name in ("behind", "front", "left", "right"):
            # For each object, those that lie in this direction from it.
            along = scenes.position[number, kept] @ axes[name][number]
            related[name] = [(along - here > RELATED).nonzero()[:, 0].tolist() for here in along]
        own = {name: axis[number].tolist() for name, axis in axes.items()}
        more = {"directions": own, "relationships": related}
        found.append(([[*pixel, far] for pixel, far in deep], more))
    return found


def read(
    data: object, world: World, image_size: int | tuple[int, int] | None = None
) -> tuple[Scenes, list[str]]:
    """Return the scenes of a JSON object and the names of their images.

    The image size (side, or width and height) is that of `pixel_coords`, from which a camera that
    is not recorded is recovered; by default the one the file names, or the world's.
    """
    entries = _list(_entry(data, "scenes", "the file"), "scenes")
    info = data.get("info") if isinstance(data, Mapping) else None
    named = info.get("size") if isinstance(info, Mapping) else None
    if image_size is None:
        image_size = named if isinstance(named, int) else world.size
    width, height = (image_size, image_size) if isinstance(image_size, int) else image_size
    scenes = [_Reader(entry, number, world) for number, entry in enumerate(entries)]
    if not scenes:
        raise ValueError("the file holds no scenes")
    most = max(len(scene.objects) for scene in scenes)
    rows = [scene.tensors(most, (width, height)) for scene in scenes]
    joined = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
    return Scenes(**joined), [scene.image_name() for scene in scenes]


class _Reader:
    """One scene of a file; every complaint names the scene and the object."""

    def __init__(self, entry: object, number: int, world: World) -> None:
        self.world, self.where = world, f"scene {number}"
        self.objects = _list(_entry(entry, "objects", self.where), f"{self.where}: objects")
        self.entry = _mapping(entry, self.where)
        self.place, self.space = "2d_coords", 2
        if world.name in ("clevr", "shapes3d"):
            self.place, self.space = "3d_coords", 3
        if len(self.objects) > MOST_OBJECTS:
            raise ValueError(
                f"{self.where} has {len(self.objects)} objects; at most {MOST_OBJECTS} are read"
            )

    def image_name(self) -> str:
        name = _entry(self.entry, "image_filename", self.where)
        if not isinstance(name, str) or not name:
            raise ValueError(f"{self.where}: image_filename is a name; got {name!r}")
        return name

    def tensors(self, objects: int, image: tuple[int, int]) -> dict[str, Tensor]:
        """Return this scene's rows of every tensor of Scenes, with room for so many objects."""
        rows = [self._object(number) for number in range(len(self.objects))]
        table = {
            "position": torch.zeros(objects, self.space),
            "size": torch.zeros(objects),
            "rotation": torch.zeros(objects),
            "colour": torch.zeros(objects, 3),
            "shape": torch.zeros(objects, dtype=torch.int64),
            "material": torch.zeros(objects, dtype=torch.int64),
            "concepts": torch.zeros(objects, len(self.world.factors), dtype=torch.int64),
        }
        for number, row in enumerate(rows):
            for name, value in row.items():
                table[name][number] = torch.as_tensor(value)
        table["present"] = torch.arange(objects) < len(rows)
        return table | self._view(table["position"][: len(rows)], image)

    def _object(self, number: int) -> dict[str, Any]:
        entry, where = self.objects[number], f"{self.where}, object {number}"

        def concept(factor: Factor) -> int:
            value = _entry(entry, SPELLING.get(factor.name, factor.name), where)
            try:
                return factor.index(str(value))
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from None

        shape, material = concept(Factor("shape", SHAPES)), concept(Factor("material", MATERIALS))
        concepts = [concept(factor) for factor in self.world.factors]
        size = entry.get("radius", clevr.SIZES.get(str(entry.get("size"))))
        # The original has no colours but those of its names.
        named = [level / 255 for level in clevr.PALETTE.get(str(entry.get("color")), ())]
        return {
            "position": _numbers(
                _entry(entry, self.place, where), self.space, f"{where}: {self.place}"
            ),
            "size": _numbers([size], 1, f"{where}: radius")[0],
            "rotation": _numbers([_entry(entry, "rotation", where)], 1, f"{where}: rotation")[0],
            "colour": _numbers(entry.get("rgb", named), 3, f"{where}: rgb"),
            "shape": shape,
            "material": material,
            "concepts": concepts,
        }

    def _view(self, position: Tensor, image: tuple[int, int]) -> dict[str, Tensor]:
        """Return camera, lamps and backdrop: as recorded, or as they must have been."""
        view = {"lamps": torch.tensor(LAMP_POSITIONS), "backdrop": torch.full((1, 3), clevr.FLOOR)}
        for name in view.keys() & self.entry.keys():
            listed = _list(self.entry[name], name)
            rows = [_numbers(row, 3, f"{self.where}: {name}") for row in listed]
            view[name] = torch.tensor(rows).reshape(-1, 3)
        if "camera" in self.entry:
            eye = torch.tensor(_numbers(self.entry["camera"], 3, f"{self.where}: camera"))
        elif self.world.name != "clevr":
            raise ValueError(f"{self.where} has no 'camera'; a {self.world.name} scene needs one")
        else:
            eye = self._recovered(position, image)
        return view | {"camera": eye}

    def _recovered(self, position: Tensor, image: tuple[int, int]) -> Tensor:
        pixels = []
        for number, entry in enumerate(self.objects):
            where = f"{self.where}, object {number}"
            found = _entry(entry, "pixel_coords", where)
            pixels.append(_numbers(found, 3, f"{where}: pixel_coords"))
        axes = self.entry.get("directions")
        behind = axes.get("behind") if isinstance(axes, Mapping) else None
        if behind is not None:
            behind = _numbers(behind, 3, f"{self.where}: directions.behind")
        return recovered_eye(position, torch.tensor(pixels).reshape(-1, 3), behind, image)


def _mapping(data: object, where: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise ValueError(f"{where} is not a JSON object")
    return data


def _entry(data: object, key: str, where: str) -> Any:
    entries = _mapping(data, where)
    if key not in entries:
        raise ValueError(f"{where} has no {key!r}")
    return entries[key]


def _list(data: object, where: str) -> list[Any]:
    if not isinstance(data, list):
        raise ValueError(f"{where} is not a list")
    return data


def _numbers(value: object, length: int, where: str) -> list[float]:
    """Return a list of finite numbers of a known length."""
    if not (
        isinstance(value, list)
        and len(value) == length
        and all(isinstance(v, int | float) and not isinstance(v, bool) for v in value)
        and all(math.isfinite(v) and abs(v) < 1e6 for v in value)
    ):
        raise ValueError(f"{where}: expected {length} finite numbers; got {value!r}")
    return [float(v) for v in value]
