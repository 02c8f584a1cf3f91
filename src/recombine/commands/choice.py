"""What a user may choose: a world and its settings, a device, a range of counts."""

import re
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import torch

from recombine.commands.grammar import written
from recombine.report.words import nearest
from recombine.scene import World
from recombine.worlds import WORLDS

SMALLEST, LARGEST = 8, 2048


def chosen_world(name: str) -> World:
    """Return the world of this name, or say which ones there are."""
    names = [world.name for world in WORLDS]
    if name not in names:
        known = ", ".join(names)
        raise ValueError(f"world {name!r} is not one of {known}{nearest(name, names)}")
    return WORLDS[names.index(name)]


def with_setting(world: World, field: str, value: Any) -> World:
    """Return the world with one field set, or say that it has no such field."""
    declared: Any = world
    if field not in {each.name for each in fields(declared)}:
        raise ValueError(f"world {world.name} has no {field} to set; got {value!r}")
    return replace(declared, **{field: value})


def chosen_size(size: int) -> int:
    """Return the side of an image in pixels when it is one that can be drawn and kept."""
    if not SMALLEST <= size <= LARGEST:
        raise ValueError(f"a size is between {SMALLEST} and {LARGEST} pixels; got {size}")
    return size


def chosen_image_size(text: str) -> tuple[int, int]:
    """Read "128" or "480x320" as the width and height of an image."""
    match = re.fullmatch(r"(\d{1,6})(?:x(\d{1,6}))?", text)
    if not match:
        raise ValueError(f"an image size is such as 128 or 480x320; got {text!r}")
    return chosen_size(int(match[1])), chosen_size(int(match[2] or match[1]))


def chosen_objects(counts: Sequence[int]) -> tuple[int, int]:
    """Return the fewest and the most objects of a scene, where every count between is possible."""
    fewest, most = min(counts, default=-1), max(counts, default=-1)
    if fewest < 0 or sorted(counts) != list(range(fewest, most + 1)):
        got = written(tuple(counts))
        raise ValueError(f"--objects is a count or a range, such as 4 or 3-6; got {got}")
    return fewest, most


def chosen_device(name: str | None) -> torch.device:
    """Return the device of this name; without one, the accelerator if there is one."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device {name!r} cannot be used here: {reason}") from error
    return device
