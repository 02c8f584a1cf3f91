"""What there is to run and to measure, readable without torch: worlds, studies, shipped weights.

To import a study takes seconds, and `recombine list`, its help and the completion of names should
not. So `recombine report` writes what they show into index.json beside this file, and a test
holds the two together.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recombine.scene import World
    from recombine.study import Study

PATH = Path(__file__).with_name("index.json")


def indexed(
    worlds: Sequence["World"], studies: Mapping[str, "Study"], zoo: Mapping[str, str]
) -> dict[str, Any]:
    """Return the index of these worlds, studies and weights; of weights what trains the like."""
    return {
        "worlds": {world.name: listed_world(world) for world in worlds},
        "studies": {name: listed_study(study) for name, study in studies.items()},
        "zoo": dict(zoo),
    }


def listed_world(world: "World") -> dict[str, Any]:
    """Return the side of a world's images in pixels, and its factors with their concepts."""
    factors = {factor.name: list(factor.concepts) for factor in world.factors}
    return {"size": world.size, "factors": factors}


def listed_study(study: "Study") -> dict[str, Any]:
    """Return what each level of each axis says, levels and world of each cell, and what it costs.

    A cell without a training has no world.
    """
    axes = {
        name: {key: level.says for key, level in axis.levels.items()}
        for name, axis in study.axes.items()
    }
    return {
        "question": study.question,
        "axes": axes,
        "cells": {key: dict(levels) for key, levels in study.levels.items()},
        "worlds": {
            key: training.world.name if training else "closed form"
            for key, cell in study.cells.items()
            for training in [getattr(cell, "training", None)]
        },
        "headline": list(study.headline),
        "cost": study.cost,
    }


def text(index: Mapping[str, Any]) -> str:
    """Return the content of the file."""
    return json.dumps(index, indent=1, ensure_ascii=False) + "\n"


def read() -> dict[str, Any]:
    """Read the file."""
    content: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    return content
