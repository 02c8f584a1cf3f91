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
    solid = scenes.position.shape[-1] == 3
    extra = _solid_entries(scenes, world.size) if solid else [{} for _ in names]
    written: list[dict[str, Any]] = [
        {
            "split": world.name,
            "image_index": first + number,
            "image_filename": name,
            "objects": _objects(scenes[number : number + 1], world),
            "camera": scenes.camera[number].tolist(),
            "lamps": scenes.lamps[number].tolist(),
            "backdrop": scenes.backdrop[number].tolist(),
        }
        for number, name in enumerate(names)
    ]
    for entry, more in zip(written, extra, strict=True):
        for one, pixel in zip(entry["objects"], more.pop("pixel_coords", ()), strict=False):
            one["pixel_coords"] = pixel
        entry.update(more)
    info = {"world": world.name, "size": world.size, "made_by": "recombine"}
    return {"info": info, "scenes": written}


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
    most = max((len(scene.objects) for scene in scenes), default=0)
    rows = [scene.tensors(most, (width, height)) for scene in scenes]
    if not rows:
        raise ValueError("the file holds no scenes")
    joined = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
    return Scenes(**joined), [scene.image_name() for scene in scenes]


def _objects(scene: Scenes, world: World) -> list[dict[str, Any]]:
    """Return the present objects of one scene."""
    written = []
    for number in scene.present[0].nonzero()[:, 0].tolist():
        concepts = {
            SPELLING.get(factor.name, factor.name): factor.concepts[concept]
            for factor, concept in zip(
                world.factors, scene.concepts[0, number].tolist(), strict=True
            )
        }
        place = "3d_coords" if scene.position.shape[-1] == 3 else "2d_coords"
        written.append(
            {
                "shape": SHAPES[int(scene.shape[0, number])],
                "material": MATERIALS[int(scene.material[0, number])],
                **concepts,
                place: scene.position[0, number].tolist(),
                "rotation": float(scene.rotation[0, number]),
                "radius": float(scene.size[0, number]),
                "rgb": scene.colour[0, number].tolist(),
            }
        )
    return written


def _solid_entries(scenes: Scenes, size: int) -> list[dict[str, Any]]:
    """Return what CLEVR derives from a scene: pixels, directions and relationships."""
    place, depth = places(scenes)
    axes = directions(look_at(scenes.camera, torch.zeros_like(scenes.camera)))
    entries = []
    for number in range(len(scenes)):
        kept = scenes.present[number]
        pixels = (place[number, kept] * size).round().int().tolist()
        own = {name: axis[number] for name, axis in axes.items()}
        entries.append(
            {
                "pixel_coords": [
                    [*pixel, far]
                    for pixel, far in zip(pixels, depth[number, kept].tolist(), strict=True)
                ],
                "directions": {name: axis.tolist() for name, axis in own.items()},
                "relationships": {
                    name: _related(scenes.position[number, kept], own[name])
                    for name in ("behind", "front", "left", "right")
                },
            }
        )
    return entries


def _related(position: Tensor, axis: Tensor) -> list[list[int]]:
    """Return, for each object, those that lie in a direction from it."""
    along = position @ axis
    return [(along - here > RELATED).nonzero()[:, 0].tolist() for here in along]


class _Reader:
    """One scene of a file; every complaint names the scene and the object."""

    def __init__(self, entry: object, number: int, world: World) -> None:
        self.world, self.where = world, f"scene {number}"
        self.entry = _mapping(entry, self.where)
        self.objects = _list(_entry(entry, "objects", self.where), f"{self.where}: objects")
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
            "position": torch.zeros(objects, 3 if self._is_solid() else 2),
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

    def _is_solid(self) -> bool:
        return self.world.name in ("clevr", "shapes3d")

    def _object(self, number: int) -> dict[str, Any]:
        entry, where = self.objects[number], f"{self.where}, object {number}"
        shape = _concept(_entry(entry, "shape", where), Factor("shape", SHAPES), where)
        material = _entry(entry, "material", where)
        concepts = [
            _concept(_entry(entry, SPELLING.get(f.name, f.name), where), f, where)
            for f in self.world.factors
        ]
        names = {f.name: f.concepts[c] for f, c in zip(self.world.factors, concepts, strict=True)}
        size = entry.get("radius", clevr.SIZES.get(names.get("size", "")))
        colour = entry.get("rgb")
        if colour is None:
            colour = [c / 255 for c in clevr.PALETTE.get(names.get("colour", ""), ())]
        place, length = ("3d_coords", 3) if self._is_solid() else ("2d_coords", 2)
        return {
            "position": _numbers(_entry(entry, place, where), length, f"{where}: {place}"),
            "size": _numbers([size], 1, f"{where}: radius")[0],
            "rotation": _numbers([_entry(entry, "rotation", where)], 1, f"{where}: rotation")[0],
            "colour": _numbers(colour, 3, f"{where}: rgb"),
            "shape": shape,
            "material": _concept(material, Factor("material", MATERIALS), where),
            "concepts": concepts,
        }

    def _view(self, position: Tensor, image: tuple[int, int]) -> dict[str, Tensor]:
        """Return camera, lamps and backdrop: as recorded, or as they must have been."""
        entry = self.entry
        recorded = {
            name: torch.tensor(
                [_numbers(row, 3, f"{self.where}: {name}") for row in _list(entry[name], name)]
            ).reshape(-1, 3)
            for name in ("lamps", "backdrop")
            if name in entry
        }
        view = {
            "lamps": torch.tensor(LAMP_POSITIONS),
            "backdrop": torch.full((1, 3), clevr.FLOOR),
        } | recorded
        if "camera" in entry:
            eye = torch.tensor(_numbers(entry["camera"], 3, f"{self.where}: camera"))
        elif self.world.name != "clevr":
            raise ValueError(f"{self.where} has no 'camera'; a {self.world.name} scene needs one")
        else:
            eye = self._recovered(position, image)
        return view | {"camera": eye}

    def _recovered(self, position: Tensor, image: tuple[int, int]) -> Tensor:
        pixels = [
            _numbers(
                _entry(entry, "pixel_coords", f"{self.where}, object {number}"),
                3,
                f"{self.where}, object {number}: pixel_coords",
            )
            for number, entry in enumerate(self.objects)
        ]
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


def _concept(value: object, factor: Factor, where: str) -> int:
    try:
        return factor.index(str(value))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


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
