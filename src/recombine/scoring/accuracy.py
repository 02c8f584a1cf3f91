"""The accuracy of images that were made elsewhere, for a whole set or batch by batch.

accuracy               valid, and everything that was requested is right
valid                  the reader takes the image for one of its world
all_right, shape_right, ...   right, whether valid or not; count_right where images have objects
NAME@GROUP             the same for seen, dev, test, level0, ... of a split, or one composition
NAME_ceiling           the same of true renders of the same requests, through the same reader

Every number is a count of images, so it does not depend on batches or on their order.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from recombine.measurement import Measurement
from recombine.scene import World, composition_number, compositions
from recombine.scoring.labels import Labelled, requests_of
from recombine.scoring.matching import ABSENT, UNNAMED, judged
from recombine.scoring.reading import SeenObjects, most_objects, read, readable, renders
from recombine.scoring.states import Accumulated
from recombine.split import Split

AT_ONCE = 64
RENDERED = 64
"""At most so many true renders of a request stand behind the ceiling."""

GivenImages: TypeAlias = (
    Float[Tensor, "batch 3 height width"] | UInt8[Tensor, "batch 3 height width"]
)


class CompositionAccuracy(Accumulated):
    """Accuracy over images that come in batches: `update(images, labels)`, then `compute()`.

    A Metric of torchmetrics where that is installed, with the same numbers. `compute` returns
    plain values by name; `measurements` the same with intervals, and the ceiling.
    """

    full_state_update = False
    higher_is_better = True
    is_differentiable = False

    def __init__(self, world: World, split: Split | None = None) -> None:
        super().__init__()
        self.world = readable(world)
        if split is not None and split.factors != world.factors:
            names = ", ".join(each.name for each in world.factors)
            raise ValueError(f"split {split.name} is not of the concepts of {world.name}: {names}")
        self.split = split
        for name in ("requests", "right", "fulfilled", "counted", "valid"):
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(self, images: GivenImages, labels: Labelled) -> None:
        """Read images in [0, 1], or of bytes, and compare them with their labels."""
        images = images.float() / 255 if images.dtype == torch.uint8 else images
        requests = requests_of(labels, self.world.factors, most_objects(self.world))
        if len(requests) != len(images):
            raise ValueError(f"{len(images)} images have as many labels; got {len(requests)}")
        if len(images):
            self._judge(requests, read(self.world, images))

    def _judge(self, requests: Int[Tensor, "batch object factor"], seen: SeenObjects) -> None:
        found = judged(requests, seen.concepts, seen.present)
        for name, value in zip(("right", "fulfilled", "counted"), found, strict=True):
            getattr(self, name).append(value)
        self.requests.append(requests)
        self.valid.append(seen.valid.cpu())

    def compute(self) -> dict[str, Tensor]:
        """Return the value of every number by its name, without ceilings."""
        found = self.measurements(ceiling=False)
        return {name: torch.tensor(each.value).double() for name, each in found.items()}

    def measurements(self, ceiling: bool = True) -> dict[str, Measurement]:
        """Return every number with its interval, and beside it the ceiling: true renders."""
        states = {name: _joined(getattr(self, name)) for name in self.named}
        if not len(states["requests"]):
            raise ValueError("a score needs at least 1 image; got none")
        found = self._numbers(states, "")
        if ceiling:
            found |= self._numbers(self._rendered(states["requests"]), "_ceiling")
        return found

    def _rendered(self, requests: Int[Tensor, "image object factor"]) -> dict[str, Tensor]:
        """Return what is read in true renders of all requests."""
        true = CompositionAccuracy(self.world, self.split)
        made, shown, group = [], [], []
        for request, count in zip(*requests.unique(dim=0, return_counts=True), strict=True):
            images, objects = renders(self.world, request, min(int(count), RENDERED))
            absent = requests.shape[1] - objects.shape[1]
            made.append(images)
            shown.append(torch.nn.functional.pad(objects, (0, 0, 0, absent), value=ABSENT))
            group.append(request.expand(len(images), *request.shape))
        true._judge(torch.cat(shown), read(true.world, torch.cat(made)))
        # Groups are those of the request.
        true.requests = [torch.cat(group)]
        return {name: _joined(getattr(true, name)) for name in self.named}

    def _numbers(self, states: Mapping[str, Tensor], whose: str) -> dict[str, Measurement]:
        right, every, valid = states["right"], states["fulfilled"], states["valid"]
        rates = {f"accuracy{whose}": every & valid, f"valid{whose}": valid}
        if not whose:
            rates["all_right"] = every
            if most_objects(self.world) > 1:
                rates["count_right"] = states["counted"]
        found = {}
        for group, mine in self._groups(states["requests"], whose).items():
            for name, good in rates.items():
                found[name + group] = _rate(good[mine])
            if whose:
                continue
            for factor, each in zip(self.world.factors, right.unbind(dim=1), strict=True):
                if len(named := each[mine][each[mine] != UNNAMED]):
                    found[f"{factor.name}_right{group}"] = _rate(named == 1)
        return found

    def _groups(
        self, requests: Int[Tensor, "image object factor"], whose: str
    ) -> dict[str, Bool[Tensor, " image"]]:
        """Return which images belong to each group; a group without an image is left out."""
        groups = {"": torch.ones(len(requests), dtype=torch.bool)}
        number = self._number(requests)
        whole = ((number >= 0) | (requests == ABSENT).all(dim=-1)).all(dim=1)
        every = compositions(self.world.factors)
        if self.split is not None:
            split, here = self.split, number.clamp(min=0)
            # As in composition: levels beyond 0 are those of test compositions.
            away = {
                each: level
                for level in split.levels
                for each in split.at(level)
                if level == 0 or each in split.test
            }
            level = torch.tensor([away.get(each, -1) for each in every])
            of_object = torch.where(number >= 0, level[here], 0)
            levels = torch.where((of_object >= 0).all(dim=1), of_object.amax(dim=1), -1)
            groups |= {f"@level{each}": whole & (levels == each) for each in split.levels}
            groups["@seen"], groups["@test"] = groups["@level0"], whole & (levels > 0)
            dev = torch.tensor([each in split.dev for each in every])
            groups["@dev"] = whole & ((number >= 0) & dev[here]).any(dim=1)
        if requests.shape[1] == 1 and not whose:
            there = number[:, 0].unique().tolist()
            for each in (each for each in there if each >= 0):
                groups[f"@{'-'.join(every[each])}"] = number[:, 0] == each
        return {name: mine for name, mine in groups.items() if mine.any()}

    def _number(self, requests: Int[Tensor, "image object factor"]) -> Int[Tensor, "image object"]:
        """Return the number of each requested composition, -1 where it is not wholly named."""
        number = composition_number(requests, self.world.factors)
        return torch.where((requests >= 0).all(dim=-1), number, -1)


def score(
    images: GivenImages | Sequence[Path | str],
    labels: Labelled,
    world: World,
    split: Split | None = None,
) -> dict[str, Measurement]:
    """Return how often images, or image files, show what their labels say; with the ceiling.

    A label is one concept for each factor, ("triangle", "small", "blue"), or a mapping of those
    that are named, {"shape": "triangle"}; in CLEVR it may be a list of such objects.
    """
    found = CompositionAccuracy(world, split)
    requests = requests_of(labels, world.factors, most_objects(found.world))
    if len(requests) != len(images):
        raise ValueError(f"{len(images)} images have as many labels; got {len(requests)}")
    for first in range(0, len(images), AT_ONCE):
        here = slice(first, first + AT_ONCE)
        part: Any = images[here]
        found.update(part if isinstance(part, Tensor) else _opened(part, world), requests[here])
    return found.measurements()


def _opened(paths: Sequence[Path | str], world: World) -> GivenImages:
    from recombine.scoring.pictures import opened  # here, as tensors need no files

    return opened([Path(each) for each in paths], world)


def _joined(parts: Any) -> Tensor:
    """Return a state as one tensor; torchmetrics may have joined it already."""
    if isinstance(parts, Tensor):
        return parts
    return torch.cat(parts) if parts else torch.zeros(0)


def _rate(good: Bool[Tensor, " image"]) -> Measurement:
    return Measurement.rate(int(good.sum()), len(good))
